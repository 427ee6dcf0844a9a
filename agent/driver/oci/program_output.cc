// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "agent/driver/namespaces/child.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {
namespace {

constexpr std::size_t kMostText = 4096;
constexpr std::chrono::seconds kPatience{10};

std::string ReadUntil(int pipe, const Deadline& deadline) {
  std::string text;
  std::array<char, kMostText> part{};
  pollfd waiting = {pipe, POLLIN, 0};
  while (text.size() < kMostText &&
         ::poll(&waiting, 1, deadline.LeftMs()) > 0) {
    const ssize_t got = ::read(pipe, part.data(), part.size());
    if (got <= 0) {
      break;
    }
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

Result<std::string> OutputOf(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return ErrnoError(errno, "pipe2", command.front());
  }
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, 0, 2);
  pid_t child = -1;
  const int failed = ::posix_spawnp(&child, words[0], &actions, nullptr,
                                    words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return ErrnoError(failed, "run", command.front());
  }
  in.reset();
  MOUNTD_ASSIGN(const UniqueFd process,
                PidfdOfChild(child, command.front().c_str()));
  const Deadline deadline(kPatience);
  std::string text = ReadUntil(out.get(), deadline);
  MOUNTD_ASSIGN(const EndOfProcess end,
                AwaitEnd(process.get(), deadline, command.front().c_str()));
  if (end.code == CLD_EXITED && end.status != 0) {
    return MakeError(Code::kFailedPrecondition, "run", command.front(),
                     "exit status " + std::to_string(end.status));
  }
  return text;
}

}  // namespace mountd::driver
