// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/program.h"

namespace mountd::nomad::testing {

inline constexpr char kCookie[] =
    "NOMAD_PLUGIN_MAGIC_COOKIE="
    "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255";

// Owns mountd-nomad-driver as a Nomad client starts it, with these variables.
class PluginProcess {
 public:
  explicit PluginProcess(const std::vector<std::string>& variables = {})
      : program_(CommandOf(variables)), line_(program_.ReadLine()) {}

  const std::string& line() const { return line_; }
  // The socket's path; "" if the program has not said one.
  std::string Socket() const {
    constexpr char kBefore[] = "1|2|unix|";
    const std::size_t end = line_.find('|', sizeof(kBefore) - 1);
    return line_.starts_with(kBefore) && end != std::string::npos
               ? line_.substr(sizeof(kBefore) - 1, end - sizeof(kBefore) + 1)
               : "";
  }
  std::shared_ptr<grpc::Channel> Connect() const {
    return grpc::CreateChannel("unix:" + Socket(),
                               grpc::InsecureChannelCredentials());
  }
  void Signal(int number) { program_.Signal(number); }
  int Wait() { return program_.Wait(); }

 private:
  static std::vector<std::string> CommandOf(
      const std::vector<std::string>& variables) {
    std::vector<std::string> command = {"/usr/bin/env", "-i", "PATH=/usr/bin",
                                        kCookie};
    command.insert(command.end(), variables.begin(), variables.end());
    command.emplace_back(MOUNTD_NOMAD_DRIVER);
    return command;
  }

  test::RunningProgram program_;
  std::string line_;
};

}  // namespace mountd::nomad::testing
