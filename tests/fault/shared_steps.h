// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/steps.h"

// The steps of a node's processes, counted together in a file that all of them
// and the test have mapped: which step is to fail, or to be some process's end.
namespace mountd::testing {

enum class StepProcess : std::uint32_t { kNone, kMountd, kExecutor, kCsi };
const char* NameOf(StepProcess process);

enum class StepAction : std::uint32_t {
  kCount,
  kFail,        // with `error`, and is not made
  kKillBefore,  // SIGKILL of the process that is at it
  kKillAfter,
  kStop,  // SIGSTOP of the process that is at it, which goes on after SIGCONT
};
const char* NameOf(StepAction action);

inline constexpr std::size_t kStepProcesses = 4;
inline constexpr std::size_t kMostSteps = 8192;  // named, of one count
inline constexpr std::size_t kLongestStep = 48;  // with its NUL

// Plain memory: zero is "not armed".
struct StepsBlock {
  std::atomic<std::uint32_t> process;  // StepProcess whose steps count
  std::atomic<std::uint32_t> action;
  std::atomic<std::uint32_t> at;  // the k-th, from 1
  std::atomic<std::int32_t> error;
  std::atomic<std::uint32_t> count;
  std::atomic<std::uint32_t> fired;
  std::atomic<std::uint32_t> held;  // a futex: whoever is at it waits while 1
  std::atomic<std::uint32_t> all[kStepProcesses];  // steps ever, armed or not
  char fired_step[kLongestStep];
  char names[kMostSteps][kLongestStep];
};

inline constexpr char kStepsFile[] = "/run/node/steps";

// A process's end. Without the file nothing counts.
class SharedSteps final : public Steps {
 public:
  explicit SharedSteps(StepProcess process);

  int Begin(std::string_view step) override;
  void End() override;

 private:
  [[noreturn]] static void Die();

  const StepProcess process_;
  StepsBlock* block_ = nullptr;
};

// The test's end. One at a time.
class StepsControl {
 public:
  // Makes the file, in a namespace of its own.
  StepsControl();
  ~StepsControl();
  StepsControl(const StepsControl&) = delete;
  StepsControl& operator=(const StepsControl&) = delete;

  // From now on steps of `process` count, from 1.
  void Arm(StepProcess process, StepAction action, std::uint32_t at = 0,
           int error = 0);
  // The same, but whoever is at that step waits there, until Resume or Disarm.
  void Hold(StepProcess process, std::uint32_t at);
  // What becomes of the step that is held. It stays the one that was armed.
  void Resume(StepAction action = StepAction::kCount, int error = 0);
  // Nothing counts any more, and nobody is held.
  void Disarm();
  // How many steps of it there have been, armed or not.
  std::uint32_t CountOf(StepProcess process) const;
  // Whether the step that was armed has been reached, and its name.
  bool Fired() const;
  std::string FiredStep() const;
  // In their order.
  std::vector<std::string> Names() const;

 private:
  void Set(StepProcess process, StepAction action, std::uint32_t at, int error);
  void LetGo();

  StepsBlock* block_ = nullptr;
};

}  // namespace mountd::testing
