// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/contract/machine.h"

#include <algorithm>
#include <iterator>

namespace mountd::testing {

void ExecutorContract::SetUp() {
  machine_ = MakeMachine();
  if (machine_ == nullptr) {
    ASSERT_TRUE(IsSkipped() || HasFatalFailure());
    return;
  }
  ASSERT_THAT(executor().PrepareBase(), IsOk());
  ASSERT_THAT(executor().PrepareAllocation(Allocation()), IsOk());
}

exec::AttachPlan ExecutorContract::Bind(const std::string& volume,
                                        const std::string& name,
                                        exec::Propagation propagation) {
  exec::AttachPlan plan;
  plan.target = Target(name);
  plan.source.host_volume = exec::ToWire(volume);
  plan.propagation = propagation;
  return plan;
}

exec::MountState ExecutorContract::Attach(const exec::AttachPlan& plan) {
  const Result<exec::MountState> state = executor().Attach(plan, -1);
  EXPECT_THAT(state, IsOk());
  return state ? *state : exec::MountState{};
}

std::uint64_t ExecutorContract::MountAt(const std::string& name) {
  const Result<exec::MountState> state = executor().InspectTarget(Target(name));
  EXPECT_THAT(state, IsOk());
  return state ? state->mount_id : 0;
}

Result<void> ExecutorContract::Detach(std::uint64_t mount_id,
                                      const std::string& name) {
  exec::DetachPlan plan;
  plan.target = Target(name);
  plan.mount_id = mount_id;
  return executor().Detach(plan);
}

void ExecutorContract::ExpectUnchanged(const std::set<std::string>& before) {
  const std::set<std::string> now = machine().Made();
  std::set<std::string> changed;
  std::set_symmetric_difference(before.begin(), before.end(), now.begin(),
                                now.end(),
                                std::inserter(changed, changed.end()));
  EXPECT_EQ(changed, std::set<std::string>());
}

}  // namespace mountd::testing
