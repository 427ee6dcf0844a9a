// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// Lets a program in valgrind make a system call that valgrind does not know.
// The program makes another call, which valgrind passes on unchanged: prctl(2)
// with an option that no kernel has, followed by five arguments. A tracer
// outside (native_calls.cc) replaces that call by the real one, so that the
// process itself makes it, with its own fds, namespaces and capabilities.
namespace mountd::bench {

// The prctl option: these bits, with the system call's number below them.
inline constexpr unsigned kCarrier = 0x6d6f0000;
inline constexpr unsigned kCarrierMask = 0xffff0000;

// The signal at which the preloaded library ends a section (preload.cc).
inline constexpr int kMarkSignal = 44;  // neither mountd nor glibc uses it

}  // namespace mountd::bench
