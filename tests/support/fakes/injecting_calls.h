// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/steps.h"
#include "mountd/kernel/kernel.h"

namespace mountd::exec {

// Errnos that any call may fail with, because they are about a device, memory
// or a security module. None of them says anything false about the call's
// object.
inline constexpr int kErrorsOfAnyCall[] = {EIO, ENOMEM, EACCES};
// The errnos above, and 0 for the end of the executor.
inline constexpr int kEndOrErrorsOfAnyCall[] = {0, EIO, ENOMEM, EACCES};

// The part of InjectingKernel that decides for each call whether it is made,
// and that records its name. The classes below it pass on the calls of one
// subject each.
class InjectingCalls : public Kernel {
 public:
  // Fails the k-th call, counted from 1 and from now on; 0 fails none.
  void FailAt(std::size_t k, int err) {
    if (fail_at_ != 0 && calls_.size() >= fail_at_) {
      failed_.insert(calls_[fail_at_ - 1]);
    }
    fail_at_ = k;
    error_ = err;
    dead_ = false;
    calls_.clear();
  }
  // Fails the k-th call and all after it, so nothing is undone, as if the
  // process was killed there.
  void DieAt(std::size_t k) {
    FailAt(k, EIO);
    dead_ = true;
  }
  // Dies at the k-th call after the current one.
  void DieAfter(std::size_t k) {
    fail_at_ = calls_.size() + k;
    error_ = EIO;
    dead_ = true;
  }
  // Dies at the k-th call if `err` is 0, otherwise fails it.
  void FailOrDieAt(std::size_t k, int err) {
    err == 0 ? DieAt(k) : FailAt(k, err);
  }
  // Calls `hook` before each call, with its name.
  void Before(std::function<void(const std::string&)> hook) {
    hook_ = std::move(hook);
  }
  const std::vector<std::string>& calls() const { return calls_; }
  // Returns the names of the calls that have failed before the last FailAt.
  const std::set<std::string>& failed() const { return failed_; }

  // Answers from now on as a kernel before 6.8: mount ids are used again, and
  // there is neither statmount nor listmount.
  void HideUniqueMountIds() { hide_unique_ids_ = true; }
  // Answers as a kernel before 6.11: mount namespaces have no ids.
  void HideMountNamespaces() { hide_namespaces_ = true; }
  // Answers as a kernel before 6.5: nothing can be mounted beneath a mount.
  void HideMountBeneath() { hide_mount_beneath_ = true; }
  // Answers as a kernel before 6.15: mounts have no events.
  void HideMountEvents() { hide_mount_events_ = true; }
  // Answers as a kernel without inet_diag, or one that hides /proc/net's
  // tables.
  void HideSocketDiag(bool hidden = true) { hide_socket_diag_ = hidden; }
  void HideSocketTables(bool hidden = true) { hide_socket_tables_ = hidden; }

 protected:
  explicit InjectingCalls(Kernel& kernel, Steps* steps)
      : kernel_(kernel), steps_(steps) {}

  template <typename T, typename Call>
  Sys<T> Pass(const char* name, const Call& call) {
    if (steps_ != nullptr) {
      if (const int error = steps_->Begin(name); error != 0) {
        return Sys<T>(error);
      }
      Sys<T> outcome = call();
      steps_->End();
      return outcome;
    }
    calls_.emplace_back(name);
    if (hook_) {
      hook_(name);
    }
    if (calls_.size() == fail_at_ || (dead_ && calls_.size() > fail_at_)) {
      return Sys<T>(error_);
    }
    return call();
  }

  Kernel& kernel_;
  std::vector<std::string> calls_;
  bool hide_unique_ids_ = false;
  bool hide_namespaces_ = false;
  bool hide_mount_beneath_ = false;
  bool hide_mount_events_ = false;
  bool hide_socket_diag_ = false;
  bool hide_socket_tables_ = false;

 private:
  Steps* const steps_;
  std::size_t fail_at_ = 0;
  int error_ = 0;
  bool dead_ = false;
  std::function<void(const std::string&)> hook_;
  std::set<std::string> failed_;
};

}  // namespace mountd::exec
