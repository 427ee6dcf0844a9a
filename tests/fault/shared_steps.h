// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/steps.h"

// Counts the steps of all processes of a node in a file that they and the test
// have mapped. The file says which step fails, or ends its process.
namespace mountd::testing {

enum class StepProcess : std::uint32_t { kNone, kMountd, kExecutor, kCsi };
const char* NameOf(StepProcess process);

enum class StepAction : std::uint32_t {
  kCount,
  kFail,        // the step is not made, and fails with `error`
  kKillBefore,  // SIGKILL of the process at the step
  kKillAfter,
  kStop,  // SIGSTOP of the process at the step; SIGCONT lets it go on
};
const char* NameOf(StepAction action);

inline constexpr std::size_t kStepProcesses = 4;
inline constexpr std::size_t kMostSteps = 32768;  // with names, in one count
inline constexpr std::size_t kLongestStep = 48;  // with its NUL

// Plain memory, so that a block of zeros is one that is not armed.
struct StepsBlock {
  std::atomic<std::uint32_t> process;  // StepProcess whose steps count
  std::atomic<std::uint32_t> action;
  std::atomic<std::uint32_t> at;  // the k-th step, counted from 1
  std::atomic<std::int32_t> error;
  std::atomic<std::uint32_t> count;
  std::atomic<std::uint32_t> fired;
  // A futex: the process at the step waits while it is 1.
  std::atomic<std::uint32_t> held;
  std::atomic<std::uint32_t> all[kStepProcesses];  // steps ever, armed or not
  char only[kLongestStep];  // if set, only steps of this name count
  char fired_step[kLongestStep];
  char names[kMostSteps][kLongestStep];
};

inline constexpr char kStepsFile[] = "/run/node/steps";

// Counts a process's steps. Does nothing without the file.
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

// Controls the steps from the test. Only one object may live at a time.
class StepsControl {
 public:
  // Makes the file, in this test's own namespace.
  StepsControl();
  ~StepsControl();
  StepsControl(const StepsControl&) = delete;
  StepsControl& operator=(const StepsControl&) = delete;

  // Counts the steps of `process` from now on, from 1; with `only`, the steps
  // of that name alone.
  void Arm(StepProcess process, StepAction action, std::uint32_t at = 0,
           int error = 0, std::string_view only = "");
  // Arms in the same way, but the process waits at that step until Resume or
  // Disarm.
  void Hold(StepProcess process, std::uint32_t at);
  // Decides what happens to the held step, which stays the armed one.
  void Resume(StepAction action = StepAction::kCount, int error = 0);
  // Ends counting, and lets a held process go on.
  void Disarm();
  // Returns how many steps the process has made, armed or not.
  std::uint32_t CountOf(StepProcess process) const;
  // Report whether the armed step has been reached, and its name.
  bool Fired() const;
  std::string FiredStep() const;
  // Returns the counted steps in order.
  std::vector<std::string> Names() const;

 private:
  void Set(StepProcess process, StepAction action, std::uint32_t at, int error);
  void LetGo();

  StepsBlock* block_ = nullptr;
};

}  // namespace mountd::testing
