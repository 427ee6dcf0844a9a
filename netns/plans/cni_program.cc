// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/cni_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "mountd/base/paths.h"

namespace mountd::netns {
namespace {

using exec::CniPlan;
using exec::CniVerb;
using Command = std::vector<std::string>;

constexpr char kProgram[] = "mountd-cni-run";
// sh(1) answers this status for a program that it cannot find.
constexpr int kNotExecuted = 127;

const char* VerbOf(CniVerb verb) {
  switch (verb) {
    case CniVerb::kAdd:
      return "add";
    case CniVerb::kCheck:
      return "check";
    case CniVerb::kDel:
      return "del";
    case CniVerb::kGc:
      return "gc";
    case CniVerb::kStatus:
      return "status";
    case CniVerb::kList:
      break;
  }
  return "list";
}

// Returns the host ports of all rules. The executor does not know the caller,
// so it cannot pick the caller's rule.
std::string HostPortsOf(const Config& config) {
  std::string text;
  for (const RuleConfig& rule : config.rules) {
    for (const PortRange& range : rule.host_ports) {
      text.append(text.empty() ? "" : ",")
          .append(std::to_string(range.first))
          .append("-")
          .append(std::to_string(range.last));
    }
  }
  return text;
}

void Add(Command* command, const char* option, std::string value) {
  command->push_back(option);
  command->push_back(std::move(value));
}

// Returns the program's command line, which bounds what the run may do.
Command CommandOf(const Config& config, const CniPlan& plan,
                  std::string program) {
  Command command = {std::move(program)};
  for (const std::string& directory : config.cni.config_dirs) {
    Add(&command, "--config-dir", directory);
  }
  for (const std::string& directory : config.cni.plugin_dirs) {
    Add(&command, "--plugin-dir", directory);
  }
  Add(&command, "--state-dir", paths::kCniState);
  Add(&command, "--kept-dir", paths::kCniKept);
  Add(&command, "--deadline-ms", std::to_string(config.timeouts.cni.count()));
  if (plan.network.size != 0) {
    Add(&command, "--network", Text(plan.network));
  }
  if (plan.allocation.size != 0) {
    Add(&command, "--container-id", Text(plan.allocation));
  }
  // The runner's own record says what to undo, whatever the configuration says
  // by now.
  if (plan.verb == CniVerb::kDel || plan.verb == CniVerb::kGc) {
    command.push_back("--recorded");
  }
  // Only ADD opens ports. DEL and CHECK bring the ports of their ADD, which the
  // rules may no longer grant (netns/cni/request_bounds.h).
  if (plan.verb == CniVerb::kAdd) {
    Add(&command, "--host-ports", HostPortsOf(config));
    Add(&command, "--netns",
        std::string(paths::kNetnsDir) + "/" + Text(plan.allocation));
    Add(&command, "--netns-inode", std::to_string(plan.netns_inode));
  }
  command.push_back(VerbOf(plan.verb));
  return command;
}

// Returns the program's path, beside the executor's own.
Result<std::string> FindProgram(exec::Kernel& kernel) {
  MOUNTD_ASSIGN(const std::string own,
                exec::Named(kernel.ReadLink(exec::kFromRoot, "/proc/self/exe"),
                            "readlink", "/proc/self/exe"));
  return own.substr(0, own.rfind('/') + 1) + kProgram;
}

// Runs in the child. dup2 clears close-on-exec on the copies; the memfds' own
// numbers are above the standard ones and close at the exec.
int Execute(const std::vector<char*>& argv, int request, int answer) {
  // Read from the start, wherever the sender left the file's offset.
  if (::lseek(request, 0, SEEK_SET) < 0 || ::dup2(request, STDIN_FILENO) < 0 ||
      ::dup2(answer, STDOUT_FILENO) < 0) {
    return EXIT_FAILURE;
  }
  ::execv(argv.front(), argv.data());
  return kNotExecuted;
}

}  // namespace

Result<UniqueFd> RunCniProgram(exec::Kernel& kernel, const Config& config,
                               const CniPlan& plan, int request) {
  const std::string object = std::string(kProgram) + " " + VerbOf(plan.verb);
  if (!config.cni.enabled()) {
    return MakeError(
        Code::kNotSupported, "start", object,
        "the configuration has no [cni] section, which CNI networks need");
  }
  MOUNTD_ASSIGN(std::string program, FindProgram(kernel));
  // The answer is a memfd, because no server can delay a memfd. The executor
  // passes the answer on unread.
  MOUNTD_ASSIGN(UniqueFd answer,
                exec::Named(kernel.MakeMemory({}), "memfd_create", object));
  Command command = CommandOf(config, plan, std::move(program));
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (std::string& argument : command) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  const std::array<int, 2> kept = {request, answer.get()};
  const exec::Sys<std::uint8_t> status =
      kernel.RunChild([&] { return Execute(argv, request, answer.get()); },
                      kept, config.timeouts.cni + kCniGrace);
  if (exec::FailedWith(status, ETIMEDOUT)) {
    return MakeError(Code::kDeadlineExceeded, "run", object,
                     "did not end in time, so mountd killed it");
  }
  // ECHILD: a signal has ended the child (real_kernel_child.cc).
  if (exec::FailedWith(status, ECHILD)) {
    return MakeError(Code::kUnavailable, "run", object,
                     "something other than mountd killed it; call again");
  }
  MOUNTD_ASSIGN(const std::uint8_t code,
                exec::NamedOfChild(status, "run", object));
  if (code != 0) {
    return MakeError(
        Code::kUnavailable, "run", object,
        "ended without an answer (exit status " + std::to_string(code) + ")");
  }
  return answer;
}

}  // namespace mountd::netns
