// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/tool.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "csi-node/csi-local/tool_sandbox.h"

namespace mountd::csi_local {
namespace {

constexpr int kDeadlineMs = 10 * 60 * 1000;
constexpr mode_t kImageMode = 0600;
constexpr mode_t kLentMode = 0666;

Result<std::string> Locate(const std::string& name) {
  for (const char* directory : {"/usr/sbin/", "/sbin/"}) {
    const std::string path = directory + name;
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_uid == 0 && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) {
      return path;
    }
  }
  return MakeError(Code::kNotSupported, "tool", name,
                   "is not in /usr/sbin, or others than root can write it");
}

// Lets everybody open the image while a tool works, because the tool opens it
// by kToolFile as a user that owns no file. Still only root can reach the
// image, because only root may enter its directory.
class Lent {
 public:
  explicit Lent(const UniqueFd& image) : image_(image.get()) {
    lent_ = ::fchmod(image_, kLentMode) == 0;
  }
  ~Lent() { ::fchmod(image_, kImageMode); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
  bool lent() const { return lent_; }

 private:
  const int image_;
  bool lent_ = false;
};

// Owns posix_spawn's two attribute objects.
class SpawnSetup {
 public:
  explicit SpawnSetup(int file) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, file, kToolFd);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null",
                                       O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, "/dev/null",
                                       O_WRONLY, 0);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kToolFd + 1);
    ::posix_spawnattr_init(&attributes_);
    // An empty mask, because this process blocks signals.
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSetup() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  int Spawn(pid_t* child, char* const* argv) {
    char path_variable[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    char locale[] = "LC_ALL=C";
    std::string starter =
        std::string(kToolStarter) + "=" + std::to_string(::getpid());
    char* environment[] = {path_variable, locale, starter.data(), nullptr};
    // Starts this program again, because a fork with gRPC's threads can do
    // almost nothing.
    return ::posix_spawn(child, "/proc/self/exe", &actions_, &attributes_, argv,
                         environment);
  }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

Result<int> Wait(pid_t child, const std::string& name) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ended{process.get(), POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&ended, 1, kDeadlineMs)) < 0 && errno == EINTR) {
  }
  if (ready == 0) {
    // The pid is still the tool's, because nobody has waited for it yet.
    ::kill(child, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (ready == 0) {
    return MakeError(Code::kDeadlineExceeded, "tool", name);
  }
  if (!WIFEXITED(status)) {
    return MakeError(Code::kInternal, "tool", name, "was killed");
  }
  return WEXITSTATUS(status);
}

}  // namespace

Result<int> RunTool(const std::string& name,
                    const std::vector<std::string>& arguments,
                    const UniqueFd& file) {
  MOUNTD_ASSIGN(const std::string path, Locate(name));
  std::vector<std::string> words{"csi-local", kRunToolOption, path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  // Duplicates the fd, because dup2 of fd 3 onto itself would leave it
  // close-on-exec.
  const UniqueFd high(::fcntl(file.get(), F_DUPFD_CLOEXEC, kToolFd + 1));
  if (!high.valid()) {
    return ErrnoError(errno, "fcntl", name);
  }
  const Lent lent(file);
  if (!lent.lent()) {
    return ErrnoError(errno, "fchmod", name);
  }
  SpawnSetup setup(high.get());
  pid_t child = -1;
  const int failed = setup.Spawn(&child, argv.data());
  if (failed != 0) {
    return ErrnoError(failed, "posix_spawn", name);
  }
  return Wait(child, name);
}

}  // namespace mountd::csi_local
