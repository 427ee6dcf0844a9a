// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-launcher: provides the sockets and services of
// systemd/*.{socket,service}, for tests and for ./try, where no systemd runs.
//
//   mountd-launcher --bin-dir DIR [--mountd-user NAME] [--csi-user NAME]
//                   [--log FILE] [--now] [--restart-soon] [--cni]
//
// Runs until SIGTERM or SIGINT; then stops what it started and removes the
// sockets. One thread, one poll loop.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/paths.h"
#include "tests/support/node/service.h"

namespace mountd::launcher {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// RestartSec=, and the limit that it grows to while a service ends at once.
constexpr milliseconds kRestartDelay{100};
constexpr milliseconds kSoon{10};  // with --restart-soon, for tests that kill
constexpr milliseconds kLongestRestartDelay{5000};
// TimeoutStopSec=
constexpr milliseconds kStopTimeout{5000};
// MaxConnections=, of a socket with Accept=yes.
constexpr std::size_t kMaxInstances = 64;

// mountd-exec's capabilities, all it ever has (systemd/mountd-exec@.service):
//   SYS_ADMIN        mounts and namespaces
//   NET_ADMIN        links, addresses, routes, nf_tables
//   DAC_READ_SEARCH  plugins' sockets below directories of other users
//   CHOWN            directories handed to their users
//   SETUID, SETGID   the maps of idmapped mounts
//   SYS_PTRACE       which files of a mount processes hold
//   SYS_CHROOT       entering containers' mount namespaces
const std::vector<cap_value_t> kExecutorCapabilities = {
    CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_DAC_READ_SEARCH, CAP_CHOWN,
    CAP_SETUID,    CAP_SETGID,    CAP_SYS_PTRACE,      CAP_SYS_CHROOT};

// mountd-closer's account, where systemd has DynamicUser=.
constexpr Account kNobody{65534, 65534};

struct Options {
  std::string bin_dir;
  std::string mountd_user = "mountd";
  std::string csi_user = "mountd-csi";
  std::string log;
  bool now = false;
  bool restart_soon = false;
  bool cni = false;  // a drop-in's CAP_NET_RAW for CNI's plugins
};

std::vector<cap_value_t> CapabilitiesOfExecutor(const Options& options) {
  std::vector<cap_value_t> capabilities = kExecutorCapabilities;
  if (options.cni) {
    capabilities.push_back(CAP_NET_RAW);
  }
  return capabilities;
}

struct Instance {
  pid_t pid = -1;
  UniqueFd pidfd;
};

struct Unit {
  Service service;
  UniqueFd listener;
  std::vector<Instance> instances;
  std::optional<Clock::time_point> start_at;  // a restart that is due
  Clock::time_point started{};
  milliseconds delay = kRestartDelay;
};

void Log(const std::string& text) {
  std::fprintf(stderr, "launcher: %s\n", text.c_str());
}

std::string Reason(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) {
    return "exit status " + std::to_string(info.si_status);
  }
  const char* name = sigabbrev_np(info.si_status);
  return std::string("signal SIG") + (name != nullptr ? name : "?");
}

class Launcher {
 public:
  Launcher(Options options, UniqueFd signals, UniqueFd output)
      : options_(std::move(options)),
        signals_(std::move(signals)),
        output_(std::move(output)) {}

  Result<void> AddUnit(Service service) {
    MOUNTD_ASSIGN(UniqueFd listener, Listen(service));
    Unit unit;
    unit.service = std::move(service);
    unit.listener = std::move(listener);
    units_.push_back(std::move(unit));
    return Ok();
  }

  // Runs until a signal ends it.
  void Run() {
    if (options_.now) {
      StartUnit(units_.front());
    }
    while (Step()) {
    }
    Stop();
  }

 private:
  // The unit or instance of one entry of the poll set.
  struct Watch {
    Unit* unit = nullptr;  // null: the signals
    std::size_t instance = 0;
    bool is_listener = false;
  };

  bool WantsListener(const Unit& unit) const {
    if (unit.service.accept) {
      return unit.instances.size() < kMaxInstances;
    }
    return unit.instances.empty() && !unit.start_at;
  }

  int PollTimeout() const {
    int timeout = -1;
    for (const Unit& unit : units_) {
      if (unit.start_at) {
        const auto left =
            std::chrono::ceil<milliseconds>(*unit.start_at - Clock::now());
        const int wait = static_cast<int>(std::max(left.count(), 0L));
        timeout = timeout < 0 ? wait : std::min(timeout, wait);
      }
    }
    return timeout;
  }

  bool Step() {
    std::vector<pollfd> fds = {{signals_.get(), POLLIN, 0}};
    std::vector<Watch> watches = {{}};
    for (Unit& unit : units_) {
      if (WantsListener(unit)) {
        fds.push_back({unit.listener.get(), POLLIN, 0});
        watches.push_back({&unit, 0, true});
      }
      // Instances are added backwards, so that reaping one leaves the indexes
      // of the rest right.
      for (std::size_t i = unit.instances.size(); i-- > 0;) {
        fds.push_back({unit.instances[i].pidfd.get(), POLLIN, 0});
        watches.push_back({&unit, i, false});
      }
    }
    if (poll(fds.data(), fds.size(), PollTimeout()) < 0 && errno != EINTR) {
      Log("poll: " + std::string(strerrordesc_np(errno)));
      return false;
    }
    if (fds[0].revents != 0) {
      return false;
    }
    for (std::size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0 && !watches[i].is_listener) {
        Reap(*watches[i].unit, watches[i].instance);
      }
    }
    for (std::size_t i = 1; i < fds.size(); ++i) {
      if (fds[i].revents != 0 && watches[i].is_listener) {
        Connected(*watches[i].unit);
      }
    }
    for (Unit& unit : units_) {
      if (unit.start_at && Clock::now() >= *unit.start_at) {
        StartUnit(unit);
      }
    }
    return true;
  }

  void Connected(Unit& unit) {
    if (!unit.service.accept) {
      StartUnit(unit);
      return;
    }
    const UniqueFd connection(
        accept4(unit.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (connection.valid()) {
      StartInstance(unit, connection);
    }
  }

  void StartUnit(Unit& unit) {
    unit.start_at.reset();
    StartInstance(unit, unit.listener);
  }

  void StartInstance(Unit& unit, const UniqueFd& socket) {
    auto pid = Start(unit.service, options_.bin_dir, socket, output_);
    if (!pid) {
      Log(pid.error().Message());
      return;
    }
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
    Log("started " + unit.service.name + " pid " + std::to_string(*pid));
    unit.instances.push_back(Instance{*pid, std::move(pidfd)});
    unit.started = Clock::now();
  }

  void Reap(Unit& unit, std::size_t index) {
    Instance& instance = unit.instances[index];
    siginfo_t info{};
    if (waitid(P_PIDFD, static_cast<id_t>(instance.pidfd.get()), &info,
               WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0) {
      return;
    }
    Log("ended " + unit.service.name + " pid " + std::to_string(instance.pid) +
        ": " + Reason(info));
    unit.instances.erase(unit.instances.begin() +
                         static_cast<std::ptrdiff_t>(index));
    const bool failed = info.si_code != CLD_EXITED || info.si_status != 0;
    if (unit.service.restart && failed && !stopping_) {
      const bool lived = Clock::now() - unit.started > kLongestRestartDelay;
      unit.delay = options_.restart_soon ? kSoon
                   : lived               ? kRestartDelay
                           : std::min(unit.delay * 2, kLongestRestartDelay);
      unit.start_at = Clock::now() + unit.delay;
    }
  }

  void SignalAll(int signal) const {
    for (const Unit& unit : units_) {
      for (const Instance& instance : unit.instances) {
        syscall(SYS_pidfd_send_signal, instance.pidfd.get(), signal, nullptr,
                0);
      }
    }
  }

  // Waits until all have ended, or until the timeout.
  bool AwaitAll(milliseconds timeout) {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      std::vector<pollfd> fds;
      for (Unit& unit : units_) {
        for (std::size_t i = unit.instances.size(); i-- > 0;) {
          Reap(unit, i);
        }
        for (const Instance& instance : unit.instances) {
          fds.push_back({instance.pidfd.get(), POLLIN, 0});
        }
      }
      const auto left =
          std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
      if (fds.empty() || left <= 0) {
        return fds.empty();
      }
      poll(fds.data(), fds.size(), static_cast<int>(left));
    }
  }

  void Stop() {
    stopping_ = true;
    // The socket paths go first, because a client must not wait for a service
    // that will not come back.
    for (Unit& unit : units_) {
      unlink(unit.service.socket_path.c_str());
    }
    SignalAll(SIGTERM);
    if (!AwaitAll(kStopTimeout)) {
      Log("not all ended in time, killing the rest");
      SignalAll(SIGKILL);
      AwaitAll(kStopTimeout);
    }
  }

  const Options options_;
  const UniqueFd signals_;
  const UniqueFd output_;
  std::vector<Unit> units_;
  bool stopping_ = false;
};

// Makes the directories of RuntimeDirectory= and StateDirectory=.
Result<void> MakeDirectory(const char* path, mode_t mode,
                           const Account& owner) {
  if (mkdir(path, mode) < 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", path);
  }
  if (chmod(path, mode) < 0 || chown(path, owner.uid, owner.gid) < 0) {
    return ErrnoError(errno, "chown", path);
  }
  return Ok();
}

Result<void> AddUnits(Launcher& launcher, const Options& options,
                      const Account& mountd, const Account& csi) {
  MOUNTD_TRY(MakeDirectory(paths::kRunDir, 0755, Account{}));
  MOUNTD_TRY(MakeDirectory("/run/mountd/state", 0700, mountd));
  MOUNTD_TRY(MakeDirectory("/var/lib/mountd", 0700, mountd));
  // Anybody may connect to the bus socket, because mountd decides by the peer's
  // credentials what each caller may do.
  MOUNTD_TRY(launcher.AddUnit({.name = "mountd",
                               .fd_name = "bus",
                               .socket_path = paths::kBusSocket,
                               .socket_type = SOCK_STREAM,
                               .socket_mode = 0666,
                               .socket_owner = {},
                               .account = mountd,
                               .capabilities = {},
                               .accept = false,
                               .restart = true}));
  MOUNTD_TRY(launcher.AddUnit({.name = "mountd-exec",
                               .fd_name = "connection",
                               .socket_path = paths::kExecSocket,
                               .socket_type = SOCK_SEQPACKET,
                               .socket_mode = 0600,
                               .socket_owner = mountd,
                               .account = {},
                               .capabilities = CapabilitiesOfExecutor(options),
                               .accept = true,
                               .restart = false}));
  MOUNTD_TRY(launcher.AddUnit({.name = "mountd-closer",
                               .fd_name = "connection",
                               .socket_path = paths::kCloserSocket,
                               .socket_type = SOCK_SEQPACKET,
                               .socket_mode = 0600,
                               .socket_owner = mountd,
                               .account = kNobody,
                               .capabilities = {},
                               .accept = true,
                               .restart = false}));
  return launcher.AddUnit({.name = "mountd-csi",
                           .fd_name = "csi",
                           .socket_path = paths::kCsiSocket,
                           .socket_type = SOCK_STREAM,
                           .socket_mode = 0600,
                           .socket_owner = mountd,
                           .account = csi,
                           .capabilities = {},
                           .accept = false,
                           .restart = false});
}

std::optional<Options> ParseOptions(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    std::string* value = flag == "--bin-dir"       ? &options.bin_dir
                         : flag == "--mountd-user" ? &options.mountd_user
                         : flag == "--csi-user"    ? &options.csi_user
                         : flag == "--log"         ? &options.log
                                                   : nullptr;
    if (flag == "--now") {
      options.now = true;
    } else if (flag == "--restart-soon") {
      options.restart_soon = true;
    } else if (flag == "--cni") {
      options.cni = true;
    } else if (value != nullptr && i + 1 < argc) {
      *value = argv[++i];
    } else {
      return std::nullopt;
    }
  }
  if (options.bin_dir.empty()) {
    return std::nullopt;
  }
  return options;
}

Result<void> Main(const Options& options) {
  MOUNTD_ASSIGN(const Account mountd, FindAccount(options.mountd_user));
  MOUNTD_ASSIGN(const Account csi, FindAccount(options.csi_user));
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  UniqueFd signals(signalfd(-1, &set, SFD_CLOEXEC));
  if (!signals.valid()) {
    return ErrnoError(errno, "signalfd", "");
  }
  UniqueFd output;
  if (!options.log.empty()) {
    output.reset(open(options.log.c_str(),
                      O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!output.valid()) {
      return ErrnoError(errno, "open", options.log);
    }
  }
  Launcher launcher(options, std::move(signals), std::move(output));
  MOUNTD_TRY(AddUnits(launcher, options, mountd, csi));
  launcher.Run();
  return Ok();
}

}  // namespace
}  // namespace mountd::launcher

int main(int argc, char** argv) {
  const auto options = mountd::launcher::ParseOptions(argc, argv);
  if (!options) {
    std::fputs(
        "usage: mountd-launcher --bin-dir DIR [--mountd-user NAME] "
        "[--csi-user NAME] [--log FILE] [--now] [--restart-soon] "
        "[--cni]\n",
        stderr);
    return 2;
  }
  const auto result = mountd::launcher::Main(*options);
  if (!result) {
    std::fprintf(stderr, "mountd-launcher: %s\n",
                 result.error().Message().c_str());
    return 1;
  }
  return 0;
}
