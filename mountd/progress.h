// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "mountd/base/error.h"

namespace mountd {

// What an operation is at. Never more than a word: nothing that a caller or a
// plugin has written can be in it.
enum class Step : std::uint8_t {
  kQueue,       // what is to be done before it on the same object
  kWork,        // what has no step of its own
  kVolume,      // another call's work on the same volume
  kPlugin,      // the plugin: it is away, or has as many calls as it may
  kStage,       // NodeStageVolume
  kPublish,     // NodePublishVolume
  kUnpublish,   // NodeUnpublishVolume
  kUnstage,     // NodeUnstageVolume
  kExpand,      // NodeExpandVolume
  kController,  // a call of the plugin's controller
  kMount,
  kFilesystem,  // a mount of a declared file system, which may be mounted first
  kUnmount,
  kNetwork,  // its namespace, link, rules and files
  kCniAdd,   // what a chain of CNI's plugins makes
  kCniDel,   // what it takes away
  kRelease,  // allocations, by Reconcile
  kRetry,    // what is owed
  kTree,     // files and directories
  kTasks,    // tasks that have copies of what is to go
  kEnd,      // none any more
};

// "queue", "cni-add" and so on: as the API says it.
std::string_view StepName(Step step);

// How far an operation is. Written by whoever carries it out, on any thread,
// and read by whoever wants to know: it tells nobody by itself, and costs next
// to nothing where nobody asks. Copies are of the same operation.
class Progress {
 public:
  struct Status {
    Step step = Step::kQueue;
    std::uint64_t done = 0;          // mounts, volumes, allocations, files, ...
    std::uint64_t total = 0;         // 0: not known
    std::uint32_t attempt = 0;       // of a call that is retried; 0: none is
    std::optional<Code> error = {};  // why the attempt before it failed
    std::uint64_t changes = 0;       // of the above, so far
  };

  void At(Step step) const {
    Change([&](Status& now) { now.step = step; });
  }
  // There are so many more things to do.
  void Expect(std::uint64_t more) const {
    Change([&](Status& now) { now.total += more; });
  }
  void Advance() const {
    Change([](Status& now) { ++now.done; });
  }
  void Done(std::uint64_t things) const {
    Change([&](Status& now) { now.done = things; });
  }
  // From 1; the error of the one before stays until there is none any more.
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
