// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/executor_main.h"

#include <getopt.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "mountd/base/accounts.h"
#include "mountd/base/number.h"
#include "mountd/base/one_line.h"
#include "mountd/base/out_of_memory.h"
#include "mountd/base/paths.h"
#include "mountd/exec/dispatcher.h"
#include "mountd/exec/privileges.h"
#include "mountd/exec/restrict_memory.h"
#include "mountd/exec/server.h"
#include "mountd/kernel/real_kernel.h"
#include "netns/plans/cni_program.h"

namespace mountd::exec {
namespace {

constexpr char kUsage[] =
    "Usage: mountd-exec [--config FILE] [--peer-user NAME|UID]\n"
    "                   [--socket-fd N]\n"
    "Carries out mountd's plans. Started by mountd-exec.socket, never by "
    "hand.\n"
    "  --config FILE       root's configuration (/etc/mountd/mountd.toml)\n"
    "  --peer-user NAME    the only user whose plans are taken (mountd)\n"
    "  --socket-fd N       the connected socket, if not by LISTEN_FDS\n";

// Longer than kRest, because an executor begins its idle time again after each
// rest.
constexpr std::chrono::seconds kIdle = kRest + std::chrono::seconds(10);

struct Options {
  std::string config = paths::kConfig;
  std::string peer_user = "mountd";
  int socket_fd = -1;
};

std::optional<Options> ParseOptions(int argc, char** argv) {
  constexpr std::array<option, 5> kOptions = {{
      {"config", required_argument, nullptr, 'c'},
      {"peer-user", required_argument, nullptr, 'u'},
      {"socket-fd", required_argument, nullptr, 's'},
      {"help", no_argument, nullptr, 'h'},
      {nullptr, 0, nullptr, 0},
  }};
  Options options;
  for (;;) {
    const int found = ::getopt_long(argc, argv, "", kOptions.data(), nullptr);
    if (found == -1) {
      break;
    }
    const std::string value = optarg == nullptr ? "" : optarg;
    if (found == 'c') {
      options.config = value;
    } else if (found == 'u') {
      options.peer_user = value;
    } else if (found == 's' && ParseNumber<int>(value)) {
      options.socket_fd = *ParseNumber<int>(value);
    } else {
      return std::nullopt;
    }
  }
  return optind == argc ? std::optional(options) : std::nullopt;
}

Result<UniqueFd> TakeSocket(const Options& options) {
  if (options.socket_fd >= 0) {
    return UniqueFd(options.socket_fd);
  }
  // Unset the variables, so that programs that the executor starts do not take
  // this socket for their own.
  constexpr int kUnsetEnvironment = 1;
  if (::sd_listen_fds(kUnsetEnvironment) != 1 ||
      ::sd_is_socket(SD_LISTEN_FDS_START, AF_UNIX, SOCK_SEQPACKET, 0) <= 0) {
    return MakeError(Code::kFailedPrecondition, "take socket", "",
                     "exactly one connected socket must be passed; start "
                     "mountd-exec through mountd-exec.socket");
  }
  return UniqueFd(SD_LISTEN_FDS_START);
}

Result<void> Run(const Options& options, const AroundKernel& around) {
  MOUNTD_ASSIGN(const UniqueFd socket, TakeSocket(options));
  MOUNTD_ASSIGN(const uid_t peer, FindUser(options.peer_user));
  MOUNTD_TRY(CheckPeer(socket.get(), peer));
  MOUNTD_TRY(RestrictMemory());
  // Run the parser of the configuration without an effective capability.
  MOUNTD_TRY(LayPrivilegesDown());
  MOUNTD_ASSIGN(const Config config, LoadConfig(options.config, true));
  MOUNTD_TRY(DropPrivileges(config.cni.enabled()));
  // umask 0, because each call that makes a file gives the whole mode. Not
  // dumpable, so that no core dump writes the executor's memory to a disk.
  ::umask(0);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  RealKernel real(socket.get());
  Kernel& kernel = around ? around(real) : real;
  Dispatcher dispatcher(kernel, config);
  // These timers kill an executor that takes far too long. By then mountd has
  // stopped waiting for the answer and has undone the plans that it knows of.
  // If an idle executor ends, mountd starts another.
  return Serve(socket.get(), &dispatcher,
               {.plan = std::chrono::ceil<std::chrono::seconds>(
                    2 * config.timeouts.plan),
                .cni = std::chrono::ceil<std::chrono::seconds>(
                    config.timeouts.cni + 2 * netns::kCniGrace),
                .idle = kIdle});
}

}  // namespace

int ExecutorMain(int argc, char** argv, const AroundKernel& around) {
  EndWhenOutOfMemory("mountd-exec");
  const std::optional<Options> options = ParseOptions(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return EXIT_FAILURE;
  }
  const Result<void> outcome = Run(*options, around);
  if (!outcome) {
    std::fprintf(stderr, "mountd-exec: %s\n",
                 OnOneLine(outcome.error().Message()).c_str());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

}  // namespace mountd::exec
