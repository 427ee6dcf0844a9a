// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/base.h"

// A task's inbox: the directory base/a/<allocation>/<task>. The task's runtime
// binds the inbox into the task once, as rslave. From then on, each mount that
// an executor attaches, replaces or detaches below the inbox changes in the
// task, too, and nobody has to enter the task. This also works in a task with a
// user namespace of its own, where the flags of these mounts are locked.
//
// A task's first mount makes the directory, and its last mount removes it. An
// inbox stays until RemoveInbox, so that the task's copy keeps following it.
// The directory's mode tells an inbox from such a task directory.
namespace mountd::propagation {

// The allocation's directory decides which users reach the inbox.
inline constexpr unsigned kTaskMode = 0711;   // goes with its last mount
inline constexpr unsigned kInboxMode = 0755;  // stays; tasks may list it

// Makes the task's directory an inbox. Idempotent.
Result<void> PrepareInbox(const Context& context, const exec::TaskPlan& plan,
                          const exec::Tell<exec::MountState>& tell);

// Returns a clone of the inbox with the mounts in it, attached nowhere. The
// clone follows the inbox once the receiver has attached it. The flags of its
// mounts are locked (lock_tree.h), and so are those of mounts that arrive by
// propagation in a user namespace of the receiver's. FailedPrecondition if a
// file system of the kernel is mounted in the inbox.
Result<UniqueFd> OpenInbox(const Context& context, const exec::TaskPlan& plan,
                           exec::HandedOutMount* mount);

// Removes the inbox. A missing inbox is success. Busy while a mount is in it.
Result<void> RemoveInbox(const Context& context, const exec::TaskPlan& plan);

// Opens the task's directory, an inbox or not. Makes it, not as an inbox, if it
// is missing.
Result<UniqueFd> EnsureTask(const Context& context, const UniqueFd& allocation,
                            const std::string& task, const std::string& object,
                            exec::Undo* undo);

// Removes the task's directory if it is empty and not an inbox.
Result<void> RemoveTaskIfUnused(const Context& context,
                                const UniqueFd& allocation,
                                const std::string& task,
                                const std::string& object);

}  // namespace mountd::propagation
