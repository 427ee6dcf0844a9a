// SPDX-License-Identifier: LGPL-2.1-or-later
#include <grpc/support/time.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "csi-node/csi-local/controller_service.h"
#include "csi-node/csi-local/identity_service.h"
#include "csi-node/csi-local/node_service.h"
#include "csi-node/csi-local/node_volumes.h"
#include "csi-node/csi-local/store.h"
#include "csi-node/csi-local/tool_sandbox.h"
#include "mountd/base/fd_limit.h"
#include "mountd/base/one_line.h"
#include "mountd/base/out_of_memory.h"
#include "mountd/base/unix_endpoint.h"

namespace {

namespace csi_local = mountd::csi_local;
using mountd::Result;

struct Options {
  std::string endpoint;
  std::string data_dir = "/var/lib/csi-local";
  std::string node_id;
  csi_local::NodeVolumes::Options volumes;
  csi_local::StoreOptions store;
};

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

void AddOptions(CLI::App* app, Options* options) {
  app->add_option("--endpoint", options->endpoint, "unix:///path/to/csi.sock")
      ->envname("CSI_ENDPOINT");
  app->add_option(
         "--data-dir", options->data_dir,
         "Keep the volumes in this directory, and make it if it is missing")
      ->capture_default_str();
  app->add_option("--node-id", options->node_id, "Report this id as the node's")
      ->default_str("the host's name");
  app->add_flag("--create-on-stage", options->volumes.create_on_stage,
                "Create a volume that does not exist, as a directory, when it "
                "is first staged");
  app->add_option("--capacity", options->store.capacity_bytes,
                  "Limit all volumes and snapshots to so many bytes, as 10G or "
                  "500M (0: what the data directory's file system has)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->check(CLI::NonNegativeNumber);
  app->add_option("--max-volumes", options->store.max_volumes,
                  "Publish at most so many volumes to this node (0: no limit)")
      ->check(CLI::NonNegativeNumber);
}

int Fail(const std::string& why) {
  std::fprintf(stderr, "csi-local: %s\n", mountd::OnOneLine(why).c_str());
  return EXIT_FAILURE;
}

// Waits for SIGTERM or SIGINT, which every thread has blocked.
void WaitForStop(const sigset_t& signals) {
  int signal = 0;
  while (::sigwait(&signals, &signal) != 0) {
  }
}

int Serve(const Options& options, const std::string& path,
          const sigset_t& signals) {
  const auto store = csi_local::Store::Open(options.data_dir, options.store);
  if (!store) {
    return Fail(store.error().Message());
  }
  csi_local::NodeVolumes volumes(store->get(), options.volumes);
  csi_local::IdentityService identity;
  csi_local::ControllerService controller(store->get(), options.node_id);
  csi_local::NodeService node(store->get(), &volumes, options.node_id);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(grpc::ResourceQuota("csi-local").SetMaxThreads(32));
  builder.RegisterService(&identity);
  builder.RegisterService(&controller);
  builder.RegisterService(&node);
  // umask sets the mode before the socket exists, so that only root can ever
  // connect.
  const mode_t old_mask = ::umask(0177);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ::umask(old_mask);
  if (server == nullptr) {
    return Fail("cannot listen on " + path);
  }
  WaitForStop(signals);
  server->Shutdown(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                gpr_time_from_seconds(5, GPR_TIMESPAN)));
  server->Wait();
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 && std::strcmp(argv[1], csi_local::kRunToolOption) == 0) {
    return Fail(csi_local::BecomeTool(argv + 2).Message());
  }
  // Ends the process when memory runs out, because gRPC would otherwise catch
  // the exception.
  mountd::EndWhenOutOfMemory("csi-local");
  CLI::App app{
      "csi-local: a CSI plugin whose volumes are this node's own: directories, "
      "memory, and images with a file system or as a device"};
  Options options;
  options.node_id = HostName();
  AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : 2;
  }
  mountd::RaiseFdLimit();
  const Result<std::string> path = mountd::EndpointPath(options.endpoint);
  if (!path) {
    return Fail(path.error().Message());
  }
  if (options.node_id.empty() || options.node_id.size() > 256) {
    return Fail("--node-id must be 1 to 256 bytes");
  }
  const Result<void> removed = mountd::RemoveStaleSocket(*path);
  if (!removed) {
    return Fail(removed.error().Message());
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return Serve(options, *path, signals);
} catch (const std::exception& error) {
  return Fail(error.what());
}
