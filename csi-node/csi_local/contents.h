// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi_local_records.pb.h>

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// What a volume or a snapshot consists of: a directory or a file by the name of
// its id, in a directory that root alone reaches. Of a tmpfs there is nothing.
// What these make is on the disk when they return.
namespace mountd::csi_local {

// Empty; an image has its file system. What is there already is taken away.
Result<void> MakeContent(const UniqueFd& directory, const std::string& name,
                         const Content& content);

// A copy of the entry `from_name`; an image becomes as large as `content` says.
// What is there already is taken away.
Result<void> CopyContent(const UniqueFd& from, const std::string& from_name,
                         const UniqueFd& to, const std::string& name,
                         const Content& content);

// Gone already is success.
Result<void> RemoveContent(const UniqueFd& directory, const std::string& name);

// NotFound; Internal if it is no regular file.
Result<UniqueFd> OpenImage(const UniqueFd& directory, const std::string& name);

// Never smaller.
Result<void> GrowImage(const UniqueFd& directory, const std::string& name,
                       std::int64_t bytes);

// How much of the disk it has; 0 if it is not there.
std::int64_t AllocatedBytes(const UniqueFd& directory, const std::string& name);

}  // namespace mountd::csi_local
