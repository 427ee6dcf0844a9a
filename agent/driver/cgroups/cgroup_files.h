// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The files of a cgroup's directory. All paths are one component beneath an fd,
// and no function follows a symlink.
namespace mountd::driver {

Result<UniqueFd> OpenCgroup(int parent, const std::string& name);
bool HasCgroupFile(const UniqueFd& cgroup, const char* file);
// NotFound if the file is missing, for example because its controller is not
// delegated.
Result<std::string> ReadCgroupFile(const UniqueFd& cgroup, const char* file);
Result<void> WriteCgroupFile(const UniqueFd& cgroup, const char* file,
                             std::string_view text);

// Returns the words of a text, which spaces and line ends separate.
std::vector<std::string> WordsOfText(const std::string& text);
// Returns the number after `key` in a file of "key number" lines.
std::optional<std::uint64_t> NumberAfter(const std::string& text,
                                         std::string_view key);

}  // namespace mountd::driver
