// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "propagation/ground/mount_inspector.h"

namespace mountd::propagation {

// The part of a mount namespace that a search for copies needs. A namespace may
// have a hundred thousand mounts, and parsing a line takes longer than skipping
// it.
struct MountinfoExcerpt {
  // The mounts on one of the devices, the mounts that these are attached to,
  // and the mounts that pass on the mounts they receive ("shared:" and
  // "master:").
  std::vector<MountFacts> mounts;
  std::unordered_set<std::uint64_t> ids;                  // of all mounts
  std::unordered_map<std::uint64_t, std::size_t> places;  // in `mounts`, by id
};

// Returns the excerpt. `devices` are numbers as in st_dev.
MountinfoExcerpt ExcerptOf(const std::vector<MountFacts>& mounts,
                           const std::set<std::uint64_t>& devices);
Result<MountinfoExcerpt> ExcerptOf(const std::string& mountinfo,
                                   const std::set<std::uint64_t>& devices);

}  // namespace mountd::propagation
