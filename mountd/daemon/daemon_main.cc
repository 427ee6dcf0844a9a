// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/daemon_main.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sysexits.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <memory>
#include <string>

#include "dbus/receive/received_fds.h"
#include "mountd/base/accounts.h"
#include "mountd/base/fd_limit.h"
#include "mountd/base/out_of_memory.h"
#include "mountd/base/paths.h"
#include "mountd/config/accepted_config.h"
#include "mountd/daemon/downgrade_command.h"
#include "mountd/daemon/log.h"

namespace mountd {
namespace {

// Returns the peer-to-peer socket that systemd or the launcher passed.
Result<UniqueFd> ActivatedSocket() {
  const int count = sd_listen_fds(/*unset_environment=*/0);
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
    if (sd_is_socket_unix(fd, SOCK_STREAM, /*listening=*/1, nullptr, 0) > 0) {
      return UniqueFd(fd);
    }
  }
  return MakeError(Code::kFailedPrecondition, "start", "mountd",
                   "received no listening socket (LISTEN_FDS); start mountd "
                   "through mountd.socket or mountd-launcher");
}

// Forbids core dumps, because fds of secrets pass through this process and
// agents' data is in its memory.
Result<void> DumpNoCore() {
  const rlimit none{0, 0};
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 ||
      ::setrlimit(RLIMIT_CORE, &none) != 0) {
    return ErrnoError(errno, "prctl", "mountd");
  }
  return Ok();
}

Result<void> RunDaemon(const DaemonOptions& options, const Seams& seams) {
  MOUNTD_TRY(dbus::CheckReceives());
  MOUNTD_TRY(DumpNoCore());
  RaiseFdLimit();
  MOUNTD_ASSIGN(UniqueFd listening, ActivatedSocket());
  MOUNTD_ASSIGN(const auto daemon,
                Daemon::Start(options, std::move(listening), seams));
  Result<void> ended = daemon->Run();
  // Ends without destructors, because workers may be in a plan or an RPC. Their
  // unfinished work is an intent in the store, exactly as after a kill.
  spdlog::shutdown();
  if (!ended) {
    std::_Exit(EXIT_FAILURE);
  }
  // systemd starts mountd again after EX_TEMPFAIL (RestartForceExitStatus=).
  std::_Exit(daemon->restart() ? EX_TEMPFAIL : EXIT_SUCCESS);
}

Result<void> TryConfig(const std::string& path,
                       const std::string& accept_from) {
  if (!accept_from.empty()) {
    MOUNTD_ASSIGN(const gid_t readers, FindGroup("mountd"));
    return AcceptConfig(accept_from, path, readers);
  }
  MOUNTD_TRY(LoadConfig(path, /*require_root_owned=*/true));
  return Ok();
}

// Returns the exit status; EX_CONFIG if the configuration is wrong.
int CheckConfig(const std::string& path, const std::string& accept_from) {
  const Result<void> right = TryConfig(path, accept_from);
  if (!right) {
    spdlog::error("{}", right.error().Message());
    return EX_CONFIG;
  }
  return EXIT_SUCCESS;
}

}  // namespace

int DaemonMain(int argc, char** argv, const Seams& seams) try {
  EndWhenOutOfMemory("mountd");
  LogToStderr();
  CLI::App app{
      "mountd: mounts, CSI volumes and networks for an unprivileged "
      "node agent"};
  DaemonOptions options{paths::kConfig, true};
  bool no_bus = false;
  bool check = false;
  bool downgrade = false;
  std::string accept_from;
  std::uint32_t idle_seconds = 0;
  CLI::Option* const config = app.add_option("--config", options.config_path,
                                             "Read this configuration file")
                                  ->capture_default_str();
  app.add_flag("--no-bus", no_bus,
               "Serve only the peer-to-peer socket, not the system bus");
  app.add_option("--exit-when-idle", idle_seconds,
                 "End after so many seconds with nothing to do, until a socket "
                 "starts mountd again (0: never)");
  CLI::Option* const only_check =
      app.add_flag("--check", check,
                   "Check the configuration, print what is wrong, and end");
  app.add_option("--accept-from", accept_from,
                 "Check this file, install it as --config, readable by the "
                 "group mountd, and end")
      ->excludes(only_check)
      ->needs(config);
  app.add_flag("--downgrade-stores", downgrade,
               "Give the stores the schemas of the last release, print what is "
               "lost, and end; mountd must not run")
      ->excludes(only_check);
  app.set_version_flag("--version", std::string(MOUNTD_VERSION));
  CLI11_PARSE(app, argc, argv);
  options.system_bus = !no_bus;
  options.exit_when_idle = std::chrono::seconds(idle_seconds);
  if (check || !accept_from.empty()) {
    return CheckConfig(options.config_path, accept_from);
  }
  if (downgrade) {
    return DowngradeTheStores(paths::kBootStore, paths::kStateStore);
  }
  const Result<void> ended = RunDaemon(options, seams);
  spdlog::critical("{}", ended ? "ended" : ended.error().Message());
  return EXIT_FAILURE;
} catch (const std::exception& error) {
  spdlog::critical("{}", error.what());
  return EXIT_FAILURE;
}

}  // namespace mountd
