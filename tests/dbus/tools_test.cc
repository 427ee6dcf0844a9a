// SPDX-License-Identifier: LGPL-2.1-or-later
// Common tools work on the peer-to-peer socket.
#include <filesystem>

#include "tests/dbus/api_test.h"
#include "tests/support/program.h"

namespace mountd::test {
namespace {

class Tools : public ApiTest {
 protected:
  void SetUp() override { Start(); }

  // True if the tool is installed. A test whose tool is not installed is
  // skipped.
  static bool Installed(const std::string& tool) {
    return std::filesystem::exists("/usr/bin/" + tool);
  }
  ProgramOutcome Busctl(const std::vector<std::string>& words) {
    std::vector<std::string> command = {
        "/usr/bin/busctl", "--address=" + server().address(), "--no-pager"};
    command.insert(command.end(), words.begin(), words.end());
    return RunProgram(command);
  }
};

TEST_F(Tools, BusctlIntrospects) {
  if (!Installed("busctl")) {
    GTEST_SKIP() << "busctl is not installed";
  }
  const ProgramOutcome shown =
      Busctl({"introspect", "org.mountd1", "/org/mountd1"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_NE(shown.out.find(".PrepareAllocation"), std::string::npos);
  EXPECT_NE(shown.out.find(".OperationDone"), std::string::npos);
  EXPECT_NE(shown.out.find("\"" MOUNTD_VERSION "\""), std::string::npos);
}

TEST_F(Tools, BusctlCalls) {
  if (!Installed("busctl")) {
    GTEST_SKIP() << "busctl is not installed";
  }
  const ProgramOutcome made =
      Busctl({"call", "org.mountd1", "/org/mountd1", "org.mountd1.Manager",
              "PrepareAllocation", "sa{sv}", "web", "1", "scope", "s", "x"});
  EXPECT_EQ(made.status, 0) << made.err;
  EXPECT_TRUE(made.out.starts_with("a{sv} 1 \"host_path\" ay ")) << made.out;
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
  const ProgramOutcome refused =
      Busctl({"call", "org.mountd1", "/org/mountd1", "org.mountd1.Manager",
              "GetReceipt", "sa{sv}", "web", "0"});
  EXPECT_NE(refused.status, 0);
  EXPECT_NE(refused.err.find("has no receipt of this allocation"),
            std::string::npos)
      << refused.err;
}

TEST_F(Tools, BusctlShowsTheTreeAndProperties) {
  if (!Installed("busctl")) {
    GTEST_SKIP() << "busctl is not installed";
  }
  const ProgramOutcome tree = Busctl({"tree", "--list", "org.mountd1"});
  EXPECT_EQ(tree.status, 0) << tree.err;
  EXPECT_NE(tree.out.find("/org/mountd1\n"), std::string::npos) << tree.out;
  const ProgramOutcome version =
      Busctl({"get-property", "org.mountd1", "/org/mountd1",
              "org.mountd1.Manager", "Version"});
  EXPECT_EQ(version.out, "s \"" MOUNTD_VERSION "\"\n") << version.err;
}

TEST_F(Tools, GdbusCalls) {
  if (!Installed("gdbus")) {
    GTEST_SKIP() << "gdbus is not installed";
  }
  const ProgramOutcome called = RunProgram(
      {"/usr/bin/gdbus", "call", "--address", server().address(), "--dest",
       "org.mountd1", "--object-path", "/org/mountd1", "--method",
       "org.mountd1.Manager.PrepareAllocation", "web", "{'scope': <'x'>}"});
  EXPECT_EQ(called.status, 0) << called.err;
  EXPECT_NE(called.out.find("host_path"), std::string::npos) << called.out;
}

TEST_F(Tools, DbusSendCalls) {
  if (!Installed("dbus-send")) {
    GTEST_SKIP() << "dbus-send is not installed";
  }
  const ProgramOutcome called = RunProgram(
      {"/usr/bin/dbus-send", "--peer=" + server().address(), "--print-reply",
       "/org/mountd1", "org.freedesktop.DBus.Properties.Get",
       "string:org.mountd1.Manager", "string:Version"});
  EXPECT_EQ(called.status, 0) << called.err;
  EXPECT_NE(called.out.find("\"" MOUNTD_VERSION "\""), std::string::npos)
      << called.out;
}

}  // namespace
}  // namespace mountd::test
