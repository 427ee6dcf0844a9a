// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>

// How much is read of whom. What is longer is refused, never cut, except for
// texts that only people read.
namespace mountd::cni {

struct TextBounds {
  std::size_t max_bytes = 0;
  std::size_t max_depth = 0;
  std::size_t max_values = 0;
};

// Some thousand port maps, or attachments that GC keeps.
inline constexpr TextBounds kRequestBounds{1U << 20U, 8, 65536};
inline constexpr TextBounds kConfigBounds{256U << 10U, 32, 16384};
inline constexpr TextBounds kOutputBounds{1U << 20U, 32, 65536};
// Configuration, request and result of one attachment.
inline constexpr TextBounds kRecordBounds{2U << 20U, 40, 131072};

inline constexpr std::size_t kMaxConfigFiles = 256;
inline constexpr std::size_t kMaxPlugins = 32;
inline constexpr std::size_t kMaxStderrBytes = 4096;
// CNI_ARGS, of 128 KiB that the kernel takes for one variable (execve(2)).
inline constexpr std::size_t kMaxArgsBytes = 32U << 10U;
// Of a plugin's words in an error, in bytes.
inline constexpr std::size_t kMaxDetailBytes = 200;

}  // namespace mountd::cni
