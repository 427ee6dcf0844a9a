// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "tests/dbus/api_test.h"

namespace mountd::test {

using Types = std::map<std::string, std::string>;

inline const Types kMountTypes = {{"host_path", "ay"},
                                  {"task_path", "s"},
                                  {"read_only", "b"},
                                  {"propagation", "s"},
                                  {"required_rootfs_propagation", "s"},
                                  {"mount_id", "t"},
                                  {"peer_group", "t"},
                                  {"master", "t"}};

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
