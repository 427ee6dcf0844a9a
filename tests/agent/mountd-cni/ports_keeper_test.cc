// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/ports_keeper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"
#include "tests/support/temp_directory.h"

namespace mountd::cni_plugin {
namespace {

// Runs processes of any name and arguments, which stop themselves, because a
// child that outlives such a process would keep its pipe open.
class PortsKeeper : public ::testing::Test {
 protected:
  std::unique_ptr<test::RunningProgram> Run(
      const std::string& name, const std::vector<std::string>& arguments) {
    const std::string program = directory_.File(name);
    std::filesystem::copy_file("/bin/sh", program,
                               std::filesystem::copy_options::skip_existing);
    const std::string script = directory_.File("script");
    std::ofstream(script) << "echo ready\nkill -STOP $$\n";
    std::vector<std::string> command = {program, script};
    command.insert(command.end(), arguments.begin(), arguments.end());
    auto running = std::make_unique<test::RunningProgram>(command);
    EXPECT_EQ(running->ReadLine(), "ready");
    return running;
  }

  const std::string id_ = "keeper-test-" + std::to_string(::getpid());
  TempDirectory directory_;
};

TEST_F(PortsKeeper, IsTheContainersConmon) {
  EXPECT_FALSE(FindPortsKeeper(id_).valid());
  for (const char* option : {"-c", "--cid"}) {
    const auto conmon = Run("conmon", {"--api-version", "1", option, id_});
    EXPECT_TRUE(FindPortsKeeper(id_).valid());
    EXPECT_FALSE(FindPortsKeeper(id_ + "x").valid());
    EXPECT_FALSE(FindPortsKeeper("").valid());
    conmon->Signal(SIGKILL);
    conmon->Wait();
    EXPECT_FALSE(FindPortsKeeper(id_).valid());
  }
}

TEST_F(PortsKeeper, IsNoOtherProcess) {
  const auto other = Run("conmon2", {"-c", id_});
  const auto named = Run("conmon", {"-u", id_, "-n", id_});
  EXPECT_FALSE(FindPortsKeeper(id_).valid());
  for (const auto& one : {other.get(), named.get()}) {
    one->Signal(SIGKILL);
    one->Wait();
  }
}

}  // namespace
}  // namespace mountd::cni_plugin
