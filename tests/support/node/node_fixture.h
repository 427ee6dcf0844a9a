// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/support/node/node.h"
#include "tests/support/outcome.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {

// Owns a whole mountd in private namespaces, and an unprivileged agent
// connected to it. Prints the daemons' log if the test fails.
class NodeFixture : public PrivateNamespaces {
 protected:
  void TearDown() override {
    client_.reset();
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    PrivateNamespaces::TearDown();
  }

  void StartNode(const std::string& config) {
    auto node = Node::Start(config);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    Connect();
  }
  void Connect() {
    auto client = node_->Connect();
    ASSERT_TRUE(client) << client.error().Message();
    client_.emplace(*std::move(client));
  }

  // Stops the machine, and starts it again with the content of its disk.
  void Reboot();

  std::unique_ptr<Node> node_;
  std::optional<agent::Client> client_;

 private:
  int boots_ = 0;
};

}  // namespace mountd::testing
