// SPDX-License-Identifier: LGPL-2.1-or-later
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "agent/mountd-csi-proxy/plugin_server.h"
#include "mountd/base/fd_limit.h"
#include "mountd/base/one_line.h"
#include "mountd/base/out_of_memory.h"

namespace mountd::csi_proxy {
namespace {

constexpr char kProgram[] = "mountd-csi-proxy";

struct Options {
  std::vector<std::string> plugins;
  std::string endpoint;
  CallOptions calls;
};

int Fail(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", kProgram,
               OnOneLine(error.Message()).c_str());
  return EXIT_FAILURE;
}

void AddOptions(CLI::App& app, Options& options) {
  app.add_option(
         "--plugin", options.plugins,
         "Stand in place of this plugin of mountd's on this socket; may "
         "be given several times. Without a socket, use CSI_ENDPOINT")
      ->type_name("NAME[=SOCKET]")
      ->required();
  app.add_option("--endpoint", options.endpoint,
                 "The socket of a plugin that is given without one")
      ->envname("CSI_ENDPOINT");
  app.add_option("--address", options.calls.address,
                 "Where mountd listens; default: unix:path=/run/mountd/bus");
}

// Keeps the secrets of requests out of cores and from other processes of this
// user (ptrace(2), "Ptrace access mode checking").
void HideMemory() {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int Serve(const Options& options) {
  std::vector<PluginAddress> addresses;
  for (const std::string& text : options.plugins) {
    Result<PluginAddress> address = ParseAddress(text, options.endpoint);
    if (!address) {
      return Fail(address.error());
    }
    addresses.push_back(*std::move(address));
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  CallOptions limits = options.calls;
  if (addresses.size() == 1) {
    limits.of_one_plugin = limits.at_once;
  }
  static Calls calls(limits);
  std::vector<std::unique_ptr<PluginServer>> servers;
  for (const PluginAddress& address : addresses) {
    auto server = PluginServer::Start(address, calls);
    if (!server) {
      return Fail(server.error());
    }
    servers.push_back(*std::move(server));
  }
  int signal = 0;
  while (::sigwait(&signals, &signal) != 0) {
  }
  for (const PluginAddress& address : addresses) {
    ::unlink(address.socket.c_str());
  }
  // An RPC may wait for mountd for minutes. mountd goes on with its work for
  // that RPC without this process.
  ::_exit(EXIT_SUCCESS);
}

int Main(int argc, char** argv) {
  EndWhenOutOfMemory(kProgram);
  HideMemory();
  CLI::App app{
      "mountd-csi-proxy: an unprivileged CSI plugin that stands in place of "
      "plugins of mountd's"};
  Options options;
  AddOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : 2;
  }
  RaiseFdLimit();
  return Serve(options);
}

}  // namespace
}  // namespace mountd::csi_proxy

int main(int argc, char** argv) try {
  return mountd::csi_proxy::Main(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "mountd-csi-proxy: %s\n", error.what());
  return EXIT_FAILURE;
}
