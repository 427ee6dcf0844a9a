// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "agent/client.h"
#include "tests/agent/fake_manager.h"

namespace mountd::agent::test {

// Has a client of a fake Manager.
class ClientTest : public testing::Test {
 protected:
  void SetUp() override {
    Result<Client> client = Client::Connect({.address = server_.address()});
    ASSERT_TRUE(client) << client.error().Message();
    client_ = std::make_unique<Client>(std::move(*client));
  }

  Script& script() { return server_.script(); }

  FakeServer server_;
  std::unique_ptr<Client> client_;
};

}  // namespace mountd::agent::test
