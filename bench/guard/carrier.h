// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// How a program that runs in valgrind makes a system call that valgrind does
// not know. It makes another one instead, which valgrind passes on as it is:
// prctl(2) with an option that no kernel has, and the five arguments after it.
// A tracer outside (native_calls.cc) puts the real call in its place, so that
// it is made by the very process, with its fds, its namespaces and its
// capabilities.
namespace mountd::bench {

// The option: these bits, and the system call's number below them.
inline constexpr unsigned kCarrier = 0x6d6f0000;
inline constexpr unsigned kCarrierMask = 0xffff0000;

// What the preloaded library takes as the end of a section (preload.cc).
inline constexpr int kMarkSignal = 44;  // no one of mountd's or of glibc's

}  // namespace mountd::bench
