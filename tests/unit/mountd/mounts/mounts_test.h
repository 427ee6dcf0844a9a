// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "mountd/mounts/mounts.h"
#include "mountd/plan/wire.h"
#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"

namespace mountd {

// Returns a mount of a host volume, "data" in most tests.
inline BindMountRequest Spec(const std::string& name,
                             const std::string& volume) {
  BindMountRequest spec;
  spec.allocation = "web";
  spec.task = "task";
  spec.name = name;
  spec.wish.source = volume;
  spec.wish.task_path = "/" + name;
  return spec;
}

inline const AnchorKey kData{exec::SourceKind::kHostVolume, "data"};

class MountsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Outcome(executor().PrepareAllocation({exec::ToWire("web"), 1})),
              "Ok");
  }

  exec::FakeExecutor& executor() { return *core_.executor; }
  Mounts& mounts() { return *core_.mounts; }
  store::BootStore& boot() { return *core_.boot; }
  Result<MountConfig> Bind(const BindMountRequest& spec) {
    return mounts().Bind(spec);
  }
  Result<MountConfig> Bind() { return Bind(Spec("d", "data")); }
  Result<void> Unmount(const std::string& name = "d") {
    return mounts().Unmount("web", "task", name);
  }
  std::optional<MountRecord> RecordOf(const std::string& name = "d") {
    return boot().mounts.GetMount("web", "task", name).value();
  }
  MountRecordState StateOf(const std::string& name = "d") {
    return RecordOf(name).value().state;
  }
  // Leaves a record as an interrupted mountd does.
  void Leave(MountRecordState state, std::uint64_t mount_id,
             const BindMountRequest& spec = Spec("d", "data")) {
    MountRecord record;
    record.allocation = spec.allocation;
    record.task = spec.task;
    record.name = spec.name;
    record.wish = spec.wish;
    record.state = state;
    record.mount_id = mount_id;
    ASSERT_EQ(Outcome(boot().mounts.PutMount(record)), "Ok");
  }
  Result<void> Recover() {  // as the daemon's start does
    Result<void> recovered = mounts().Recover();
    mounts().ReleaseLeftAnchors();
    return recovered;
  }
  std::vector<std::string> Existing() { return executor().Existing(); }

  const std::vector<std::string> nothing_ = {"allocation web"};
  const std::vector<std::string> mounted_ = {"allocation web", "anchor data",
                                             "mount web/task/d"};
  Core core_;
};

}  // namespace mountd
