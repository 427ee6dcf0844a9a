// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The names of a shim's files in the task's directory.
namespace mountd::shim {

inline constexpr char kSocketFile[] = "shim.sock";
// The socket's name until the socket listens.
inline constexpr char kNewSocketFile[] = "shim.sock.new";
// The message kExited, or kFailed if the container could not be made. The shim
// renames the complete file to this name before it answers any driver.
inline constexpr char kExitFile[] = "exit";
inline constexpr char kNewExitFile[] = "exit.new";
inline constexpr char kPidFile[] = "init.pid";

// The end of the name of the runtime's exec.fifo while a shim lets the
// container go. A FIFO of this name is left if somebody has killed the shim
// meanwhile.
inline constexpr char kLetGoSuffix[] = ".let-go";

}  // namespace mountd::shim
