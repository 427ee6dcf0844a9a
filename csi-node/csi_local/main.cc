// SPDX-License-Identifier: LGPL-2.1-or-later
#include <getopt.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "csi-node/csi_local/endpoint.h"
#include "csi-node/csi_local/identity_service.h"
#include "csi-node/csi_local/node_service.h"
#include "csi-node/csi_local/volumes.h"

namespace {

namespace csi_local = mountd::csi_local;
using mountd::Result;

constexpr char kUsage[] =
    R"(csi-local: a CSI node plugin whose volumes are directories of this node.

  --endpoint ENDPOINT   unix:///path/to/csi.sock (default: $CSI_ENDPOINT)
  --data-dir DIR        where the volumes are; made if missing
                        (default: /var/lib/csi-local)
  --node-id ID          what this node is called (default: the host's name)
  --help

A volume is made when it is first staged, under its id, and never deleted.
)";

struct Options {
  std::string endpoint;
  std::string data_dir = "/var/lib/csi-local";
  std::string node_id;
  bool help = false;
};

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::optional<Options> ParseOptions(int argc, char** argv) {
  constexpr option kOptions[] = {{"endpoint", required_argument, nullptr, 'e'},
                                 {"data-dir", required_argument, nullptr, 'd'},
                                 {"node-id", required_argument, nullptr, 'n'},
                                 {"help", no_argument, nullptr, 'h'},
                                 {nullptr, 0, nullptr, 0}};
  Options options;
  const char* endpoint = std::getenv("CSI_ENDPOINT");
  options.endpoint = endpoint == nullptr ? "" : endpoint;
  options.node_id = HostName();
  for (int found = 0;
       (found = ::getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    switch (found) {
      case 'e':
        options.endpoint = optarg;
        break;
      case 'd':
        options.data_dir = optarg;
        break;
      case 'n':
        options.node_id = optarg;
        break;
      case 'h':
        options.help = true;
        break;
      default:
        return std::nullopt;
    }
  }
  return optind == argc ? std::optional(options) : std::nullopt;
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "csi-local: %s\n", why.c_str());
  return EXIT_FAILURE;
}

// Until SIGTERM or SIGINT, which every thread has blocked.
void WaitForStop(const sigset_t& signals) {
  int signal = 0;
  while (::sigwait(&signals, &signal) != 0) {
  }
}

int Serve(const Options& options, const std::string& path,
          const sigset_t& signals) {
  auto volumes = csi_local::Volumes::Open(options.data_dir);
  if (!volumes) {
    return Fail(volumes.error().Message());
  }
  csi_local::IdentityService identity;
  csi_local::NodeService node(volumes->get(), options.node_id);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(grpc::ResourceQuota("csi-local").SetMaxThreads(32));
  builder.RegisterService(&identity);
  builder.RegisterService(&node);
  // Only root connects; the mode is set before the socket exists.
  const mode_t old_mask = ::umask(0177);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ::umask(old_mask);
  if (server == nullptr) {
    return Fail("cannot listen on " + path);
  }
  WaitForStop(signals);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  server->Wait();
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = ParseOptions(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  if (options->help) {
    std::fputs(kUsage, stdout);
    return EXIT_SUCCESS;
  }
  const Result<std::string> path = csi_local::EndpointPath(options->endpoint);
  if (!path) {
    return Fail(path.error().Message());
  }
  if (options->node_id.empty() || options->node_id.size() > 256) {
    return Fail("--node-id: 1 to 256 bytes");
  }
  const Result<void> removed = csi_local::RemoveStaleSocket(*path);
  if (!removed) {
    return Fail(removed.error().Message());
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Serve(*options, *path, signals);
}
