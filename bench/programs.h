// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

struct Program {
  std::vector<std::string> command;        // the first word is the path
  std::vector<std::string> environment{};  // in addition to PATH
  std::string input{};
};

// Runs the program in the calling thread's namespaces and returns its output.
// If the program fails, returns an error with the output.
Result<std::string> RunProgram(const Program& program);

bool IsProgram(const std::string& path);

}  // namespace mountd::bench
