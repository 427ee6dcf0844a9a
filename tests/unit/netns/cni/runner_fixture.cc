// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/netns/cni/runner_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "mountd/base/unique_fd.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;

constexpr char kLog[] = "/run/log";

std::vector<Json> LogLines() {
  std::vector<Json> lines;
  std::ifstream log(kLog);
  for (std::string line; std::getline(log, line);) {
    lines.push_back(Json::parse(line, nullptr, false));
  }
  return lines;
}

std::string Quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += " '" + word + "'";
  }
  return text;
}

}  // namespace

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

bool IsAlive(int pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

int ChildOf(int parent) {
  std::ifstream children("/proc/" + std::to_string(parent) + "/task/" +
                         std::to_string(parent) + "/children");
  int child = 0;
  children >> child;
  return child;
}

int RunnerPid() { return ChildOf(::getpid()); }

void RunnerTest::SetUp() {
  PrivateNamespaces::SetUp();
  if (IsSkipped()) {
    return;
  }
  ::umask(S_IWGRP | S_IWOTH);
  for (const char* directory :
       {"/run/networks", "/run/plugins", "/run/netns", "/run/requests"}) {
    fs::create_directory(directory);
  }
  for (const char* type : {"first", "second", "third"}) {
    InstallPlugin(type);
  }
  PinNamespace("web");
}

Json RunnerTest::Plugin(const std::string& type, const Json& what) {
  return {{"type", type},
          {"fake",
           {{"log", kLog}, {"do", what.is_null() ? Json::object() : what}}}};
}

Json RunnerTest::Network(const std::string& name,
                         const std::vector<Json>& plugins) {
  return {{"name", name}, {"cniVersion", "1.0.0"}, {"plugins", plugins}};
}

void RunnerTest::WriteNetwork(const std::string& file, const Json& network) {
  WriteFile("/run/networks/" + file, network.dump());
}

void RunnerTest::InstallPlugin(const std::string& type) {
  fs::copy_file(CNI_FAKE_PLUGIN, "/run/plugins/" + type);
  fs::permissions("/run/plugins/" + type, fs::perms(0755));
}

std::string RunnerTest::PinNamespace(const std::string& name) {
  std::string path = "/run/netns/" + name;
  WriteFile(path, "");
  const UniqueFd own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(::unshare(CLONE_NEWNET), 0);
  EXPECT_EQ(
      ::mount("/proc/self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr), 0);
  EXPECT_EQ(::setns(own.get(), CLONE_NEWNET), 0);
  return path;
}

Json RunnerTest::RequestFor(const std::string& container) {
  return {{"network", "net"}, {"container_id", container}, {"ifname", "eth0"}};
}

std::vector<std::string> RunnerTest::Command(
    const std::string& verb, const Json& request,
    const std::vector<std::string>& more) {
  static int requests = 0;
  const std::string input = "/run/requests/" + std::to_string(++requests);
  WriteFile(input, request.dump());
  std::vector<std::string> words = {
      CNI_RUNNER,     "--config-dir", "/run/networks",
      "--plugin-dir", "/run/plugins", "--state-dir",
      "/run/state",   "--backoff-ms", "1"};
  if (verb == "add") {
    words.insert(words.end(), {"--netns", "/run/netns/web"});
  }
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(verb);
  return {"/bin/sh", "-c", "exec " + Quoted(words) + " <" + input};
}

Json RunnerTest::Run(const std::string& verb, const Json& request,
                     const std::vector<std::string>& more) {
  const auto outcome = test::RunProgram(Command(verb, request, more));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  Json answer = Json::parse(outcome.out, nullptr, false);
  EXPECT_TRUE(answer.is_object()) << outcome.out;
  return answer;
}

std::vector<Json> RunnerTest::Calls() {
  std::vector<Json> calls;
  for (const Json& line : LogLines()) {
    if (line.contains("verb")) {
      calls.push_back(line);
    }
  }
  return calls;
}

std::vector<std::string> RunnerTest::CallNames() {
  std::vector<std::string> names;
  for (const Json& call : Calls()) {
    names.push_back(call["verb"].get<std::string>() + " " +
                    call["plugin"].get<std::string>());
  }
  return names;
}

void RunnerTest::ForgetCalls() { fs::remove(kLog); }

std::vector<int> RunnerTest::Daemons() {
  std::vector<int> daemons;
  for (const Json& line : LogLines()) {
    if (line.contains("daemon")) {
      daemons.push_back(line["daemon"].get<int>());
    }
  }
  return daemons;
}

bool RunnerTest::HasRecord(const std::string& container) {
  return fs::exists("/run/state/records/" + container + "@eth0");
}

Json RunnerTest::RecordOf(const std::string& container) {
  std::ifstream file("/run/state/records/" + container + "@eth0");
  return Json::parse(file, nullptr, false);
}

}  // namespace mountd::cni
