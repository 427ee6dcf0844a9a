// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "propagation/ground/context.h"

// Directories of the base that only one user, besides root, may pass. Files
// below such a directory need no guard of their own.
//
// An access control list, acl(5), names the user, because a group would let all
// its users pass: users without a group of their own share nogroup. A process
// in a user namespace that maps the user passes, too, because the kernel
// compares ids of the initial namespace. A process with one of the user's
// subordinate ids passes only by the group that the user has named, which is
// one of the ids that root's rules give to the user.
namespace mountd::propagation {

struct Passage {
  std::uint32_t uid = 0;
  std::uint32_t group = 0;  // 0: none, or the one that may pass already
};

// FailedPrecondition if the file system of `fd` keeps no access control lists
// (a kernel without CONFIG_TMPFS_POSIX_ACL).
Result<void> CheckKeepsLists(const Context& context, int fd,
                             const std::string& object);

// Makes the directory `name` in `dir` if it is missing, lets the user and the
// group pass, and opens it. The directory is root's,
// u::rwx,u:<uid>:--x,g::---,g:<group>:--x,o::---. Another group than before
// replaces the one before. Also completes what an interrupted plan left, and
// directories of older releases that let a group pass. `undo` removes a
// directory that this function made; `dir` must outlive `undo`.
// FailedPrecondition if another user may pass, or if something else is there.
Result<UniqueFd> EnsurePassage(const Context& context, int dir,
                               const std::string& name, const Passage& passage,
                               const std::string& object, exec::Undo* undo);

// Lets the user and the group of `passage` pass the existing directory that the
// O_PATH descriptor `fd` refers to. FailedPrecondition as for EnsurePassage.
Result<void> LetPass(const Context& context, int fd, const Passage& passage,
                     const std::string& object);

// Returns the user and the group that EnsurePassage let pass; uid 0 if there is
// no such user.
Passage PassageOf(const Context& context, int fd);

}  // namespace mountd::propagation
