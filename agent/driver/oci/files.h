// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Files of the driver's own directories. No function follows a symlink at the
// end of a path.
namespace mountd::driver {

// Makes the directory `name`, mode 0700, unless it is there, and opens it.
Result<UniqueFd> MakeDirectory(int parent, const std::string& name);
Result<UniqueFd> OpenDirectory(int parent, const std::string& name);

bool IsThere(int directory, const std::string& name);

// Returns the bytes of a regular file. NotFound if there is none.
Result<std::string> ReadFile(int directory, const std::string& name,
                             std::size_t most);

// Whether WriteFile waits for the disk. A SIGKILL of any process loses nothing
// in either case; a loss of power does.
enum class Sync {
  // Nobody reads the file after a loss of power, which ends each task.
  kNone,
  // After a loss of power the file is there as a whole, or not at all.
  kFile,
};

// Writes the file, mode 0600. At any time the name has the complete old text or
// the complete new text.
Result<void> WriteFile(int directory, const std::string& name,
                       std::string_view text, Sync sync);

// Makes an empty file that survives a loss of power. All names that the
// directory had before survive it, too, because the call syncs the directory.
Result<void> MarkWith(int directory, const std::string& name);

}  // namespace mountd::driver
