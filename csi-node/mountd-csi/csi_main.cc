// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/csi_main.h"

#include <getopt.h>
#include <grpc/support/log.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "csi-node/mountd-csi/harden.h"
#include "csi-node/mountd-csi/plugin_reads.h"
#include "csi-node/mountd-csi/server.h"
#include "csi-node/mountd-csi/system_calls.h"
#include "mountd/base/accounts.h"
#include "mountd/base/number.h"
#include "mountd/base/one_line.h"
#include "mountd/base/out_of_memory.h"

namespace mountd::csi {
namespace {

constexpr char kUsage[] =
    R"(mountd-csi: speaks gRPC with CSI plugins on behalf of mountd.

Takes its listening socket from LISTEN_FDS (systemd.socket(5)), connections from
one user only, and plugins' connected sockets from these connections. Reaches no
path and keeps no capability.

  --peer-user USER   who may connect: a name or a number (default: mountd)
  --listen-fd N      the listening socket, instead of LISTEN_FDS
  --socket-fd N      serve this connected socket too
  --help
)";

struct Options {
  std::string peer_user = "mountd";
  int listen_fd = -1;
  int socket_fd = -1;
  bool help = false;
};

std::optional<int> ParseFd(std::string_view text) {
  const std::optional<int> fd = ParseNumber<int>(text);
  return fd && *fd >= 0 ? fd : std::nullopt;
}

std::optional<Options> ParseOptions(int argc, char** argv) {
  constexpr option kOptions[] = {{"peer-user", required_argument, nullptr, 'u'},
                                 {"listen-fd", required_argument, nullptr, 'l'},
                                 {"socket-fd", required_argument, nullptr, 's'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {nullptr, 0, nullptr, 0}};
  Options options;
  for (int found = 0;
       (found = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    const std::string_view value = optarg == nullptr ? "" : optarg;
    if (found == 'u') {
      options.peer_user = value;
    } else if (found == 'h') {
      options.help = true;
    } else if (found == 'l' || found == 's') {
      const std::optional<int> fd = ParseFd(value);
      if (!fd) {
        return std::nullopt;
      }
      (found == 'l' ? options.listen_fd : options.socket_fd) = *fd;
    } else {
      return std::nullopt;
    }
  }
  return optind == argc ? std::optional(options) : std::nullopt;
}

// Does sd_listen_fds(3) for the one socket of this process.
int ActivatedSocket() {
  const char* pid = std::getenv("LISTEN_PID");
  const char* count = std::getenv("LISTEN_FDS");
  if (pid == nullptr || count == nullptr || ParseFd(pid) != ::getpid() ||
      ParseFd(count).value_or(0) < 1) {
    return -1;
  }
  // SD_LISTEN_FDS_START: systemd passes descriptors from 3 on
  // (sd_listen_fds(3)).
  return 3;
}

// Blocks the signals before any thread starts, so that all threads inherit
// that.
UniqueFd BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return UniqueFd();
  }
  return UniqueFd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
}

int Fail(const char* why) {
  std::fprintf(stderr, "mountd-csi: %s\n", OnOneLine(why).c_str());
  return EXIT_FAILURE;
}

// Prints one line, because gRPC quotes texts of plugins, which may have line
// ends.
void LogOfGrpc(gpr_log_func_args* args) {
  std::fprintf(stderr, "mountd-csi: gRPC: %s\n",
               OnOneLine(args->message).c_str());
}

}  // namespace

int CsiMain(int argc, char** argv, Steps* steps) {
  EndWhenOutOfMemory("mountd-csi");
  gpr_set_log_function(LogOfGrpc);
  const std::optional<Options> options = ParseOptions(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (options->help) {
    std::fputs(kUsage, stdout);
    return EXIT_SUCCESS;
  }
  const Result<uid_t> peer = FindUser(options->peer_user);
  if (!peer) {
    return Fail("--peer-user: the user does not exist");
  }
  UniqueFd listener(options->listen_fd >= 0 ? options->listen_fd
                                            : ActivatedSocket());
  UniqueFd socket(options->socket_fd);
  if (!listener.valid() && !socket.valid()) {
    return Fail(
        "no socket was passed; start mountd-csi through mountd-csi.socket or "
        "give --listen-fd");
  }
  const UniqueFd stop = BlockStopSignals();
  if (!stop.valid()) {
    return Fail("cannot make a signalfd");
  }
  // RestrictSystemCalls comes last, because it forbids calls that the others
  // make. All come before Server, which starts the first thread.
  for (const auto& restrict_itself :
       {CheckReads, GiveUpPrivileges, RestrictMemory, RestrictSystemCalls}) {
    if (const Result<void> done = restrict_itself(); !done) {
      return Fail(done.error().Message().c_str());
    }
  }
  Server server(std::move(listener), *peer, steps);
  if (socket.valid()) {
    server.Adopt(std::move(socket));
  }
  return server.Run(stop) ? EXIT_SUCCESS : Fail("cannot poll the sockets");
}

}  // namespace mountd::csi
