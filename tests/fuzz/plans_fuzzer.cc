// SPDX-License-Identifier: LGPL-2.1-or-later
// The executor touches nothing beyond what SECURITY.md permits, whatever plans
// it gets and whatever the kernel answers. A kernel in memory (exec_kernel.h)
// ends the process otherwise.
//
// An input has up to eight plans, each a meaningful one with some bytes written
// over it, and then the kernel's lies.
#include <algorithm>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "mountd/base/paths.h"
#include "mountd/exec/dispatcher.h"
#include "mountd/exec/invariants.h"
#include "tests/fuzz/exec_kernel.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/plan_of_input.h"

namespace mountd::fuzz {
namespace {

constexpr char kConfig[] = R"(
[host_volume.data]
path = "/srv/data"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.ro]
path = "/srv/ro"
read_only = true
[host_volume.file]
path = "/srv/file"
[filesystem.images]
type = "nfs4"
source = "server:/images"
propagation = ["private", "host-to-task"]
[filesystem.disk]
type = "ext4"
source = "/srv/image"
read_only = true
[plugin.local]
type = "monolith"
command = ["/usr/libexec/mountd/csi-local"]
restart = "always"
[network.bridge]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[network.other]
ipv4 = "10.89.0.0/24"
[cni]
config_dirs = ["/etc/cni/net.d"]
plugin_dirs = ["/usr/lib/cni"]
[firewall]
forward_rules = true
[[rule]]
users = ["1000"]
alloc_roots = ["/var/alloc"]
cgroups = ["/nomad.slice"]
ids = ["100000-165535"]
host_ports = ["8000-8100"]
networks = ["bridge", "cni/*"]
containers = true
container_tmpfs = true
host_namespaces = true
stop_tasks = "kill"
[[rule]]
users = ["1001"]
host_volumes = ["*:ro"]
plugins = ["*"]
root_as_caller = true
alloc_roots = ["/var/other"]
host_ports = ["80"]
)";

const Config& TheConfig() {
  static const Config config = *ParseConfig(kConfig, "fuzz");
  return config;
}

// Returns the plan as the executor has it, if the executor accepts it.
const exec::Request* Taken(std::span<const std::byte> message,
                           std::size_t fds) {
  static exec::Request taken;
  if (!exec::DecodeRequest(message, &taken) ||
      !exec::CheckRequest(taken, TheConfig()) || !exec::CheckFds(taken, fds)) {
    return nullptr;
  }
  return &taken;
}

// True if the executor undoes such a plan when it cannot send the answer. A
// mount that replaces another one cannot be undone
// (propagation/replace_mount.h).
bool IsUndone(const exec::Request& request) {
  switch (request.kind) {
    case exec::PlanKind::kPrepareAllocation:
    case exec::PlanKind::kPrepareInbox:
    case exec::PlanKind::kPreparePlugin:
    case exec::PlanKind::kCreateNetwork:
      return true;
    case exec::PlanKind::kAttach:
      return request.body.attach.replaces == 0;
    default:
      return false;
  }
}

// Returns the lines of one text that the other one lacks.
std::string LinesOf(const std::string& text, const std::string& other) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (("\n" + other).find("\n" + line + "\n") == std::string::npos) {
      found += line + "\n";
    }
  }
  return found;
}

// True for an empty directory for a marker that an earlier plan left without
// its marker, because the kernel lied to it. The next plan with that lock
// removes the directory, whatever the plan's outcome.
bool IsLitter(const std::string& line, const std::string& before) {
  const std::string base = std::string(paths::kBase) + "/";
  const std::string path = line.substr(0, line.find(' '));
  const std::string above = path.substr(0, path.rfind('/'));
  return (above == base + paths::kAnchors ||
          above == base + paths::kFilesystems) &&
         before.find("\n" + path + "/") == std::string::npos &&
         before.find("\n" + path + " has ") == std::string::npos;
}

// Requires that the plan added nothing, and removed nothing but such litter.
void CheckUndone(const exec::Request& request, const std::string& before,
                 const std::string& after) {
  const std::string left = LinesOf(after, before);
  std::string gone;
  std::istringstream lines(LinesOf(before, after));
  for (std::string line; std::getline(lines, line);) {
    gone += IsLitter(line, before) ? "" : line + "\n";
  }
  Require(left.empty() && gone.empty(),
          "what nobody was told of is left by plan " +
              std::to_string(static_cast<unsigned>(request.kind)) + ":\n" +
              left + "instead of\n" + gone);
}

void CarryOut(exec::Dispatcher* dispatcher, ExecKernel* kernel,
              const PlanOfInput& plan) {
  exec::Dispatcher::Fds fds;
  kernel->Begin(nullptr);
  kernel->Others(plan.others);
  for (const std::uint8_t kind : plan.fds) {
    fds.push_back(kernel->Passed(kind));
  }
  const exec::Request* request = Taken(plan.message, fds.size());
  kernel->Begin(request);
  for (std::size_t i = 0; i < fds.size(); ++i) {
    kernel->Took(fds[i].get());
  }
  const std::string before = plan.peer_is_gone ? kernel->Told() : "";
  int answers = 0;
  const Result<void> outcome = dispatcher->Handle(
      plan.message, fds, [&](const exec::Dispatcher::Answer& answer) {
        ++answers;
        Require(request != nullptr || answer.reply.code != 0,
                "a plan that breaks the rules is carried out");
        if (answer.fd.valid()) {
          Require(answer.reply.code == 0, "a failure hands out an fd");
          kernel->CheckAnswer(answer.fd.get());
        }
        return plan.peer_is_gone
                   ? Result<void>(ErrnoError(EPIPE, "sendmsg", "reply"))
                   : Ok();
      });
  Require(answers == 1, "a plan is answered once");
  if (request != nullptr && plan.peer_is_gone && !kernel->lied() &&
      IsUndone(*request)) {
    Require(!outcome, "a peer that is gone was told");
    CheckUndone(*request, before, kernel->Told());
  }
  kernel->Begin(nullptr);
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  constexpr std::size_t kMost = 4096;
  if (size > kMost) {
    return 0;
  }
  Input input(data, size);
  const std::vector<PlanOfInput> plans = PlansOf(&input);
  ExecKernel kernel(TheConfig(), input);
  {
    mountd::exec::Dispatcher dispatcher(kernel, TheConfig());
    for (const PlanOfInput& plan : plans) {
      CarryOut(&dispatcher, &kernel, plan);
    }
  }
  kernel.CheckAllClosed();
  return 0;
}
