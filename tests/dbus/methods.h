// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "agent/fields/node_fields.h"
#include "tests/dbus/api_test.h"
#include "tests/support/field_types.h"

namespace mountd::test {

// The keys of an answer come from the client's own lists.
inline const Types kMountTypes = TypesOf<agent::MountConfig>();

class Methods : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
  }
  // Prepares the allocation "web", and fails the test if that fails.
  void MustPrepare() {
    const Answer made = client_->Call("PrepareAllocation", "sa{sv}", "web", 0);
    ASSERT_TRUE(made.ok()) << made.message;
  }

  std::unique_ptr<BusClient> client_;
};

}  // namespace mountd::test
