// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/exec/kernel.h"

namespace mountd::netns {

// Network namespaces made ahead, with their loopback up: one takes the kernel
// longer than all the rest of a network. How many is as many as were lately
// taken before they could be made anew. They are nobody's until they are taken,
// and end with the process.
//
// Made between plans alone, as a plan that waits would wait for them.
class NamespacePool {
 public:
  static constexpr std::size_t kLeast = 4;
  static constexpr std::size_t kMost = 64;

  // A ready one, or one made now.
  Result<exec::NetNamespace> Take(exec::Kernel& kernel);

  // From now on there are some; before, this process makes no networks.
  void Start();
  bool WantsMore() const { return ready_.size() < target_; }
  // Makes one more.
  Result<void> Add(exec::Kernel& kernel);
  // Nothing was taken for a while: half of what is above the least goes.
  void Shrink();

  std::size_t size() const { return ready_.size(); }
  std::size_t target() const { return target_; }

 private:
  std::vector<exec::NetNamespace> ready_;
  std::size_t target_ = 0;
};

}  // namespace mountd::netns
