// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

namespace mountd::testing {

// What mountd's processes and stores take, by what it is: "mountd rss_kb",
// "mountd fds", "mountd threads", the same of the others, of which there may be
// several, "boot.db kb".
using SoakResources = std::map<std::string, long>;

SoakResources TakeSoakResources();

// Samples that were taken with as much to do.
//
// What leaks grows with each operation, so it is more at the end than at the
// beginning, whatever it varies by in between. The first quarter is left out:
// threads, buffers and the allocator's pools are made when they are first
// needed. Of the rest, the median of the last third is compared with that of
// the first: a median, as any one sample may meet a thread that is about to
// end. It may be more by `slack`, of each kind, which is what such chance is
// worth; a soak of more operations has the same slack, and finds the smaller
// leak.
class SoakSeries {
 public:
  void Add(SoakResources sample) { samples_.push_back(std::move(sample)); }
  // "" if nothing grew.
  std::string Growth() const;
  // To be read.
  std::string Text() const;

 private:
  std::vector<SoakResources> samples_;
};

}  // namespace mountd::testing
