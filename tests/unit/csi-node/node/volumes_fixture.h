// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "csi-node/node/volumes.h"
#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"

namespace mountd::csi {

using Texts = std::vector<std::string>;

inline const VolumeKey kKey = VolumeKey::Derive("nfs", "v1");

// Has a healthy plugin "nfs", and allocations "web" and "db" of one user.
class VolumesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(core_.AddPlugin("nfs", type_));
    for (const char* allocation : {"web", "db"}) {
      ASSERT_EQ(Outcome(core_.state->allocations.AddAllocation(
                    {allocation, Core::kAgent, Core::kAgent, "",
                     AllocationState::kPrepared})),
                "Ok");
    }
  }

  std::string type_ = "node";  // the plugin's type

  exec::FakeExecutor& executor() { return *core_.executor; }
  FakeCsiClient& client() { return *core_.client; }

  static PublishSpec Spec(const std::string& allocation = "web") {
    PublishSpec spec;
    spec.allocation = allocation;
    spec.alias = "alias";
    spec.plugin = "nfs";
    spec.volume_id = "v1";
    spec.capability.fs_type = "ext4";
    spec.capability.mount_flags = {"noatime"};
    spec.uid = Core::kAgent;
    return spec;
  }
  Result<PublishedVolume> Publish(const PublishSpec& spec = Spec()) {
    return core_.volumes->Publish(spec, UniqueFd(), nullptr);
  }
  Result<void> Unpublish(const std::string& allocation = "web") {
    return core_.volumes->Unpublish(allocation, "alias");
  }
  std::optional<PublicationRecord> Publication(
      const std::string& allocation = "web") {
    return core_.state->volumes.GetPublication(allocation, "alias").value();
  }
  std::optional<VolumeRecord> Volume() {
    return core_.state->volumes.GetVolume(kKey).value();
  }
  std::size_t Calls(const std::string& method) {
    return client().script().Count(method);
  }
  // Expects that no volume is left, in records or on the machine.
  void ExpectNothing() {
    EXPECT_EQ(executor().Existing(), Texts{"plugin nfs"});
    EXPECT_TRUE(client().Staged().empty());
    EXPECT_TRUE(client().Published().empty());
    EXPECT_FALSE(Volume().has_value());
    EXPECT_TRUE(core_.state->volumes.ListPublications()->empty());
  }

  Core core_;
};

}  // namespace mountd::csi
