// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

namespace mountd::test {

// A program's exit status (or -signal), and all that it printed.
struct ProgramOutcome {
  int status = 0;
  std::string out;
  std::string err;
};

// Runs a program to its end, with an empty stdin.
ProgramOutcome RunProgram(const std::vector<std::string>& command);
// Runs a program with a terminal of 60 columns as its stderr.
ProgramOutcome RunOnTerminal(const std::vector<std::string>& command);

// Owns a program that runs beside the test. Kills it in the destructor.
class RunningProgram {
 public:
  explicit RunningProgram(const std::vector<std::string>& command);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  // Returns the next line of its stdout; "" at the end.
  std::string ReadLine();
  void Signal(int number);
  // Waits for its end. Returns its exit status, or -signal.
  int Wait();

 private:
  int pid_ = -1;
  int out_ = -1;
};

}  // namespace mountd::test
