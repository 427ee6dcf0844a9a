// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/programs.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "mountd/base/unique_fd.h"

namespace mountd::bench {
namespace {

constexpr char kPath[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

// Makes a file, because a pipe could fill up before the program reads, and a
// program that goes on in the background keeps a pipe open.
Result<UniqueFd> FileWith(const std::string& text) {
  UniqueFd file(::memfd_create("input", MFD_CLOEXEC));
  if (!file.valid() || ::pwrite(file.get(), text.data(), text.size(), 0) !=
                           static_cast<ssize_t>(text.size())) {
    return ErrnoError(errno, "memfd_create", "input");
  }
  return file;
}

Result<pid_t> Spawn(const Program& program, int input, int output) {
  std::vector<std::string> words = program.command;
  std::vector<std::string> variables = program.environment;
  variables.emplace_back(kPath);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, words.front().c_str(), &actions, nullptr,
                    Pointers(words).data(), Pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return ErrnoError(failed, "posix_spawn", program.command.front());
  }
  return child;
}

std::string ReadAll(const UniqueFd& file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::pread(file.get(), buffer.data(), buffer.size(),
                                static_cast<off_t>(text.size()));
    if (got <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<std::string> RunProgram(const Program& program) {
  MOUNTD_ASSIGN(const UniqueFd input, FileWith(program.input));
  MOUNTD_ASSIGN(const UniqueFd output, FileWith(""));
  MOUNTD_ASSIGN(const pid_t child, Spawn(program, input.get(), output.get()));
  int status = 0;
  if (::waitpid(child, &status, 0) < 0 || status != 0) {
    return MakeError(Code::kInternal, "run", program.command.front(),
                     ReadAll(output));
  }
  return ReadAll(output);
}

bool IsProgram(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

}  // namespace mountd::bench
