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
  std::uint64_t mount_id;
  const std::string& object;
  std::size_t left = kMaxEntries;
};

Error TooMuch(const std::string& object) {
  return MakeError(Code::kResourceExhausted, "remove", object,
                   "too many files were left in the directory");
}

// Depth is bounded by kMaxDepth.
Result<void> Empty(Removal* removal, int parent, const std::string& name,
                   std::size_t depth) {
  exec::Kernel& kernel = removal->context.kernel;
  if (depth == kMaxDepth) {
    return TooMuch(removal->object);
  }
  MOUNTD_ASSIGN(
      const UniqueFd dir,
      Named(kernel.Open(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
                        RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
                            RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV),
            "openat2", removal->object));
  MOUNTD_ASSIGN(const std::vector<std::string> names,
                Named(kernel.List(dir.get(), kMaxEntries), "getdents64",
                      removal->object));
  for (const std::string& entry : names) {
    if (removal->left == 0) {
      return TooMuch(removal->object);
    }
    --removal->left;
    MOUNTD_ASSIGN(const FileFacts file, Named(kernel.Stat(dir.get(), entry),
                                              "statx", removal->object));
    if (file.mount_root || file.mount_id != removal->mount_id) {
      return MakeError(Code::kBusy, "remove", removal->object,
                       "a mount is in the directory");
    }
    if (S_ISDIR(file.mode)) {
      MOUNTD_TRY(Empty(removal, dir.get(), entry, depth + 1));
    }
    MOUNTD_TRY(Named(S_ISDIR(file.mode)
                         ? kernel.RemoveDirectory(dir.get(), entry)
                         : kernel.RemoveFile(dir.get(), entry),
                     "unlinkat", removal->object));
  }
  return names.size() < kMaxEntries ? Ok()
                                    : Result<void>(TooMuch(removal->object));
}

}  // namespace

Result<void> EmptyDirectory(const Context& context, int parent,
                            const std::string& name, std::uint64_t mount_id) {
  Removal removal{context, mount_id, name};
  return Empty(&removal, parent, name, 0);
}

}  // namespace mountd::propagation
