// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "mountd/service/services.h"
#include "tests/support/fakes/core.h"
#include "tests/support/matchers.h"

namespace mountd {

// Owns the core on fakes, which outlives all members of a test's own fixture.
class CoreFixture : public ::testing::Test {
 protected:
  explicit CoreFixture(Config config = Core::DefaultConfig())
      : core_(std::move(config)) {}

  exec::FakeExecutor& executor() { return *core_.executor; }
  csi::FakeCsiClient& client() { return *core_.client; }
  Services& services() { return *core_.services; }

  Core core_;
  CallContext agent_ = Core::By(Core::kAgent);
};

// Puts the volume "v1" of the plugin "nfs" into the store, in use by the
// allocation "web", which has a record. Returns the publication.
inline PublicationRecord AddUsedVolume(Core& core, const std::string& alias) {
  VolumeRecord volume;
  volume.key = VolumeKey::Derive("nfs", "v1");
  volume.plugin = "nfs";
  volume.volume_id = "v1";
  PublicationRecord publication;
  publication.key = volume.key;
  publication.allocation = "web";
  publication.alias = alias;
  EXPECT_THAT(core.state->volumes.AddPublication(volume, publication), IsOk());
  return publication;
}

}  // namespace mountd
