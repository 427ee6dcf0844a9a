// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mountd/executors/executor_pool.h"
#include "mountd/plan/request_size.h"
#include "mountd/plan/wire.h"
#include "tests/support/asleep.h"
#include "tests/support/fakes/call_script.h"
#include "tests/support/outcome.h"

namespace mountd::exec {

using std::chrono::milliseconds;
using testing::IsAsleep;

// The script names plans by their numbers.
inline constexpr char kPrepareBase[] = "10";
inline constexpr char kPrepareAllocation[] = "11";
inline constexpr char kAttach[] = "13";
inline constexpr char kCreateNetwork[] = "31";
inline constexpr char kFindHolders[] = "41";

// Runs executors as threads behind SOCK_SEQPACKET pairs. Each does one plan
// after the other, until its connection is closed or it is killed.
class FakeExecutors {
 public:
  // Closes all connections, however the test ends.
  ~FakeExecutors() { KillAll(); }

  CallScript<Error>& script() { return script_; }

  ExecutorPool::Connector connector() {
    return [this]() -> Result<UniqueFd> {
      if (refuse_) {
        return MakeError(Code::kUnavailable, "connect", "executor");
      }
      std::array<int, 2> pair{-1, -1};
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) !=
          0) {
        return ErrnoError(errno, "socketpair", "");
      }
      const std::lock_guard lock(mutex_);
      ends_.emplace_back(pair[1]);
      ++connections_;
      threads_.emplace_back([this, fd = pair[1]] { Serve(fd); });
      return UniqueFd(pair[0]);
    };
  }

  void Refuse(bool refuse) { refuse_ = refuse; }
  // Makes the next answers come from another build, or shorter than an answer.
  void AnswerWithVersion(std::uint32_t version) { version_ = version; }
  void AnswerShort() { short_ = true; }

  // Ends all executors, as SIGKILL would.
  void KillAll() {
    std::vector<std::jthread> threads;
    {
      const std::lock_guard lock(mutex_);
      for (const UniqueFd& end : ends_) {
        shutdown(end.get(), SHUT_RDWR);
      }
      threads = std::move(threads_);
    }
    for (const char* plan :
         {kPrepareBase, kAttach, kCreateNetwork, kFindHolders}) {
      script_.Unblock(plan);
    }
    threads.clear();
    const std::lock_guard lock(mutex_);
    ends_.clear();
  }

  // Returns the trace of the last plan that came.
  PlanTrace last_trace() {
    const std::lock_guard lock(mutex_);
    return last_trace_;
  }
  int connections() const { return connections_; }
  // Returns how many executors have a connection that mountd has not closed.
  int alive() const { return alive_; }

 private:
  void Serve(int fd) {
    ++alive_;
    for (;;) {
      Request request;
      const ssize_t size = recv(fd, &request, sizeof(request), 0);
      if (size != static_cast<ssize_t>(BytesOf(request.kind))) {
        break;
      }
      {
        const std::lock_guard lock(mutex_);
        last_trace_ = request.trace;
      }
      const std::string kind =
          std::to_string(static_cast<std::uint32_t>(request.kind));
      const Result<void> outcome = script_.Run<Result<void>>(
          kind, std::string(request.body.allocation.allocation.view()),
          [] { return Ok(); });
      Reply reply;
      reply.version = version_;
      if (!outcome) {
        reply.code = static_cast<std::uint32_t>(outcome.error().code);
        reply.sys_errno = outcome.error().sys_errno;
        std::strncpy(reply.op.data(), outcome.error().op.c_str(),
                     reply.op.size() - 1);
        std::strncpy(reply.detail.data(), outcome.error().detail.c_str(),
                     reply.detail.size() - 1);
      }
      reply.body.mount = MountState{};
      reply.body.mount.mount_id = 77;
      const std::size_t bytes = short_.exchange(false) ? 8 : sizeof(reply);
      if (send(fd, &reply, bytes, MSG_NOSIGNAL) < 0) {
        break;
      }
    }
    --alive_;
    shutdown(fd, SHUT_RDWR);  // as the end of its process would
  }

  CallScript<Error> script_;
  std::atomic<bool> refuse_ = false;
  std::atomic<std::uint32_t> version_ = kProtocolVersion;
  std::atomic<bool> short_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<int> alive_ = 0;
  std::mutex mutex_;
  PlanTrace last_trace_;  // mutex_
  std::vector<UniqueFd> ends_;
  std::vector<std::jthread> threads_;
};

class ExecutorPoolTest : public ::testing::Test {
 protected:
  ExecutorPool Make(std::uint32_t lanes,
                    milliseconds deadline = milliseconds(60'000)) {
    // The bound for slow plans is as long as the deadline, so no plan counts as
    // slow.
    return {executors_.connector(), {lanes, deadline, 16, deadline}};
  }
  // Starts threads that wait for one plan each.
  static std::vector<std::jthread> PrepareBases(ExecutorPool& pool, int count) {
    std::vector<std::jthread> planning;
    for (int i = 0; i < count; ++i) {
      planning.emplace_back(
          [&pool] { EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok"); });
    }
    return planning;
  }
  static AllocationPlan Allocation(const std::string& name) {
    return {ToWire(name), 1};
  }
  template <typename F>
  static bool Await(const F& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  bool AwaitAlive(int count) {
    return Await([&] { return executors_.alive() == count; });
  }
  FakeExecutors executors_;
};

}  // namespace mountd::exec
