// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/tmpfs.h"

#include <sys/mount.h>

#include <array>
#include <cstdio>

namespace mountd::propagation {
namespace {

using exec::Named;

std::string Octal(std::uint32_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%o", mode);
  return text.data();
}

Result<void> SetNoSwap(const Context& context, int fs,
                       const std::string& object) {
  const exec::Sys<void> set =
      context.kernel.ConfigureFilesystem(fs, "noswap", nullptr);
  // fsconfig(2) answers EINVAL for a key that the file system does not know.
  if (exec::FailedWith(set, EINVAL)) {
    return MakeError(Code::kNotSupported, "fsconfig", object,
                     "the kernel's tmpfs has no noswap before Linux 6.4; mount "
                     "it without noswap");
  }
  return Named(set, "fsconfig", object);
}

}  // namespace

Result<UniqueFd> MakeTmpfs(const Context& context, const exec::TmpfsPlan& plan,
                           const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const UniqueFd fs,
                Named(kernel.OpenFilesystem("tmpfs"), "fsopen", object));
  // tmpfs(5): without "size" a tmpfs takes up to half of the machine's memory,
  // and without "nr_inodes" as many files as half of its pages.
  for (const auto& [key, value] :
       {std::pair("source", std::string("mountd")),
        std::pair("size", std::to_string(plan.bytes)),
        std::pair("nr_inodes", std::to_string(plan.inodes)),
        std::pair("mode", Octal(plan.mode)),
        std::pair("uid", std::to_string(plan.uid)),
        std::pair("gid", std::to_string(plan.gid))}) {
    MOUNTD_TRY(Named(kernel.ConfigureFilesystem(fs.get(), key, value.c_str()),
                     "fsconfig", object));
  }
  if (plan.no_swap != 0) {
    MOUNTD_TRY(SetNoSwap(context, fs.get(), object));
  }
  MOUNTD_TRY(Named(kernel.CreateFilesystem(fs.get()), "fsconfig", object));
  return Named(
      kernel.MountFilesystem(fs.get(), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV),
      "fsmount", object);
}

}  // namespace mountd::propagation
