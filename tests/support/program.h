// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

namespace mountd::test {

// What a program did: its exit status (or -signal), and all it printed.
struct ProgramOutcome {
  int status = 0;
  std::string out;
  std::string err;
};

// Runs a program to its end, with an empty stdin.
ProgramOutcome RunProgram(const std::vector<std::string>& command);
// The same with a terminal of 60 columns as its stderr.
ProgramOutcome RunOnTerminal(const std::vector<std::string>& command);

// A program that goes on beside the test; killed when this is destroyed.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& command);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  // The next line of its stdout; "" when there is none any more.
  std::string ReadLine();
  void Signal(int number);
  // Its exit status, or -signal, once it has ended.
  int Wait();

 private:
  int pid_ = -1;
  int out_ = -1;
};

}  // namespace mountd::test
