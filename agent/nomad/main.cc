// SPDX-License-Identifier: LGPL-2.1-or-later
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "agent/nomad/goplugin/grpc_log.h"
#include "agent/nomad/goplugin/hclog.h"
#include "agent/nomad/goplugin/host_offer.h"
#include "agent/nomad/goplugin/plugin_server.h"
#include "agent/nomad/goplugin/stop_request.h"
#include "agent/nomad/plugin/base_service.h"
#include "agent/nomad/plugin/driver_service.h"
#include "agent/nomad/plugin/mountd_node.h"
#include "mountd/base/out_of_memory.h"
#include "mountd/base/write_all.h"

namespace mountd::nomad {
namespace {

constexpr char kProgram[] = "mountd-nomad-driver";
// Nomad's plugins have this cookie and this version since Nomad 0.9.
constexpr goplugin::Cookie kCookie = {
    "NOMAD_PLUGIN_MAGIC_COOKIE",
    "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"};
constexpr int kProtocol = 2;

constexpr char kStartedByHand[] =
    "This program is a plugin of Nomad, and nobody starts it by hand. Put it "
    "into\nthe plugin_dir of a Nomad client, which loads it by itself.\n";

int Fail(goplugin::Hclog& log, const Error& error) {
  log.Write(goplugin::LogLevel::kError, error.Message());
  return EXIT_FAILURE;
}

int Main() {
  EndWhenOutOfMemory(kProgram);
  const auto offer = goplugin::TakeHostOffer(kCookie);
  if (!offer) {
    std::fputs(kStartedByHand, stderr);
    return EXIT_FAILURE;
  }
  static const goplugin::StopRequest stop;
  goplugin::StopOnSignals(stop);
  static goplugin::Hclog log("mountd");
  goplugin::LogGrpcTo(log);
  static DriverSource source(&MakeMountdNode);
  static BaseService base(source);
  static DriverService driver(source, log);
  auto server =
      goplugin::PluginServer::Start(*offer, kProtocol, {&base, &driver}, stop);
  if (!server) {
    return Fail(log, server.error());
  }
  const auto told =
      WriteAll(STDOUT_FILENO, (*server)->handshake(), "the plugin's host");
  if (!told) {
    return Fail(log, told.error());
  }
  stop.Await();
  // Does not wait for calls, because a call may take as long as its task. The
  // tasks run on without this process, and the host's calls end with the
  // connection.
  (*server)->RemoveSocket();
  ::_exit(EXIT_SUCCESS);
}

}  // namespace
}  // namespace mountd::nomad

int main() { return mountd::nomad::Main(); }
