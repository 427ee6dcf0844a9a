// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The content of a volume or a snapshot: a directory or a file with its id as
// the name, in a directory that only root reaches. A tmpfs has no content on
// the disk. These functions return after the content is on the disk.
namespace mountd::csi_local {

// Makes empty content; an image gets its file system. Removes existing content
// first.
Result<void> MakeContent(const UniqueFd& directory, const std::string& name,
                         const Content& content);

// Copies the entry `from_name`. Makes an image as large as `content` says.
// Removes existing content first.
Result<void> CopyContent(const UniqueFd& from, const std::string& from_name,
                         const UniqueFd& to, const std::string& name,
                         const Content& content);

// Ok if there is no content.
Result<void> RemoveContent(const UniqueFd& directory, const std::string& name);

// NotFound; Internal if the content is no regular file.
Result<UniqueFd> OpenImage(const UniqueFd& directory, const std::string& name);

// Grows the image; never makes it smaller.
Result<void> GrowImage(const UniqueFd& directory, const std::string& name,
                       std::int64_t bytes);

// Returns how many bytes of the disk the content takes; 0 if there is none.
std::int64_t AllocatedBytes(const UniqueFd& directory, const std::string& name);

}  // namespace mountd::csi_local
