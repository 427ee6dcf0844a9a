// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "mountd/base/error.h"

namespace mountd {

// The step that an operation is at. A step is one word of this list, so it
// never holds text of a caller or a plugin.
enum class Step : std::uint8_t {
  kQueue,       // earlier work on the same object
  kWork,        // work without a step of its own
  kVolume,      // another call's work on the same volume
  kPlugin,      // the plugin is away, or is busy with as many calls as allowed
  kStage,       // NodeStageVolume
  kPublish,     // NodePublishVolume
  kUnpublish,   // NodeUnpublishVolume
  kUnstage,     // NodeUnstageVolume
  kExpand,      // NodeExpandVolume
  kController,  // a call of the plugin's controller
  kMount,
  // A mount from a declared file system, which mountd may have to mount first.
  kFilesystem,
  kUnmount,
  kNetwork,  // its namespace, link, rules and files
  kCniAdd,   // ADD of CNI's plugins
  kCniDel,   // DEL of CNI's plugins
  kRelease,  // allocations, by Reconcile
  kRetry,    // a pending tear-down
  kTree,     // files and directories
  kTasks,    // waiting for tasks that have copies
  kEnd,      // ended
};

// Returns the API's name of the step: "queue", "cni-add" and so on.
std::string_view StepName(Step step);

// The progress of an operation. The workers of the operation write it, on any
// thread, and anybody may read it. A change notifies nobody and costs next to
// nothing. Copies belong to the same operation.
class Progress {
 public:
  struct Status {
    Step step = Step::kQueue;
    std::uint64_t done = 0;   // mounts, volumes, allocations, files, ...
    std::uint64_t total = 0;  // 0: unknown
    // The number of the attempt, if a call is retried; 0: none.
    std::uint32_t attempt = 0;
    std::optional<Code> error = {};  // error of the attempt before this one
    std::uint64_t changes = 0;       // changes of this status so far
  };

  void At(Step step) const {
    Change([&](Status& now) { now.step = step; });
  }
  // Adds to the number of things to do.
  void Expect(std::uint64_t more) const {
    Change([&](Status& now) { now.total += more; });
  }
  void Advance() const {
    Change([](Status& now) { ++now.done; });
  }
  void Done(std::uint64_t things) const {
    Change([&](Status& now) { now.done = things; });
  }
  // Counts attempts from 1. The error of the last attempt stays until
  // EndAttempts.
  void Attempt(std::uint32_t number) const {
    Change([&](Status& now) { now.attempt = number; });
  }
  void Failed(Code error) const {
    Change([&](Status& now) { now.error = error; });
  }
  void EndAttempts() const {
    Change([](Status& now) {
      now.attempt = 0;
      now.error.reset();
    });
  }

  Status Get() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->status;
  }

 private:
  struct Shared {
    std::mutex mutex;
    Status status;  // mutex
  };

  template <typename F>
  void Change(const F& change) const {
    const std::lock_guard lock(shared_->mutex);
    change(shared_->status);
    ++shared_->status.changes;
  }

  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace mountd
