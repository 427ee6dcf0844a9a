// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

// A task's inbox: the directory base/a/<allocation>/<task>. Its runtime binds
// it into the task once, as rslave. From then on each mount that is attached
// below it, replaced or detached here is so in the task too, also in one with a
// user namespace of its own, where flags are locked; nobody enters the task.
//
// Any mount of a task makes the directory, and the last one takes it away. An
// inbox stays until it is removed, so that the task's copy of it goes on being
// one; which of the two it is its mode tells.
namespace mountd::propagation {

// The allocation's directory says who gets as far as an inbox.
inline constexpr unsigned kTaskMode = 0711;   // goes with its last mount
inline constexpr unsigned kInboxMode = 0755;  // stays; tasks may list it

// Idempotent.
Result<void> PrepareInbox(const Context& context, const exec::TaskPlan& plan,
                          const exec::Tell<exec::MountState>& tell);

// Busy while a mount is in it. None is success.
// A clone of the inbox with the mounts in it, attached nowhere. Once whoever
// has it has attached it, it follows the inbox. Any flag of a mount that it
// begins with can be taken off it, so FailedPrecondition if one of them is
// read-only; what comes by propagation is locked in a user namespace of others.
Result<UniqueFd> OpenInbox(const Context& context, const exec::TaskPlan& plan,
                           exec::HandedOutMount* mount);

Result<void> RemoveInbox(const Context& context, const exec::TaskPlan& plan);

// The task's directory, either kind, made if it is missing (as no inbox).
Result<UniqueFd> EnsureTask(const Context& context, const UniqueFd& allocation,
                            const std::string& task, const std::string& object,
                            exec::Undo* undo);

// Takes an empty directory away that is no inbox.
Result<void> RemoveTaskIfUnused(const Context& context,
                                const UniqueFd& allocation,
                                const std::string& task,
                                const std::string& object);

}  // namespace mountd::propagation
