// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-nomad-driver as a process: its start, its socket and its end.
#include "tests/agent/nomad/plugin_process.h"

#include <goplugin.grpc.pb.h>
#include <gtest/gtest.h>
#include <nomad_base.grpc.pb.h>
#include <nomad_drivers.grpc.pb.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>

#include "tests/support/temp_directory.h"

namespace mountd::nomad::testing {
namespace {

namespace fs = std::filesystem;

bool Shutdown(const PluginProcess& process) {
  grpc::ClientContext context;
  plugin::Empty answer;
  return plugin::GRPCController::NewStub(process.Connect())
      ->Shutdown(&context, {}, &answer)
      .ok();
}

TEST(NomadPluginProcess, SaysByHandWhoStartsIt) {
  const auto outcome =
      test::RunProgram({"/usr/bin/env", "-i", MOUNTD_NOMAD_DRIVER});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_NE(outcome.err.find("plugin_dir of a Nomad client"), std::string::npos)
      << outcome.err;
}

TEST(NomadPluginProcess, TellsWhereItListens) {
  PluginProcess process({"PLUGIN_PROTOCOL_VERSIONS=2"});
  EXPECT_NE(process.Socket(), "") << process.line();
  EXPECT_EQ(process.line(), "1|2|unix|" + process.Socket() + "|grpc|");
  EXPECT_TRUE(fs::is_socket(process.Socket()));
}

TEST(NomadPluginProcess, EndsInTimeAfterShutdown) {
  const TempDirectory directory;
  PluginProcess process({"TMPDIR=" + directory.File("")});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(Shutdown(process));
  EXPECT_EQ(process.Wait(), 0);
  // A host kills a plugin after two seconds.
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            std::chrono::milliseconds(1500));
  EXPECT_TRUE(fs::is_empty(directory.File("")));
}

TEST(NomadPluginProcess, EndsBySigtermAndLeavesNothing) {
  const TempDirectory directory;
  PluginProcess process({"XDG_RUNTIME_DIR=" + directory.File("")});
  EXPECT_FALSE(fs::is_empty(directory.File("")));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_TRUE(fs::is_empty(directory.File("")));
}

TEST(NomadPluginProcess, OutlivesTheInterruptOfItsTerminal) {
  PluginProcess process;
  process.Signal(SIGINT);
  process.Signal(SIGPIPE);
  EXPECT_TRUE(Shutdown(process));
  EXPECT_EQ(process.Wait(), 0);
}

TEST(NomadPluginProcess, IsStartedManyTimesAtOnce) {
  const TempDirectory home;
  {
    std::vector<std::unique_ptr<PluginProcess>> processes;
    std::set<std::string> sockets;
    for (int i = 0; i < 12; ++i) {
      processes.push_back(std::make_unique<PluginProcess>(
          std::vector<std::string>{"HOME=" + home.File("")}));
      sockets.insert(processes.back()->Socket());
    }
    EXPECT_EQ(sockets.size(), processes.size());
    for (const auto& process : processes) {
      EXPECT_TRUE(Shutdown(*process));
      EXPECT_EQ(process->Wait(), 0);
    }
  }
  EXPECT_TRUE(fs::is_empty(home.File("")));
}

// As a client starts it to ask for its name.
TEST(NomadPluginProcess, SaysItsNameAndMakesNothing) {
  namespace base = hashicorp::nomad::plugins::base::proto;
  const TempDirectory home;
  PluginProcess process({"HOME=" + home.File("")});
  grpc::ClientContext context;
  base::PluginInfoResponse info;
  EXPECT_TRUE(base::BasePlugin::NewStub(process.Connect())
                  ->PluginInfo(&context, {}, &info)
                  .ok());
  EXPECT_EQ(info.name(), "mountd");
  grpc::ClientContext of_init;
  hashicorp::nomad::plugins::drivers::proto::InitResponse ready;
  EXPECT_TRUE(hashicorp::nomad::plugins::drivers::proto::Driver::NewStub(
                  process.Connect())
                  ->Init(&of_init, {}, &ready)
                  .ok());
  EXPECT_TRUE(Shutdown(process));
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_TRUE(fs::is_empty(home.File("")));
}

}  // namespace
}  // namespace mountd::nomad::testing
