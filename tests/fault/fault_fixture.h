// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fault/world.h"

namespace mountd::testing {

// Makes a World for each test, and prints its log if the test fails.
class FaultFixture : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    auto world = World::Make(Timeouts());
    ASSERT_TRUE(world) << world.error().Message();
    world_ = *std::move(world);
  }
  void TearDown() override {
    if (world_ && HasFailure()) {
      std::cerr << world_->Log();
    }
    world_.reset();
    Node::Kill(Node::Processes("bindfs"));
    PrivateNamespaces::TearDown();
  }

  // Returns more lines for mountd.toml's [timeouts].
  virtual std::string Timeouts() const { return ""; }

  std::unique_ptr<World> world_;
};

// Prints a line for each run, and writes it into a file for coverage_test.py.
class Report {
 public:
  explicit Report(const std::string& file) {
    const char* directory = std::getenv("MOUNTD_FAULT_REPORTS");
    if (directory != nullptr) {
      file_.open(std::string(directory) + "/" + file);
    }
  }
  void Add(const nlohmann::json& line) {
    std::cout << line.dump() << "\n";
    file_ << line.dump() << "\n";
  }

 private:
  std::ofstream file_;
};

}  // namespace mountd::testing
