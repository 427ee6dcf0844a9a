// SPDX-License-Identifier: LGPL-2.1-or-later
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/doctor/daemon_checks.h"
#include "agent/mountctl/doctor/host_checks.h"
#include "agent/mountctl/doctor/host_facts.h"
#include "agent/mountctl/doctor/nomad_report.h"
#include "agent/mountctl/output/output.h"
#include "mountd/base/number.h"

namespace mountd::agent {
namespace {

constexpr char kDoctorDetails[] = R"(
Details:
  Each check prints a line: VERDICT WHAT: WHY; DO THIS. The verdict is "ok",
  "warning", "failed", or "unknown" if doctor could not look, mostly because it
  lacks the rights. The exit status is 1 if a check failed.

  Without mountd, doctor checks the socket and who may connect, systemd's units,
  and the host's root and mounts. It asks mountd about the kernel's features,
  rules, addresses, host ports, executors, stores, plugins and pending
  tear-downs.

  With --nomad, doctor also checks what a Nomad client without root needs. Run
  it as the client's user: runuser -u nomad -- mountctl doctor --nomad. It
  checks subordinate ids and the programs that use them, user namespaces, the
  unit nomad.service and its cgroup, the files of the package mountd-nomad, the
  client's configuration and directories, and the rules of mountd.toml.)";

using Checks = std::vector<Check>;

// These times are short, because doctor reports a slow answer as a fault.
constexpr std::chrono::seconds kConnectTimeout{5};
constexpr std::chrono::seconds kAnswerTimeout{10};

void AddAll(Checks& checks, Checks more) {
  std::move(more.begin(), more.end(), std::back_inserter(checks));
}

void LookAtUnits(Checks& checks) {
  const Result<std::vector<UnitState>> units = ReadUnits();
  if (!units) {
    checks.push_back(NotSeen("units", units.error()));
    return;
  }
  for (const UnitState& unit : *units) {
    checks.push_back(CheckUnit(unit));
  }
}

void LookAtMounts(std::uint64_t reserve, Checks& checks) {
  const Result<std::string> mountinfo = ReadHostMountinfo();
  if (!mountinfo) {
    checks.push_back(NotSeen("root", mountinfo.error()));
    return;
  }
  checks.push_back(CheckRootPropagation(*mountinfo));
  const Result<std::string> text = ReadWhole("/proc/sys/fs/mount-max");
  const auto most =
      text ? ParseNumber<std::uint64_t>(text->substr(0, text->find('\n')))
           : std::nullopt;
  if (most) {
    checks.push_back(CheckMountRoom(*mountinfo, *most, reserve));
  }
}

void LookAtForwarding(const Capabilities& offers, Checks& checks) {
  std::uint64_t used = 0;
  for (const auto& [network, usage] : offers.addresses) {
    used += usage.capacity - std::min(usage.capacity, usage.free);
  }
  const Result<std::string> text = ReadWhole("/proc/sys/net/ipv4/ip_forward");
  if (offers.addresses.empty()) {
    return;  // there is nothing to forward
  }
  checks.push_back(text ? CheckForwarding(text->starts_with('1'), used)
                        : NotSeen("net.ipv4.ip_forward", text.error()));
}

void LookAtPlugins(Client& client, Checks& checks) {
  const auto plugins = client.ListPlugins();
  if (plugins) {
    AddAll(checks, CheckPlugins(*plugins));
  } else {
    checks.push_back(NotTold("plugins", plugins.error()));
  }
}

Result<OwedFacts> AskForOwed(Client& client, const Capabilities& offers) {
  MOUNTD_ASSIGN(const OwedSummary owed, client.Owed());
  OwedFacts facts{owed.count, AgeOf(owed.since), {}, offers.owed_warning};
  MOUNTD_ASSIGN(facts.seen, client.ListOwed());
  return facts;
}

void LookAtOwed(Client& client, const Capabilities& offers, Checks& checks) {
  const Result<OwedFacts> owed = AskForOwed(client, offers);
  checks.push_back(owed ? CheckOwed(*owed) : NotTold("owed", owed.error()));
}

void LookAtDaemon(Client& client, const Result<Capabilities>& offers,
                  Checks& checks) {
  if (!offers) {
    checks.push_back(NotTold("capabilities", offers.error()));
  } else {
    checks.push_back(CheckKernel(*offers));
    AddAll(checks, CheckFeatures(*offers));
    checks.push_back(CheckPolicy({CallerName(), ::geteuid() == 0}, *offers));
    AddAll(checks, CheckAddresses(*offers));
    if (auto ports = CheckHostPorts(*offers)) {
      checks.push_back(*std::move(ports));
    }
    LookAtForwarding(*offers, checks);
    checks.push_back(CheckStuck(*offers));
    checks.push_back(CheckStores(*offers));
  }
  LookAtPlugins(client, checks);
  LookAtOwed(client, offers ? *offers : Capabilities(), checks);
}

// Connects, and adds a check of the connection. Returns the client only if
// mountd answers.
std::optional<Client> Reach(const ClientOptions& options, Checks& checks) {
  SocketFacts facts = LookAtSocket(options);
  Result<Client> client = Client::Connect(options);
  if (!client) {
    facts.error = client.error();
  } else if (const Result<std::string> version = client->Version()) {
    facts.version = *version;
  } else {
    facts.error = version.error();
  }
  const bool reached = !facts.error;
  checks.push_back(CheckSocket(facts));
  return reached ? std::optional<Client>(*std::move(client)) : std::nullopt;
}

void Print(const Checks& checks, bool json) {
  if (json) {
    std::cout << Dump({{"ok", !AnyFailed(checks)}, {"checks", ToJson(checks)}})
              << std::endl;
    return;
  }
  for (const Check& check : checks) {
    std::cout << LineOf(check) << '\n';
  }
  std::cout.flush();
}

struct Choice {
  bool nomad = false;
  std::string nomad_config = NomadPlaces().config;
};

int Doctor(const Context& context, const Choice& choice) {
  ClientOptions options = context.options;
  options.connect_timeout = kConnectTimeout;
  options.deadline =
      std::min<std::chrono::milliseconds>(options.deadline, kAnswerTimeout);
  Checks checks;
  std::optional<Client> client = Reach(options, checks);
  // If mountd does not answer, the limits are their defaults.
  const Result<Capabilities> offers =
      client ? client->GetCapabilities()
             : Result<Capabilities>(
                   MakeError(Code::kUnavailable, "GetCapabilities", ""));
  LookAtUnits(checks);
  LookAtMounts((offers ? *offers : Capabilities()).mount_reserve, checks);
  if (client) {
    LookAtDaemon(*client, offers, checks);
  } else {
    checks.push_back({Verdict::kUnknown, "mountd",
                      "the checks that need mountd were left out", ""});
  }
  if (choice.nomad) {
    NomadPlaces places;
    places.config = choice.nomad_config;
    AddAll(checks, CheckNomadClient(places, ReadNomadUnit(),
                                    client ? &*client : nullptr));
  }
  Print(checks, context.json);
  return AnyFailed(checks) ? kExitError : kExitOk;
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "doctor", "Check the node and say what is wrong and what to do");
  command->footer(kDoctorDetails)->group(kNodeGroup);
  auto choice = std::make_shared<Choice>();
  auto* nomad = command->add_flag(
      "--nomad", choice->nomad,
      "Check also what a Nomad client needs that runs as this user");
  command
      ->add_option("--nomad-config", choice->nomad_config,
                   "Read the client's configuration from this file, or from "
                   "*.hcl in this directory (default /etc/nomad.d)")
      ->needs(nomad);
  command->callback([&context, choice] {
    context.chosen = [&context, choice] { return Doctor(context, *choice); };
  });
}

}  // namespace mountd::agent
