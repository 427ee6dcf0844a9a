// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/fakes/cni_world.h"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

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

}  // namespace

void CniWorld::Make() {
  for (const char* directory : {"/run/networks", "/run/plugins"}) {
    fs::create_directory(directory);
  }
  for (const char* type : {"first", "second", "third"}) {
    InstallPlugin(type);
  }
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

bool IsAlive(int pid) { return ::kill(pid, 0) == 0 || errno == EPERM; }

Json CniWorld::Plugin(const std::string& type, const Json& what) {
  return {{"type", type},
          {"fake",
           {{"log", kLog}, {"do", what.is_null() ? Json::object() : what}}}};
}

Json CniWorld::Network(const std::string& name,
                       const std::vector<Json>& plugins) {
  return {{"name", name}, {"cniVersion", "1.0.0"}, {"plugins", plugins}};
}

void CniWorld::WriteNetwork(const std::string& file, const Json& network) {
  WriteFile("/run/networks/" + file, network.dump());
}

void CniWorld::InstallPlugin(const std::string& type) {
  fs::copy_file(CNI_FAKE_PLUGIN, "/run/plugins/" + type);
  fs::permissions("/run/plugins/" + type, fs::perms(0755));
}

std::vector<Json> CniWorld::Calls() {
  std::vector<Json> calls;
  for (const Json& line : LogLines()) {
    if (line.contains("verb")) {
      calls.push_back(line);
    }
  }
  return calls;
}

std::vector<std::string> CniWorld::CallNames() {
  std::vector<std::string> names;
  for (const Json& call : Calls()) {
    names.push_back(call["verb"].get<std::string>() + " " +
                    call["plugin"].get<std::string>());
  }
  return names;
}

void CniWorld::ForgetCalls() { fs::remove(kLog); }

std::vector<int> CniWorld::Daemons() {
  std::vector<int> daemons;
  for (const Json& line : LogLines()) {
    if (line.contains("daemon")) {
      daemons.push_back(line["daemon"].get<int>());
    }
  }
  return daemons;
}

}  // namespace mountd::cni
