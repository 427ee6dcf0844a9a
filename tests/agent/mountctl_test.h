// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/agent/fake_manager.h"
#include "tests/support/program.h"

namespace mountd::agent::test {

// Runs the mountctl program against a fake Manager.
class MountctlTest : public testing::Test {
 protected:
  std::vector<std::string> Command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {MOUNTCTL, "--address", server_.address()});
    return arguments;
  }
  mountd::test::ProgramOutcome Run(std::vector<std::string> arguments) {
    return mountd::test::RunProgram(Command(std::move(arguments)));
  }
  // Returns the command's JSON. Fails the test if the output is no JSON or the
  // status is not 0.
  nlohmann::json RunJson(std::vector<std::string> arguments) {
    arguments.emplace_back("--json");
    const mountd::test::ProgramOutcome outcome = Run(std::move(arguments));
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    nlohmann::json parsed = nlohmann::json::parse(outcome.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << outcome.out;
    return parsed;
  }
  Script& script() { return server_.script(); }

  FakeServer server_;
};

}  // namespace mountd::agent::test
