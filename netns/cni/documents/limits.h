// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>

// Bounds of what is read from others. A longer text is refused and never cut,
// except for texts that only people read.
namespace mountd::cni {

struct TextBounds {
  std::size_t max_bytes = 0;
  std::size_t max_depth = 0;
  std::size_t max_values = 0;
};

// Enough for some thousand port maps, or attachments that GC keeps.
inline constexpr TextBounds kRequestBounds{1U << 20U, 8, 65536};
inline constexpr TextBounds kConfigBounds{256U << 10U, 32, 16384};
inline constexpr TextBounds kOutputBounds{1U << 20U, 32, 65536};
// Bounds of one attachment's record: configuration, request and result.
inline constexpr TextBounds kRecordBounds{2U << 20U, 40, 131072};

inline constexpr std::size_t kMaxConfigFiles = 256;
inline constexpr std::size_t kMaxPlugins = 32;
inline constexpr std::size_t kMaxStderrBytes = 4096;
// Bounds CNI_ARGS; the kernel takes 128 KiB for one variable (execve(2)).
inline constexpr std::size_t kMaxArgsBytes = 32U << 10U;
// Bounds a plugin's words in an error, in bytes.
inline constexpr std::size_t kMaxDetailBytes = 200;

}  // namespace mountd::cni
