// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A CNI plugin that does what its configuration says, and records each call.
// Its member "fake" has
//   log    a file to which each call adds a line, as JSON
//   do     {"ADD": ["error 11", "ok"]}: the first call, the second; the last
//          applies to all later calls
//   result the answer of ADD instead of its own
//   versions, the answer of VERSION
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using Json = nlohmann::json;

std::string Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

std::string TextOf(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Json OpenFds() {
  Json fds = Json::array();
  for (int fd = 3; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      fds.push_back(fd);
    }
  }
  return fds;
}

// Returns the version 2 cgroup (cgroups(7)).
std::string OwnCgroup() {
  std::ifstream cgroups("/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {
    if (line.starts_with("0::")) {
      return line.substr(3);
    }
  }
  return "";
}

Json Call(const std::string& self, const Json& config) {
  Json environment = Json::array();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.push_back(*variable);
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return {{"plugin", std::filesystem::path(self).filename().string()},
          {"verb", Variable("CNI_COMMAND")},
          {"container", Variable("CNI_CONTAINERID")},
          {"netns", Variable("CNI_NETNS")},
          {"environment", environment},
          {"config", config},
          {"fds", OpenFds()},
          {"cwd", std::filesystem::current_path().string()},
          {"umask", mask},
          {"cgroup", OwnCgroup()},
          {"pid", ::getpid()},
          {"status", TextOf("/proc/self/status")},
          {"leads_session", ::getsid(0) == ::getpid()}};
}

// Returns how often the plugin was called like this before.
std::size_t CallsBefore(const std::string& log, const Json& call) {
  std::ifstream lines(log);
  std::size_t calls = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json before = Json::parse(line, nullptr, false);
    if (before.is_object() &&
        before.value("plugin", Json()) == call["plugin"] &&
        before.value("verb", Json()) == call["verb"]) {
      ++calls;
    }
  }
  return calls;
}

std::string WhatToDo(const Json& fake, const Json& call) {
  const Json list = fake.value("do", Json::object())
                        .value(call["verb"].get<std::string>(), Json::array());
  if (list.empty()) {
    return "ok";
  }
  const std::size_t at = CallsBefore(fake.value("log", ""), call);
  return list[std::min(at, list.size() - 1)].get<std::string>();
}

void Log(const std::string& log, const Json& line) {
  const int fd = ::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                        S_IRUSR | S_IWUSR);
  const std::string text = line.dump() + "\n";
  if (::write(fd, text.data(), text.size()) < 0) {
    ::_exit(EXIT_FAILURE);
  }
  ::close(fd);
}

Json OwnResult(const Json& config, const Json& call) {
  Json result = config.value("prevResult", Json::object());
  const std::string plugin = call["plugin"];
  if (result.empty()) {
    result["interfaces"] = {{{"name", Variable("CNI_IFNAME")},
                             {"mac", "02:00:00:00:00:01"},
                             {"sandbox", Variable("CNI_NETNS")}}};
    result["ips"] = {{{"address", "10.1.0.2/24"}, {"interface", 0}}};
  } else {
    result["interfaces"].push_back({{"name", plugin}});
  }
  result["cniVersion"] = config["cniVersion"];
  return result;
}

void Answer(const Json& config, const Json& fake, const Json& call) {
  if (call["verb"] == "ADD") {
    std::cout << fake.value("result", OwnResult(config, call)).dump();
  } else if (call["verb"] == "VERSION") {
    std::cout
        << R"({"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]})";
  }
}

// Starts a process in a session of its own, with its parent gone, as daemons
// are. Returns once the process has recorded itself.
void StartDaemon(const std::string& log) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;
  }
  if (::fork() != 0) {
    ::close(ends[1]);
    char none = 0;
    while (::read(ends[0], &none, 1) > 0) {
    }
    ::close(ends[0]);
    return;
  }
  ::setsid();
  if (::fork() != 0) {
    ::_exit(EXIT_SUCCESS);
  }
  Log(log, {{"daemon", ::getpid()}});
  ::close(ends[0]);
  ::close(ends[1]);
  for (;;) {
    ::pause();
  }
}

void WaitForFile(const std::string& path) {
  while (!std::filesystem::exists(path)) {
    ::usleep(1000);
  }
}

void AnswerIps(const std::string& count) {
  Json result = {{"ips", Json::array()}};
  for (int left = std::stoi(count); left > 0; --left) {
    result["ips"].push_back({{"address", "10.1.0.2/24"}});
  }
  std::cout << result.dump();
}

// Prints a valid result whose unknown member is nested `depth` levels.
void AnswerDeep(const std::string& depth) {
  const auto levels = static_cast<std::size_t>(std::stoi(depth));
  std::cout << R"({"ips":[{"address":"10.1.0.2/24"}],"x":)"
            << std::string(levels, '[') << std::string(levels, ']') << "}";
}

int Fail(const std::string& code) {
  std::cout << Json{{"cniVersion", "1.0.0"},
                    {"code", std::stoi(code)},
                    {"msg", "told to\nfail"},
                    {"details", "by the \x1b[1mtest"}}
                   .dump();
  return EXIT_FAILURE;
}

[[noreturn]] void TalkWithoutEnd() {
  const std::string much(65536, 'x');
  for (;;) {
    std::cout << much;
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  if (Variable("CNI_COMMAND").empty()) {
    std::cerr << "CNI fake plugin v1.2.3\nCNI protocol versions supported\n";
    return EXIT_SUCCESS;
  }
  const Json config = Json::parse(input, nullptr, false);
  const Json fake = config.value("fake", Json::object());
  const Json call = Call(*argv, config);
  const std::string log = fake.value("log", "/dev/null");
  const std::string what = WhatToDo(fake, call);
  if (what == "daemon") {
    StartDaemon(log);
  }
  Log(log, call);
  const std::string word = what.substr(0, what.find(' '));
  const std::string rest = what.substr(std::min(word.size() + 1, what.size()));
  if (word == "error") {
    return Fail(rest);
  }
  if (word == "hang") {
    StartDaemon(log);
    WaitForFile("/never");
  } else if (word == "wait") {
    WaitForFile(rest);
  } else if (word == "huge") {
    TalkWithoutEnd();
  } else if (word == "garbage") {
    std::cout << "{\"interfaces\": [";
    return EXIT_SUCCESS;
  } else if (word == "silent") {
    return EXIT_SUCCESS;
  } else if (word == "crash") {
    ::raise(SIGKILL);
  } else if (word == "moan") {
    std::cerr << "no\troom\x01 left " << std::string(10000, '!');
    return 3;
  } else if (word == "ips") {
    AnswerIps(rest);
    return EXIT_SUCCESS;
  } else if (word == "deep") {
    AnswerDeep(rest);
    return EXIT_SUCCESS;
  }
  Answer(config, fake, call);
  return EXIT_SUCCESS;
}
