// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "propagation/context.h"

// Directories of the base that one user alone, besides root, may pass through.
// What is below such a directory needs no guard of its own.
//
// The user is named by an access control list, acl(5), because a group would
// let everybody in who shares it: users that are made without a group of their
// own have nogroup in common. A process in a user namespace that maps the user
// passes too, as the kernel compares the ids of the initial namespace; one of
// the user's subordinate ids does not.
namespace mountd::propagation {

// FailedPrecondition if the file system of `fd` keeps no lists (a kernel
// without CONFIG_TMPFS_POSIX_ACL).
Result<void> CheckKeepsLists(const Context& context, int fd,
                             const std::string& object);

// Makes the directory `name` in `dir` if it is missing, removed again by
// `undo`, lets `uid` pass, and opens it: root's,
// u::rwx,u:<uid>:--x,g::---,o::---. Also completes what an interrupted plan
// left, and what a mountd made that let a group pass. FailedPrecondition if
// another user may pass, or something else is there. `dir` must outlive `undo`.
Result<UniqueFd> EnsurePassage(const Context& context, int dir,
                               const std::string& name, std::uint32_t uid,
                               const std::string& object, exec::Undo* undo);

// The same of a directory that is there, which `fd` is an O_PATH fd of.
Result<void> LetPass(const Context& context, int fd, std::uint32_t uid,
                     const std::string& object);

// The user that EnsurePassage let pass; 0 if there is none.
std::uint32_t PasserOf(const Context& context, int fd);

}  // namespace mountd::propagation
