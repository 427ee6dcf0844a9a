// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// Kills a process before its N-th step. A step is a call of libc that changes
// something outside of the process's memory. kill_at_step.cc replaces those
// calls: in a program that links it, and in each program that loads it by
// LD_PRELOAD and has the name in kProgramVariable.
namespace mountd::driver::testing {

// The variables of the environment.
inline constexpr char kProgramVariable[] = "MOUNTD_KILL_PROGRAM";
// The path of a file with N. A process counts its steps while the file is
// there.
inline constexpr char kArmVariable[] = "MOUNTD_KILL_ARM";
// The path of a file that the killed process has made, with the step's name. A
// process that finds the file there goes on.
inline constexpr char kMarkVariable[] = "MOUNTD_KILL_MARK";

// The path of a file; a kill before a sendmsg waits until the file is there.
// So a test kills a shim that has begun a program and has not said so yet.
inline constexpr char kAwaitVariable[] = "MOUNTD_KILL_AWAIT";

// Makes the steps of this process count. A child of fork(2) counts none.
void CountStepsHere();

}  // namespace mountd::driver::testing
