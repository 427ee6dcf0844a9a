// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/id_tools.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver/namespaces/child.h"
#include "mountd/base/one_line.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/write_all.h"

namespace mountd::driver {
namespace {

// An error repeats at most this many characters of a tool's output.
constexpr std::size_t kMostToolText = 300;

// Owns posix_spawn's two attribute objects. The program gets no fd but
// /dev/null and `output`, and no signal is blocked or ignored in it.
class ToolSetup {
 public:
  explicit ToolSetup(int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null",
                                       O_RDONLY, 0);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~ToolSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  ToolSetup(const ToolSetup&) = delete;
  ToolSetup& operator=(const ToolSetup&) = delete;

  int Spawn(pid_t* tool, char* const* argv) const {
    char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char locale[] = "LC_ALL=C";
    std::array<char*, 3> environment = {path, locale, nullptr};
    return ::posix_spawn(tool, argv[0], &actions_, &attributes_, argv,
                         environment.data());
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

std::string TextOf(int file) {
  std::string text(kMostToolText, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return OnOneLine(text);
}

std::vector<std::string> WordsOf(const std::string& tool, pid_t process,
                                 const IdMap& map) {
  std::vector<std::string> words = {tool, std::to_string(process)};
  for (const IdMapLine& line : map) {
    words.push_back(std::to_string(line.inside));
    words.push_back(std::to_string(line.outside));
    words.push_back(std::to_string(line.count));
  }
  return words;
}

// A running tool. The destructor kills a tool that still runs, because its
// `process` may end, and a later process could then get the same pid.
class IdTool {
 public:
  static Result<IdTool> Start(const std::string& name, pid_t process,
                              const IdMap& map);
  IdTool(IdTool&&) = default;
  IdTool& operator=(IdTool&&) = delete;
  ~IdTool() {
    if (running_.valid()) {
      IgnoreBecauseBestEffort(AwaitEnd(running_.get(),
                                       Deadline(std::chrono::milliseconds(0)),
                                       name_.c_str()));
    }
  }

  Result<void> Await(const Deadline& deadline);

 private:
  IdTool(std::string name, UniqueFd output)
      : name_(std::move(name)), output_(std::move(output)) {}

  std::string name_;
  UniqueFd output_;
  UniqueFd running_;  // not valid: somebody else has waited for the tool
};

Result<IdTool> IdTool::Start(const std::string& name, pid_t process,
                             const IdMap& map) {
  std::vector<std::string> words = WordsOf(name, process, map);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  IdTool tool(name, UniqueFd(::memfd_create("id-tool", MFD_CLOEXEC)));
  if (!tool.output_.valid()) {
    return ErrnoError(errno, "memfd_create", name);
  }
  pid_t pid = -1;
  const int failed = ToolSetup(tool.output_.get()).Spawn(&pid, argv.data());
  if (failed != 0) {
    return ErrnoError(failed, "posix_spawn", name);
  }
  Result<UniqueFd> running = PidfdOfChild(pid, name.c_str());
  if (running) {
    tool.running_ = *std::move(running);
  } else if (running.error().sys_errno != ECHILD) {
    return running.error();
  }
  return tool;
}

Result<void> IdTool::Await(const Deadline& deadline) {
  if (!running_.valid()) {
    // Somebody else has reaped the tool, so its status is lost. The comparison
    // of the maps shows whether the tool succeeded.
    return Ok();
  }
  const UniqueFd running = std::move(running_);
  MOUNTD_ASSIGN(const EndOfProcess end,
                AwaitEnd(running.get(), deadline, name_.c_str()));
  if (end.code == CLD_KILLED || end.code == CLD_DUMPED) {
    return ForkError(ECHILD, name_, "");
  }
  if (end.code == CLD_EXITED && end.status != 0) {
    return MakeError(Code::kPermissionDenied, name_, "", TextOf(output_.get()));
  }
  return Ok();
}

// The two tools write different files of the kernel's, so they run at once.
Result<void> RunIdTools(pid_t process, const IdMaps& maps,
                        const IdSources& sources, const Deadline& deadline) {
  MOUNTD_ASSIGN(IdTool uids,
                IdTool::Start(sources.newuidmap, process, maps.uids));
  MOUNTD_ASSIGN(IdTool gids,
                IdTool::Start(sources.newgidmap, process, maps.gids));
  MOUNTD_TRY(uids.Await(deadline));
  return gids.Await(deadline);
}

std::string ProcFile(pid_t process, const char* name) {
  return "/proc/" + std::to_string(process) + "/" + name;
}

Result<void> CheckMap(pid_t process, const char* name, IdMap wanted) {
  const std::string path = ProcFile(process, name);
  std::ifstream file(path);
  IdMap found;
  IdMapLine line;
  while (file >> line.inside >> line.outside >> line.count) {
    found.push_back(line);
  }
  // The kernel sorts a map of more than five lines.
  std::sort(found.begin(), found.end());
  std::sort(wanted.begin(), wanted.end());
  if (found != wanted) {
    return MakeError(Code::kFailedPrecondition, "id map", name,
                     "the kernel has another map than the one that was asked "
                     "for; look at the tools of the package uidmap");
  }
  return Ok();
}

Result<void> WriteProc(pid_t process, const char* name,
                       const std::string& text) {
  const std::string path = ProcFile(process, name);
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoError(errno, "open", name);
  }
  return WriteAll(file.get(), text, name);
}

std::string LineOf(const IdMap& map) {
  return std::to_string(map.front().inside) + " " +
         std::to_string(map.front().outside) + " 1\n";
}

}  // namespace

Result<void> GiveIdMaps(pid_t process, const IdMaps& maps,
                        const IdSources& sources, const Deadline& deadline) {
  if (maps.one_id()) {
    MOUNTD_TRY(WriteProc(process, "setgroups", "deny"));
    MOUNTD_TRY(WriteProc(process, "uid_map", LineOf(maps.uids)));
    MOUNTD_TRY(WriteProc(process, "gid_map", LineOf(maps.gids)));
  } else {
    MOUNTD_TRY(RunIdTools(process, maps, sources, deadline));
  }
  MOUNTD_TRY(CheckMap(process, "uid_map", maps.uids));
  return CheckMap(process, "gid_map", maps.gids);
}

}  // namespace mountd::driver
