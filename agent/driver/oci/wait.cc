// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Waits for tasks, signals them and stops them.
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "agent/driver/images/image_config.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/oci/task_processes.h"
#include "agent/driver/protocol/message_socket.h"

namespace mountd::driver {
namespace {

using shim::Kind;
using shim::Message;
using shim::ShimConnection;
using shim::Tag;

constexpr std::chrono::seconds kSignalPatience{30};
constexpr std::chrono::minutes kCreatePatience{2};
// The wait for the shim's answer after the timeout of a stop.
constexpr std::chrono::seconds kStopPatience{30};
constexpr std::chrono::hours kLongestStop{24};

Error ShuttingDown(const char* op) {
  return MakeError(Code::kAborted, op, "the task driver",
                   "the driver is shutting down; the task goes on");
}

Error NotStarted(const char* op, const std::string& id) {
  return MakeError(Code::kFailedPrecondition, op, id,
                   "the task's program has not begun; call StartTask again");
}

ExitResult FailedResult(const Error& failure) {
  ExitResult result;
  result.error = failure.Message();
  return result;
}

// The signal goes to all processes of a lost task, because nobody knows its
// first one any more.
void SignalAll(const std::vector<TaskProcess>& processes, int signal) {
  for (const TaskProcess& process : processes) {
    ::syscall(SYS_pidfd_send_signal, process.pidfd.get(), signal, nullptr, 0);
  }
}

}  // namespace

Result<shim::Answer> OciDriver::CallUntilShutdown(
    ShimConnection& shim, const Message& request,
    std::optional<std::chrono::milliseconds> patience) const {
  const auto end = std::chrono::steady_clock::now() +
                   patience.value_or(std::chrono::milliseconds(0));
  MOUNTD_TRY(shim::Send(shim.fd(), request));
  std::array<pollfd, 2> waiting = {
      {{shim.fd(), POLLIN, 0}, {host_->shutdown(), POLLIN, 0}}};
  int ready = -1;
  while (ready < 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    ready = ::poll(waiting.data(), waiting.size(),
                   patience ? static_cast<int>(std::clamp<std::int64_t>(
                                  left.count(), 0, 1 << 30))
                            : -1);
    if (ready < 0 && errno != EINTR) {
      return ErrnoError(errno, "poll", "mountd-task-shim");
    }
  }
  if (ready == 0) {
    return MakeError(Code::kDeadlineExceeded, "poll", "mountd-task-shim",
                     "gave no answer in time");
  }
  if (waiting[0].revents == 0) {
    return ShuttingDown("wait");
  }
  return shim.Next(std::chrono::milliseconds(0));
}

Result<ExitResult> OciDriver::WaitTask(const std::string& id) {
  for (;;) {
    MOUNTD_ASSIGN(const TaskPlace place, store_.Find(id));
    MOUNTD_ASSIGN(Sight sight, LookAt(place));
    switch (sight.phase) {
      case Phase::kExited:
        return *sight.result;
      case Phase::kFailed:
        return FailedResult(*sight.failure);
      case Phase::kLost:
        MOUNTD_TRY(AwaitLostTask(*host_, place, host_->shutdown()));
        return ResultOfLost(place);
      case Phase::kNoShim:
        return NotStarted("wait", id);
      case Phase::kCreating:
      case Phase::kCreated:
      case Phase::kRunning:
        break;
    }
    const auto exited = CallUntilShutdown(*sight.shim, Message(Kind::kWait));
    if (exited) {
      return ResultOf(exited->message);
    }
    // Somebody has killed the shim, so look again.
    if (exited.error().code != Code::kUnavailable) {
      return exited.error();
    }
  }
}

Result<void> OciDriver::SignalTask(const std::string& id,
                                   const std::string& signal) {
  MOUNTD_ASSIGN(const int number, ParseSignal(signal));
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(id));
  MOUNTD_ASSIGN(Sight sight, LookAt(place));
  if (sight.shim && sight.phase == Phase::kRunning) {
    Message request(Kind::kSignal);
    request.Add(Tag::kSignalNumber, static_cast<std::uint64_t>(number));
    MOUNTD_TRY(sight.shim->Call(request, {}, kSignalPatience));
    return Ok();
  }
  if (sight.phase == Phase::kLost) {
    MOUNTD_ASSIGN(const auto processes, ProcessesWithUpper(place.Upper()));
    if (!processes.empty()) {
      SignalAll(processes, number);
      return Ok();
    }
  }
  return MakeError(Code::kFailedPrecondition, "signal", id,
                   "the task is not running");
}

Result<void> OciDriver::StopTask(const std::string& id,
                                 std::chrono::milliseconds timeout,
                                 const std::string& signal) {
  MOUNTD_ASSIGN(const TaskPlace place, store_.Find(id));
  int number =
      place.record.stop_signal != 0 ? place.record.stop_signal : SIGTERM;
  if (!signal.empty()) {
    MOUNTD_ASSIGN(number, ParseSignal(signal));
  }
  timeout = std::clamp<std::chrono::milliseconds>(
      timeout, std::chrono::milliseconds(0), kLongestStop);
  const auto begin = std::chrono::steady_clock::now();
  const auto stopped = StopByShim(place, number, timeout);
  if (stopped || stopped.error().code != Code::kDeadlineExceeded) {
    return stopped;
  }
  // The shim is stopped, or waits for a disk.
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  MOUNTD_TRY(StopLost(
      place, number, std::max(timeout - waited, std::chrono::milliseconds(0))));
  MOUNTD_TRY(KillHung(place));
  Tell(place.record, "the task has been stopped without its shim");
  return Ok();
}

Result<void> OciDriver::StopByShim(const TaskPlace& place, int signal,
                                   std::chrono::milliseconds timeout) {
  for (;;) {
    MOUNTD_ASSIGN(Sight sight, LookAt(place));
    if (sight.phase == Phase::kLost) {
      return StopLost(place, signal, timeout);
    }
    if (!sight.shim) {
      return Ok();
    }
    if (sight.phase == Phase::kCreating) {
      MOUNTD_TRY(CallUntilShutdown(*sight.shim, Message(Kind::kAwaitCreated),
                                   kCreatePatience));
    }
    Message request(Kind::kStop);
    request.Add(Tag::kSignalNumber, static_cast<std::uint64_t>(signal))
        .Add(Tag::kTimeoutMs, static_cast<std::uint64_t>(timeout.count()));
    const auto stopped =
        CallUntilShutdown(*sight.shim, request, timeout + kStopPatience);
    if (stopped) {
      Tell(place.record, "the task has been stopped");
      return Ok();
    }
    if (stopped.error().code != Code::kUnavailable) {
      return stopped.error();
    }
  }
}

Result<void> OciDriver::KillHung(const TaskPlace& place) const {
  MOUNTD_TRY(KillLost(place));
  MOUNTD_TRY(KillShimsIn(place.directory.get()));
  // The shim may have made a process meanwhile.
  return KillLost(place);
}

Result<void> OciDriver::StopLost(const TaskPlace& place, int signal,
                                 std::chrono::milliseconds timeout) {
  MOUNTD_ASSIGN(const auto processes, ProcessesWithUpper(place.Upper()));
  SignalAll(processes, signal);
  const auto waited = AwaitLostTask(*host_, place, host_->shutdown(),
                                    std::chrono::steady_clock::now() + timeout);
  if (waited || waited.error().code != Code::kDeadlineExceeded) {
    return waited;
  }
  return KillLost(place);
}

}  // namespace mountd::driver
