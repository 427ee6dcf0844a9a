// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/node/node.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "mountd/base/number.h"
#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kWorld[] = "/run/node";
constexpr char kLog[] = "/run/node/daemons.log";
constexpr char kLauncherLog[] = "/run/node/launcher.log";

// Returns the first number of a line in a file of proc(5); -1 if there is no
// such line.
long NumberAfter(const std::string& key, const std::string& path) {
  std::ifstream file(path);
  long number = -1;
  for (std::string word; file >> word;) {
    if (word == key) {
      file >> number;
      break;
    }
  }
  return number;
}

Result<void> MountTmpfsAt(const char* path) {
  if (::mount("tmpfs", path, "tmpfs", 0, "mode=0755") != 0) {
    return ErrnoError(errno, "mount", path);
  }
  return Ok();
}

// Makes a copy of /etc with accounts that the machine lacks.
Result<void> MakeEtc(const std::string& config) {
  const std::string etc = std::string(kWorld) + "/etc";
  std::error_code error;
  fs::create_directories(etc, error);
  fs::copy("/etc", etc,
           fs::copy_options::recursive | fs::copy_options::copy_symlinks |
               fs::copy_options::skip_existing,
           error);
  uid_t uid = kMountdUid;
  for (const char* user : {"mountd", "mountd-csi", "agent"}) {
    const std::string ids =
        std::to_string(uid) + ":" + std::to_string(uid) + "::/:/bin/false\n";
    std::ofstream(etc + "/passwd", std::ios::app) << user << ":x:" << ids;
    std::ofstream(etc + "/group", std::ios::app)
        << user << ":x:" << uid << ":\n";
    ++uid;
  }
  fs::create_directories(etc + "/mountd", error);
  const std::string path = etc + "/mountd/mountd.toml";
  std::ofstream(path) << config;
  // The mode of a new directory depends on the test's umask, but nobody except
  // root may write to /etc.
  for (const std::string& directory : {etc, etc + "/mountd"}) {
    fs::permissions(directory, fs::perms(0755), error);
  }
  fs::permissions(path, fs::perms(0644), error);
  if (error) {
    return ErrnoError(error.value(), "copy", "/etc");
  }
  if (::mount(etc.c_str(), "/etc", nullptr, MS_BIND, nullptr) != 0) {
    return ErrnoError(errno, "mount", "/etc");
  }
  return Ok();
}

[[noreturn]] void RunLauncher(pid_t parent, const char* programs,
                              bool with_cni) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const int log =
      ::open(kLauncherLog, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (::getppid() == parent && ::dup2(log, STDOUT_FILENO) >= 0 &&
      ::dup2(log, STDERR_FILENO) >= 0) {
    ::execl(MOUNTD_LAUNCHER, MOUNTD_LAUNCHER, "--bin-dir", programs, "--log",
            kLog, "--restart-soon", with_cni ? "--cni" : nullptr, nullptr);
  }
  ::_exit(127);
}

bool IsSocket(const char* path) {
  struct stat st = {};
  return ::stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

std::string TextOf(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

Result<std::unique_ptr<Node>> Node::Start(const std::string& config,
                                          const std::string& programs) {
  fs::create_directories(kWorld);
  fs::permissions(kWorld, fs::perms(0755));
  MOUNTD_TRY(MountTmpfsAt("/var/lib"));
  MOUNTD_TRY(MakeEtc(config));
  return StartAgain(config.find("[cni]") != std::string::npos, programs);
}

Result<std::unique_ptr<Node>> Node::StartAgain(bool with_cni,
                                               const std::string& programs) {
  std::unique_ptr<Node> node(new Node);
  const pid_t parent = ::getpid();
  node->launcher_ = ::fork();
  if (node->launcher_ == 0) {
    RunLauncher(parent, programs.empty() ? MOUNTD_BIN_DIR : programs.c_str(),
                with_cni);
  }
  // The launcher makes this socket last.
  for (int i = 0; i < 5000 && !IsSocket(paths::kCsiSocket); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!IsSocket(paths::kCsiSocket)) {
    return MakeError(Code::kUnavailable, "start", "mountd-launcher",
                     TextOf(kLauncherLog));
  }
  return node;
}

Node::~Node() {
  if (launcher_ > 0) {
    ::kill(launcher_, SIGTERM);
    ::waitpid(launcher_, nullptr, 0);
  }
}

Result<agent::Client> Node::Connect(agent::ClientOptions options) const {
  return ConnectAs(kAgentUid, std::move(options));
}

Result<agent::Client> Node::ConnectAs(uid_t uid,
                                      agent::ClientOptions options) const {
  // A sanitizer's mountd on a busy machine may need longer than the default.
  if (options.connect_timeout == agent::ClientOptions().connect_timeout) {
    options.connect_timeout = std::chrono::seconds(60);
  }
  std::optional<Result<agent::Client>> client;
  // The system calls are made directly, because glibc's functions change all
  // threads.
  std::thread([&] {
    ::syscall(SYS_setgroups, 0, nullptr);
    ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
    ::syscall(SYS_setresuid, uid, uid, uid);
    client = agent::Client::Connect(std::move(options));
  }).join();
  return *std::move(client);
}

std::vector<UniqueFd> Node::Processes(const std::string& name) {
  std::vector<UniqueFd> found;
  for (auto& [known, process] : ProcessesOf({name})) {
    found.push_back(std::move(process));
  }
  return found;
}

std::vector<std::pair<std::string, UniqueFd>> Node::ProcessesOf(
    const std::set<std::string>& names) {
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/ns/mnt");
  std::vector<std::pair<std::string, UniqueFd>> found;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const auto pid = ParseNumber<pid_t>(process.path().filename().string());
    if (!pid) {
      continue;
    }
    const std::string comm = process.path().string() + "/comm";
    const std::string name = TextOf(comm.c_str());
    if (name.empty() || !names.contains(name.substr(0, name.size() - 1))) {
      continue;
    }
    // The name is read again, because the pid may be another process's by now.
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    if (fd.valid() && TextOf(comm.c_str()) == name &&
        fs::read_symlink(process.path() / "ns/mnt", ignored) == own) {
      found.emplace_back(name.substr(0, name.size() - 1), std::move(fd));
    }
  }
  return found;
}

pid_t Node::PidOf(const UniqueFd& process) {
  return static_cast<pid_t>(NumberAfter(
      "Pid:", "/proc/self/fdinfo/" + std::to_string(process.get())));
}

void Node::Kill(const std::vector<UniqueFd>& processes) {
  for (const UniqueFd& process : processes) {
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
  }
  for (const UniqueFd& process : processes) {
    pollfd entry = {process.get(), POLLIN, 0};
    ::poll(&entry, 1, -1);
  }
}

void Node::KillAll() {
  for (const char* name :
       {"mountd", "mountd-csi", "mountd-exec", "mountd-closer"}) {
    Kill(Processes(name));
  }
}

bool Node::Limit(const std::string& name, int resource, std::uint64_t most) {
  bool all = true;
  for (const UniqueFd& process : Processes(name)) {
    const pid_t pid = PidOf(process);
    const auto uid = static_cast<uid_t>(
        NumberAfter("Uid:", "/proc/" + std::to_string(pid) + "/status"));
    // The thread becomes the process's user, because that user needs no
    // capability for prlimit.
    std::thread([&] {
      ::syscall(SYS_setresgid, uid, uid, uid);
      ::syscall(SYS_setresuid, uid, uid, uid);
      rlimit limit = {};
      const auto which = static_cast<__rlimit_resource>(resource);
      bool limited = ::prlimit(pid, which, nullptr, &limit) == 0;
      limit.rlim_cur = std::min<rlim_t>(most, limit.rlim_max);
      limited = limited && ::prlimit(pid, which, &limit, nullptr) == 0;
      all = all && (limited || errno == ESRCH);
    }).join();
  }
  return all;
}

std::uint64_t Node::DataOf(const std::string& name) {
  long most_kib = 0;
  for (const UniqueFd& process : Processes(name)) {
    most_kib = std::max(
        most_kib,
        NumberAfter("VmData:",
                    "/proc/" + std::to_string(PidOf(process)) + "/status"));
  }
  return static_cast<std::uint64_t>(most_kib) * 1024;
}

std::size_t Node::Told(const std::string& text) const {
  const std::string log = Log();
  std::size_t count = 0;
  for (std::size_t at = 0; (at = log.find(text, at)) != std::string::npos;
       ++at) {
    ++count;
  }
  return count;
}

std::string Node::Log() const { return TextOf(kLog) + TextOf(kLauncherLog); }

std::vector<std::string> MountPointsUnder(const std::string& path) {
  std::vector<std::string> found;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::string id, parent, device, root, point;
    std::istringstream(line) >> id >> parent >> device >> root >> point;
    if (point == path || point.starts_with(path + "/")) {
      found.push_back(point);
    }
  }
  return found;
}

}  // namespace mountd::testing
