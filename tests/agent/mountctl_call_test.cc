// SPDX-License-Identifier: LGPL-2.1-or-later
// `mountctl call` turns JSON into the contract's types and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/agent/fake_manager.h"
#include "tests/support/program.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ProgramOutcome;
using mountd::test::RunProgram;
using nlohmann::json;
using testing::HasSubstr;

class CallTest : public testing::Test {
 protected:
  ProgramOutcome Call(const std::string& method, const std::string& args) {
    return RunProgram(
        {MOUNTCTL, "--address", server_.address(), "call", method, args});
  }
  Script& script() { return server_.script(); }

  FakeServer server_;
};

TEST_F(CallTest, ArgumentsBecomeTheMethodsTypes) {
  EXPECT_EQ(Call("SetupNetwork",
                 R"(["web", "bridge", [["http", "", 80, 0, 1, "udp"]],
                     {"network": "n", "patience_ms": 5}])")
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "SetupNetwork web bridge http,,80,0,1,udp "
            "{network=n;patience_ms=u5;}");
  EXPECT_EQ(Call("PublishVolume",
                 R"(["web", "d", "v", "p", {"read_only": true,
                     "mount_flags": ["a", "b"]}, {"k": "v"}, {}])")
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "PublishVolume web d v p {mount_flags=a+b+;read_only=true;} "
            "{k=v;} {} {}");
}

TEST_F(CallTest, AnOptionsTypeCanBeNamed) {
  EXPECT_EQ(
      Call("PrepareAllocation", R"(["web", {"scope": {"@t": 5}}])").status, 0);
  EXPECT_EQ(script().last_call(), "PrepareAllocation web {scope=t5;}");
  EXPECT_EQ(Call("PublishVolume",
                 R"(["web", "d", "v", "p", {}, {}, {},
                     {"secrets": {"@h": "/dev/null"}}])")
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "PublishVolume web d v p {} {} {} {secrets=h;}");
}

TEST_F(CallTest, AnswersOfEveryShapeBecomeJson) {
  const json allocation = json::parse(Call("GetAllocation", R"(["web"])").out);
  EXPECT_EQ(allocation["host_path"], "/run/mountd/base/a/web");
  EXPECT_EQ(allocation["networks"][0]["ports"][0],
            json::parse(R"(["http", "", 8080, 80, 1, "tcp"])"));
  EXPECT_EQ(allocation["mounts"][0]["of_a_later_release"], 1.5);
  EXPECT_EQ(json::parse(Call("RetryOwed", "[]").out), 1);
  EXPECT_EQ(json::parse(Call("ListOwed", "[]").out)[0][2], "web/server/data");
  EXPECT_EQ(
      json::parse(Call("GetPlugin", R"(["x"])").out)["of_a_later_release"],
      "/org/mountd1/plugin/x");
  EXPECT_EQ(Call("Cancel", R"(["op"])").out, "");
}

TEST_F(CallTest, TheContractIsWhatIntrospectionSays) {
  EXPECT_THAT(Call("Introspect", "[]").out, HasSubstr("PrepareAllocation"));
}

TEST_F(CallTest, BadInputForTheDaemonIsSentAsItIs) {
  EXPECT_EQ(Call("PrepareAllocation", R"(["../x", {"frob": true}])").status, 0);
  EXPECT_EQ(script().last_call(), "PrepareAllocation ../x {frob=true;}");
}

TEST_F(CallTest, ADaemonsErrorIsStatusOne) {
  script().Fail("PrepareAllocation",
                {"org.mountd1.Error.InvalidArgument", "allocation: bad name"});
  const ProgramOutcome outcome = Call("PrepareAllocation", R"(["../x"])");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "mountctl: org.mountd1.Error.InvalidArgument: allocation: bad "
            "name\n");
}

TEST_F(CallTest, WhatDoesNotFitTheSignatureIsStatusTwoAndNotSent) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {"Frobnicate", "[]"},
      {"PrepareAllocation", "[]"},
      {"PrepareAllocation", "{}"},
      {"PrepareAllocation", "not json"},
      {"PrepareAllocation", "[1]"},
      {"PrepareAllocation", R"(["a", {}, 3])"},
      {"PrepareAllocation", R"(["a", []])"},
      {"PrepareAllocation", R"(["a", {"x": {"@": 1}}])"},
      {"PrepareAllocation", R"(["a", {"x": {"@u": -1}}])"},
      {"PrepareAllocation", R"(["a", {"x": {"@zz": 1}}])"},
      {"PrepareAllocation", R"(["a\u0000b"])"},
      {"SetupNetwork", R"(["a", "bridge", [["http", 70000, 0, "tcp"]]])"},
      {"SetupNetwork", R"(["a", "bridge", [["http", 7]]])"},
      {"SetupNetwork", R"(["a", "bridge", [["http", 7, 7, "tcp", 1]]])"},
      {"BindMount", R"(["a", "t", "n", "host", "s", "yes", "private"])"}};
  for (const auto& [method, args] : wrong) {
    const ProgramOutcome outcome = Call(method, args);
    EXPECT_EQ(outcome.status, 2) << method << " " << args;
    EXPECT_THAT(outcome.err, HasSubstr("mountctl: ")) << method << " " << args;
  }
  EXPECT_TRUE(script().calls().empty());
}

}  // namespace
}  // namespace mountd::agent::test
