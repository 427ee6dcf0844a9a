// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-nomad-volume is a plugin for dynamic host volumes of Nomad 1.10 and
// later. The client starts it for each operation, with its request in the
// environment (volume_request.h), and reads one JSON object from stdout.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "agent/client.h"
#include "agent/nomad/host_volume_calls.h"
#include "agent/nomad/volume_request.h"
#include "mountd/base/one_line.h"
#include "mountd/base/out_of_memory.h"

namespace mountd::nomad {
namespace {

constexpr char kProgram[] = "mountd-nomad-volume";
// The client kills a plugin after a minute. mountd goes on with its work, and
// the same call has its result.
constexpr std::chrono::milliseconds kLongest{50'000};

int Fail(const Error& error) {
  std::fprintf(stderr, "%s: %s%s\n", kProgram,
               error.code == Code::kInProgress
                   ? "mountd still works on it; the same call has its result: "
                   : "",
               OnOneLine(error.Message()).c_str());
  return EXIT_FAILURE;
}

int Print(const nlohmann::json& answer) {
  const std::string text = answer.dump();
  return std::puts(text.c_str()) >= 0 && std::fflush(stdout) == 0
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}

int Main(int argc, char** argv) {
  EndWhenOutOfMemory(kProgram);
  if (argc != 2) {
    return Fail(MakeError(Code::kInvalidArgument, "read", "the operation",
                          "must be the only argument"));
  }
  const auto request = ReadHostVolumeRequest(argv[1], ::secure_getenv);
  if (!request) {
    return Fail(request.error());
  }
  if (request->operation == "fingerprint") {
    return Print({{"version", MOUNTD_VERSION}});
  }
  agent::ClientOptions options;
  const char* address = ::secure_getenv("MOUNTD_ADDRESS");
  options.address = address == nullptr ? "" : address;
  options.deadline = kLongest;
  auto client = agent::Client::Connect(std::move(options));
  if (!client) {
    return Fail(client.error());
  }
  HostVolumeCalls calls(*client, *request);
  if (request->operation == "delete") {
    const Result<void> deleted = calls.Delete();
    return deleted ? EXIT_SUCCESS : Fail(deleted.error());
  }
  const auto created = calls.Create();
  return created ? Print({{"path", created->path}, {"bytes", created->bytes}})
                 : Fail(created.error());
}

}  // namespace
}  // namespace mountd::nomad

int main(int argc, char** argv) try {
  return mountd::nomad::Main(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "mountd-nomad-volume: %s\n", error.what());
  return EXIT_FAILURE;
}
