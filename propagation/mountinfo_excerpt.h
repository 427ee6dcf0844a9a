// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "propagation/mount_inspector.h"

namespace mountd::propagation {

// What a search for copies needs of a mount namespace, which may have a hundred
// thousand mounts: reading a line in full takes longer than to skip it.
struct MountinfoExcerpt {
  // Those on one of the devices, what they are attached to, and those that
  // hand on what they receive ("shared:" and "master:").
  std::vector<MountFacts> mounts;
  std::unordered_set<std::uint64_t> ids;                  // of all
  std::unordered_map<std::uint64_t, std::size_t> places;  // in `mounts`, by id
};

// `devices`: of st_dev.
MountinfoExcerpt ExcerptOf(const std::vector<MountFacts>& mounts,
                           const std::set<std::uint64_t>& devices);
Result<MountinfoExcerpt> ExcerptOf(const std::string& mountinfo,
                                   const std::set<std::uint64_t>& devices);

}  // namespace mountd::propagation
