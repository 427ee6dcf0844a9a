// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/tree_removal.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxEntries = 4096;

struct Removal {
  const Context& context;
  std::uint64_t mount_id = 0;
  const std::string& object;
  int top = -1;         // the directory that is emptied
  bool lifted = false;  // something was moved into it
  std::size_t left = kMaxEntries;
};

Error TooMuch(const std::string& object) {
  return MakeError(Code::kResourceExhausted, "remove", object,
                   "too many files were left in the directory");
}

// Opens a directory to be emptied, and makes it root's: without
// CAP_DAC_OVERRIDE nothing is removed from, nor moved with, another user's.
Result<UniqueFd> OpenOwn(const Removal& removal, int parent,
                         const std::string& name) {
  MOUNTD_ASSIGN(UniqueFd dir,
                Named(removal.context.kernel.Open(
                          parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
                          RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                              RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV),
                      "openat2", removal.object));
  MOUNTD_TRY(TakeBack(removal.context, dir.get(), removal.object));
  return dir;
}

Result<void> Empty(Removal* removal, int dir, std::size_t depth);

// The directory `name`, with all in it.
Result<void> RemoveTree(Removal* removal, int parent, const FileFacts& file,
                        const std::string& name, std::size_t depth) {
  exec::Kernel& kernel = removal->context.kernel;
  MOUNTD_ASSIGN(const UniqueFd dir, OpenOwn(*removal, parent, name));
  if (depth == kMaxDepth) {
    removal->lifted = true;
    return Named(kernel.Rename(parent, name, removal->top,
                               "lifted-" + std::to_string(file.inode)),
                 "renameat2", removal->object);
  }
  MOUNTD_TRY(Empty(removal, dir.get(), depth));
  return Named(kernel.RemoveDirectory(parent, name), "unlinkat",
               removal->object);
}

// What lies deeper than kMaxDepth, which bounds the recursion, is moved to the
// top.
Result<void> Empty(Removal* removal, int dir, std::size_t depth) {
  exec::Kernel& kernel = removal->context.kernel;
  MOUNTD_ASSIGN(
      const std::vector<std::string> names,
      Named(kernel.List(dir, kMaxEntries), "getdents64", removal->object));
  for (const std::string& entry : names) {
    if (removal->left == 0) {
      return TooMuch(removal->object);
    }
    --removal->left;
    MOUNTD_ASSIGN(const FileFacts file,
                  Named(kernel.Stat(dir, entry), "statx", removal->object));
    if (file.mount_root || file.mount_id != removal->mount_id) {
      return MakeError(Code::kBusy, "remove", removal->object,
                       "a mount is in the directory");
    }
    MOUNTD_TRY(S_ISDIR(file.mode)
                   ? RemoveTree(removal, dir, file, entry, depth + 1)
                   : Named(kernel.RemoveFile(dir, entry), "unlinkat",
                           removal->object));
  }
  return names.size() < kMaxEntries ? Ok()
                                    : Result<void>(TooMuch(removal->object));
}

}  // namespace

Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id) {
  Removal removal{context, mount_id, name};
  MOUNTD_ASSIGN(const UniqueFd dir, OpenOwn(removal, parent, name));
  removal.top = dir.get();
  do {
    removal.lifted = false;
    MOUNTD_TRY(Empty(&removal, dir.get(), 0));
  } while (removal.lifted);
  return Ok();
}

}  // namespace mountd::propagation
