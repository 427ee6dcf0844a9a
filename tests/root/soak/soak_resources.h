// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mountd::testing {

// The resources that mountd's processes and stores take, by name: "mountd
// rss_kb", "mountd fds", "mountd threads", "boot.db kb". The largest process
// counts if a program has several.
using SoakResources = std::map<std::string, long>;

SoakResources TakeSoakResources();

// Compares samples that were taken with as much to do.
//
// A leak grows with each operation, so it is larger at the end than at the
// beginning, however it varies in between. Growth leaves out the first quarter,
// because threads, buffers and the allocator's pools are made at their first
// use. It compares the median of the last third of the rest with the median of
// the first third, because a single sample may include a thread that is about
// to end. The median may grow by a slack for each kind, which covers such
// chance. A longer soak has the same slack, and so finds smaller leaks.
class SoakSeries {
 public:
  void Add(SoakResources sample) { samples_.push_back(std::move(sample)); }
  // Returns "" if nothing grew.
  std::string Growth() const;
  // Returns all samples as text.
  std::string Text() const;

 private:
  std::vector<SoakResources> samples_;
};

}  // namespace mountd::testing
