// SPDX-License-Identifier: LGPL-2.1-or-later
// Plugins that the configuration declares, run as units of a systemd whose
// programs are scripts that record their arguments.
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;
using exec::ToWire;

constexpr char kCalls[] = "/run/fake/calls";

std::string ReadCalls() {
  std::ifstream file(kCalls);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class PluginServices : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PluginConfig plugin;
    plugin.type = "node";
    plugin.command = {"/opt/csi/driver", "--cost=$5", "two words"};
    plugin.restart = "on-failure";
    config_.plugins.emplace("csi", plugin);
  }
  // Installs `script` as either program; both record their arguments, one a
  // line.
  static void FakeSystemd(const std::string& systemctl,
                          const std::string& systemd_run) {
    MakeDirectories("/run/systemd/system");
    MakeDirectories("/run/fake");
    Fake("systemctl", systemctl);
    Fake("systemd-run", systemd_run);
  }
  Reply Plugin(PlanKind kind, const char* name = "csi") {
    return Call(kind, [&](PlanBody* body) { body->plugin = {ToWire(name)}; });
  }

 private:
  static void Fake(const std::string& program, const std::string& script) {
    const std::string path = "/run/fake/" + program;
    WriteFile(path, "#!/bin/sh\nfor i; do echo \"" + program +
                        " $i\"; done >>" + kCalls + "\nenv >/run/fake/env\n" +
                        script + "\n");
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
    const std::string real = "/usr/bin/" + program;
    if (::mount(path.c_str(), real.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      GTEST_SKIP() << "there is no " << real << " to be covered";
    }
  }
};

TEST_F(PluginServices, AreStartedAsTheConfigurationSays) {
  FakeSystemd("exit 1", "exit 0");
  if (IsSkipped()) {
    return;
  }
  ASSERT_EQ(ErrorOf(Plugin(PlanKind::kStartPlugin)), "");
  const std::string calls = ReadCalls();
  for (const char* argument :
       {"systemd-run --unit=mountd-plugin-csi.service\n",
        "systemd-run --property=Restart=on-failure\n",
        "systemd-run --slice=mountd-plugins.slice\n",
        "systemd-run --setenv=CSI_ENDPOINT=unix:///run/mountd/base/p/csi/"
        "csi.sock\n",
        "systemd-run --\nsystemd-run /opt/csi/driver\n"
        "systemd-run --cost=$$5\nsystemd-run two words\n"}) {
    EXPECT_NE(calls.find(argument), std::string::npos) << argument << calls;
  }
  std::ifstream env("/run/fake/env");
  for (std::string line; std::getline(env, line);) {
    EXPECT_TRUE(line.starts_with("PATH=") || line.starts_with("PWD=") ||
                line.starts_with("_=") || line.starts_with("SHLVL=") ||
                line.starts_with("OLDPWD="))
        << line;
  }
}

TEST_F(PluginServices, OneThatIsThereIsLeftAlone) {
  FakeSystemd("exit 1", "exit 1");
  if (IsSkipped()) {
    return;
  }
  MakeDirectories("/run/systemd/transient");
  WriteFile("/run/systemd/transient/mountd-plugin-csi.service", "");
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kStartPlugin)), "");
  EXPECT_EQ(ReadCalls(), "");
}

TEST_F(PluginServices, OnlyDeclaredOnesAreStarted) {
  FakeSystemd("exit 1", "exit 0");
  if (IsSkipped()) {
    return;
  }
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kStartPlugin, "other")), "NotFound");
  EXPECT_EQ(ReadCalls(), "");
}

TEST_F(PluginServices, AnyIsStopped) {
  FakeSystemd("exit 5", "exit 0");
  if (IsSkipped()) {
    return;
  }
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kStopPlugin, "other")), "");
  EXPECT_NE(ReadCalls().find("systemctl stop\n"
                             "systemctl mountd-plugin-other.service\n"),
            std::string::npos)
      << ReadCalls();
}

TEST_F(PluginServices, WhatSystemdRefusesOrHangsOnIsAnError) {
  FakeSystemd("exit 1", "exit 1");
  if (IsSkipped()) {
    return;
  }
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kStartPlugin)), "Unavailable");
  FakeSystemd("exit 1", "exec sleep 600");
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kStartPlugin)), "DeadlineExceeded");
}

TEST_F(PluginServices, WithoutSystemdTheyAreNotSupported) {
  if (Exists("/run/systemd/system")) {
    MountTmpfs("/run/systemd");
  }
  EXPECT_EQ(CodeOf(Plugin(PlanKind::kStartPlugin)), "NotSupported");
  EXPECT_EQ(ErrorOf(Plugin(PlanKind::kStopPlugin)), "");
}

}  // namespace
}  // namespace mountd::testing
