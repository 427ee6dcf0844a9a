// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/namespace_pool.h"

#include <algorithm>
#include <utility>

#include "netns/plans/netlink.h"
#include "netns/plans/veth.h"

namespace mountd::netns {
namespace {

Result<exec::NetNamespace> MakeNamespace(exec::Kernel& kernel) {
  MOUNTD_ASSIGN(exec::NetNamespace made,
                exec::Named(kernel.NewNetNamespace(), "unshare", "netns"));
  Channel inside(kernel, std::move(made.route));
  MOUNTD_TRY(RaiseLoopback(&inside, "netns"));
  made.route = std::move(inside).Release();
  return made;
}

}  // namespace

Result<exec::NetNamespace> NamespacePool::Take(exec::Kernel& kernel) {
  Start();
  if (ready_.empty()) {
    // The pool was too small for the demand.
    target_ = std::min(target_ * 2, kMost);
    return MakeNamespace(kernel);
  }
  exec::NetNamespace one = std::move(ready_.back());
  ready_.pop_back();
  return one;
}

void NamespacePool::Start() { target_ = std::max(target_, kLeast); }

Result<void> NamespacePool::Add(exec::Kernel& kernel) {
  MOUNTD_ASSIGN(exec::NetNamespace one, MakeNamespace(kernel));
  ready_.push_back(std::move(one));
  return Ok();
}

void NamespacePool::Shrink() {
  if (target_ <= kLeast) {
    return;
  }
  target_ = std::max(kLeast, target_ / 2);
  while (ready_.size() > target_) {
    ready_.pop_back();
  }
}

}  // namespace mountd::netns
