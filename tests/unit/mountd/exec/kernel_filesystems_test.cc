// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/kernel_filesystems.h"

#include <gtest/gtest.h>

namespace mountd::propagation {
namespace {

// The test of the attacks mounts only the types that its kernel has.
TEST(KernelFilesystems, AreTheseTypes) {
  for (const char* type :
       {"autofs",     "binder",     "binfmt_misc", "bpf",       "cgroup",
        "cgroup2",    "configfs",   "debugfs",     "devpts",    "devtmpfs",
        "efivarfs",   "functionfs", "fusectl",     "hugetlbfs", "mqueue",
        "nfsd",       "nsfs",       "proc",        "pstore",    "resctrl",
        "rpc_pipefs", "securityfs", "selinuxfs",   "smackfs",   "sysfs",
        "tracefs"}) {
    EXPECT_TRUE(IsKernelFilesystem(type)) << type;
  }
}

TEST(KernelFilesystems, AreNoneOfThoseThatHoldData) {
  for (const char* type :
       {"", "btrfs", "ext4", "fuse", "fuse.sshfs", "fuseblk", "nfs", "nfs4",
        "overlay", "tmpfs", "xfs", "zfs", "PROC", "proc2"}) {
    EXPECT_FALSE(IsKernelFilesystem(type)) << type;
  }
}

}  // namespace
}  // namespace mountd::propagation
