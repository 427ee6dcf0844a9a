// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/kernel/kernel.h"

namespace mountd::netns {

// Owns network namespaces made ahead, with their loopback up, because making
// one takes the kernel longer than the rest of a network. The pool grows while
// namespaces are taken faster than it makes new ones. A namespace belongs to
// nobody until it is taken, and ends with the process.
//
// The executor makes them only between plans, because a waiting plan would have
// to wait for them.
class NamespacePool {
 public:
  static constexpr std::size_t kLeast = 4;
  static constexpr std::size_t kMost = 64;

  // Returns a ready namespace, or makes one now.
  Result<exec::NetNamespace> Take(exec::Kernel& kernel);

  // Sets the target from 0 to at least kLeast. Until then this process makes no
  // networks.
  void Start();
  bool WantsMore() const { return ready_.size() < target_; }
  // Makes one more namespace.
  Result<void> Add(exec::Kernel& kernel);
  // Drops half of the namespaces above kLeast. Called when no namespace was
  // taken for a while.
  void Shrink();

  std::size_t size() const { return ready_.size(); }
  std::size_t target() const { return target_; }

 private:
  std::vector<exec::NetNamespace> ready_;
  std::size_t target_ = 0;
};

}  // namespace mountd::netns
