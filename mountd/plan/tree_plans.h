// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mountd/plan/values.h"

// The plan about a tree of files in an allocation's directory, and its reply.
namespace mountd::exec {

inline constexpr std::size_t kMaxTreeDepth = 64;

// RemoveTree and ChownTree take the directory as an fd beside the plan, and do
// a part of the work.
struct TreePlan {
  CallerPlan caller;
  // ChownTree only: the new owner, and the position from the last answer.
  // `depth` 0 means: begin at the start.
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t depth = 0;
  std::array<std::uint64_t, kMaxTreeDepth> after{};
};

struct TreeReply {
  std::uint64_t done = 0;  // files and directories of this plan
  std::uint64_t left = 0;  // ChownTree: files of other owners, unchanged
  std::uint32_t finished = 0;
  std::uint32_t depth = 0;  // ChownTree: position to continue at
  std::array<std::uint64_t, kMaxTreeDepth> after{};
};

}  // namespace mountd::exec
