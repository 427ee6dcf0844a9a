// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/shared_steps.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {
namespace {

// True if this thread's process dies after the current step.
thread_local bool t_die_after = false;

StepsBlock* Map(int flags) {
  const UniqueFd file(::open(kStepsFile, O_RDWR | O_CLOEXEC | flags, 0666));
  if (!file.valid() ||
      (flags != 0 && ::ftruncate(file.get(), sizeof(StepsBlock)) != 0)) {
    return nullptr;
  }
  void* const memory =
      ::mmap(nullptr, sizeof(StepsBlock), PROT_READ | PROT_WRITE, MAP_SHARED,
             file.get(), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<StepsBlock*>(memory);
}

void WriteName(std::string_view step, char (&name)[kLongestStep]) {
  const std::size_t size = std::min(step.size(), kLongestStep - 1);
  std::memcpy(&name[0], step.data(), size);
  name[size] = '\0';
}

// A raw futex, because another process waits too, and std::atomic's wait works
// within one process only.
void Futex(std::atomic<std::uint32_t>& word, int operation,
           std::uint32_t value) {
  const timespec tick = {1, 0};  // bounds the effect of a missed wake-up
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation,
            value, operation == FUTEX_WAIT ? &tick : nullptr, nullptr, 0);
}

// Waits a bounded time, because the test may have died.
void WaitWhileHeld(std::atomic<std::uint32_t>& held) {
  constexpr int kLongest = 60;
  for (int i = 0; held != 0 && i < kLongest; ++i) {
    Futex(held, FUTEX_WAIT, 1);
  }
}

}  // namespace

const char* NameOf(StepProcess process) {
  switch (process) {
    case StepProcess::kMountd:
      return "mountd";
    case StepProcess::kExecutor:
      return "mountd-exec";
    case StepProcess::kCsi:
      return "mountd-csi";
    case StepProcess::kNone:
      break;
  }
  return "none";
}

const char* NameOf(StepAction action) {
  switch (action) {
    case StepAction::kFail:
      return "fail";
    case StepAction::kKillBefore:
      return "kill-before";
    case StepAction::kKillAfter:
      return "kill-after";
    case StepAction::kStop:
      return "stop";
    case StepAction::kCount:
      break;
  }
  return "count";
}

SharedSteps::SharedSteps(StepProcess process)
    : process_(process), block_(Map(0)) {}

void SharedSteps::Die() {
  ::kill(::getpid(), SIGKILL);
  // A process whose filter forbids kill(2) ends here just as suddenly.
  std::_Exit(EXIT_FAILURE);
}

int SharedSteps::Begin(std::string_view step) {
  t_die_after = false;
  if (block_ == nullptr) {
    return 0;
  }
  ++block_->all[static_cast<std::size_t>(process_)];
  if (block_->process != static_cast<std::uint32_t>(process_) ||
      (block_->only[0] != '\0' && step != &block_->only[0])) {
    return 0;
  }
  const std::uint32_t k = ++block_->count;
  if (k <= kMostSteps) {
    WriteName(step, block_->names[k - 1]);
  }
  if (k != block_->at) {
    return 0;
  }
  WriteName(step, block_->fired_step);
  block_->fired = 1;
  WaitWhileHeld(block_->held);
  switch (static_cast<StepAction>(block_->action.load())) {
    case StepAction::kFail:
      return block_->error;
    case StepAction::kKillBefore:
      Die();
    case StepAction::kKillAfter:
      t_die_after = true;
      return 0;
    case StepAction::kStop:
      ::kill(::getpid(), SIGSTOP);
      return 0;
    case StepAction::kCount:
      break;
  }
  return 0;
}

void SharedSteps::End() {
  if (t_die_after) {
    Die();
  }
}

StepsControl::StepsControl() {
  const std::filesystem::path file(kStepsFile);
  std::filesystem::create_directories(file.parent_path());
  block_ = Map(O_CREAT | O_TRUNC);
  // Processes of all users of the node open the file.
  ::chmod(kStepsFile, 0666);
  ::chmod(file.parent_path().c_str(), 0755);
}

StepsControl::~StepsControl() {
  if (block_ != nullptr) {
    ::munmap(block_, sizeof(StepsBlock));
  }
}

void StepsControl::Arm(StepProcess process, StepAction action, std::uint32_t at,
                       int error, std::string_view only) {
  Disarm();
  WriteName(only, block_->only);
  Set(process, action, at, error);
}

void StepsControl::Hold(StepProcess process, std::uint32_t at) {
  Disarm();
  WriteName("", block_->only);
  block_->held = 1;
  Set(process, StepAction::kCount, at, 0);
}

void StepsControl::Set(StepProcess process, StepAction action, std::uint32_t at,
                       int error) {
  block_->count = 0;
  block_->fired = 0;
  block_->action = static_cast<std::uint32_t>(action);
  block_->at = at;
  block_->error = error;
  block_->process = static_cast<std::uint32_t>(process);
}

void StepsControl::Resume(StepAction action, int error) {
  block_->error = error;
  block_->action = static_cast<std::uint32_t>(action);
  LetGo();
}

void StepsControl::LetGo() {
  block_->held = 0;
  Futex(block_->held, FUTEX_WAKE, INT_MAX);
}

void StepsControl::Disarm() {
  block_->process = static_cast<std::uint32_t>(StepProcess::kNone);
  LetGo();
}

std::uint32_t StepsControl::CountOf(StepProcess process) const {
  return block_->all[static_cast<std::size_t>(process)];
}

bool StepsControl::Fired() const { return block_->fired != 0; }

std::string StepsControl::FiredStep() const {
  return Fired() ? &block_->fired_step[0] : "";
}

std::vector<std::string> StepsControl::Names() const {
  std::vector<std::string> names;
  const std::size_t count =
      std::min<std::size_t>(block_->count.load(), kMostSteps);
  for (std::size_t i = 0; i < count; ++i) {
    names.emplace_back(&block_->names[i][0]);
  }
  return names;
}

}  // namespace mountd::testing
