// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "mountd/base/unique_fd.h"
#include "mountd/plan/executor.h"
#include "mountd/plan/wire.h"
#include "tests/support/matchers.h"

// The contract of exec::Executor: what mountd relies on, whoever carries the
// plans out. Two programs run the same tests. contract_test runs them on
// FakeExecutor, in memory; contract_root_test runs them on ExecutorPool and the
// program mountd-exec, on the kernel. Unit tests of mountd thus cannot rely on
// an answer of the fake that no executor gives.
namespace mountd::testing {

// An executor, and the machine that it works on as other programs see and
// change it. Host volumes "data" and "logs", network "default" of 10.88.0.0/16
// and fd88::/64, host ports 18080 to 18090.
class Machine {
 public:
  virtual ~Machine() = default;

  virtual exec::Executor& executor() = 0;

  // Returns everything that plans make, one line each: mounts, directories,
  // links, rules, namespaces.
  virtual std::set<std::string> Made() = 0;

  // Holds something until it is destroyed.
  using Held = std::shared_ptr<void>;
  // A process uses the mount web/app/<name>, or the host volume itself.
  virtual Held UseTarget(const std::string& name) = 0;
  virtual Held UseVolume(const std::string& volume) = 0;
  // A process of the host listens on the TCP port.
  virtual Held Listen(std::uint16_t port) = 0;

  // Another program unmounts web/app/<name>, mounts something else over it, or
  // removes the name of the allocation's network namespace.
  virtual void LoseTarget(const std::string& name) = 0;
  virtual void CoverTarget(const std::string& name) = 0;
  virtual void LoseNamespace(const std::string& allocation) = 0;

  // Makes a directory of root's with so many files, and returns it.
  virtual UniqueFd Tree(std::uint64_t files) = 0;
};

// Returns the machine of this program. Null if it cannot have one, which it has
// reported by GTEST_SKIP or a failure.
std::unique_ptr<Machine> MakeMachine();

// Runs a test on a new machine with the base and the allocation "web" of uid
// 1234.
class ExecutorContract : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kUid = 1234;

  void SetUp() override;

  Machine& machine() { return *machine_; }
  exec::Executor& executor() { return machine_->executor(); }

  static exec::AllocationPlan Allocation(const std::string& name = "web",
                                         std::uint32_t uid = kUid) {
    return {exec::ToWire(name), uid};
  }
  static exec::TargetPlan Target(const std::string& name = "data") {
    return exec::Target("web", "app", name);
  }
  static exec::TaskPlan Task() {
    return {exec::ToWire("web"), exec::ToWire("app")};
  }
  static exec::AttachPlan Bind(
      const std::string& volume, const std::string& name = "data",
      exec::Propagation propagation = exec::Propagation::kPrivate);
  // Attaches, which must succeed.
  exec::MountState Attach(const exec::AttachPlan& plan);
  // Returns the id of the mount at web/app/<name>; 0 if there is none.
  std::uint64_t MountAt(const std::string& name = "data");
  Result<void> Detach(std::uint64_t mount_id, const std::string& name = "data");

  // Expects that nothing that plans make came or went since `before`.
  void ExpectUnchanged(const std::set<std::string>& before);

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace mountd::testing
