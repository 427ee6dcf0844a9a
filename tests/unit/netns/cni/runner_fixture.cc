// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/unit/netns/cni/runner_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "mountd/base/unique_fd.h"

namespace mountd::cni {
namespace {

namespace fs = std::filesystem;

std::string Quoted(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += " '" + word + "'";
  }
  return text;
}

}  // namespace

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
  Make();
  for (const char* directory : {"/run/netns", "/run/requests"}) {
    fs::create_directory(directory);
  }
  PinNamespace("web");
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

bool RunnerTest::HasRecord(const std::string& container) {
  return fs::exists("/run/state/records/" + container + "@eth0");
}

Json RunnerTest::RecordOf(const std::string& container) {
  std::ifstream file("/run/state/records/" + container + "@eth0");
  return Json::parse(file, nullptr, false);
}

}  // namespace mountd::cni
