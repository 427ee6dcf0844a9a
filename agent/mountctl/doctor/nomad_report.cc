// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/nomad_report.h"

#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "agent/mountctl/doctor/host_facts.h"

namespace mountd::agent {
namespace {

using Checks = std::vector<Check>;

constexpr char kUsualCgroup[] = "/system.slice/nomad.service";

void AddAll(Checks& checks, Checks more) {
  std::move(more.begin(), more.end(), std::back_inserter(checks));
}

void LookAtTools(const std::string& path, Checks& checks) {
  for (const char* tool : {"newuidmap", "newgidmap"}) {
    const std::string found = FindProgram(path, {tool});
    checks.push_back(CheckProgram(
        {tool, "uidmap", found, found.empty() || IsPrivileged(found)}));
  }
  checks.push_back(CheckProgram(
      {"crun or runc", "crun", FindProgram(path, {"crun", "runc"})}));
  checks.push_back(
      CheckProgram({"skopeo", "skopeo", FindProgram(path, {"skopeo"})}));
  checks.push_back(
      CheckProgram({"umoci", "umoci", FindProgram(path, {"umoci"})}));
}

void LookAtInstalled(const std::string& installed, const std::string& path,
                     Checks& checks) {
  const std::string plugins = installed + "/plugins";
  checks.push_back(
      CheckNames("plugin", plugins, MissingNames(plugins, {"mountd"})));
  const std::string cni = installed + "/cni";
  checks.push_back(
      CheckNames("CNI plugins", cni,
                 MissingNames(cni, {"bridge", "firewall", "host-local",
                                    "loopback", "mountd", "portmap"})));
  checks.push_back(CheckIptables(FindProgram(path, {"iptables"}),
                                 installed + "/bin/iptables"));
}

void LookAtConfig(const NomadPlaces& places, const std::string& installed,
                  Checks& checks) {
  const Result<std::string> text = ReadNomadConfig(places.config);
  if (!text) {
    checks.push_back(NotSeen("Nomad's configuration", text.error()));
    return;
  }
  AddAll(checks,
         CheckNomadConfig(*text, {installed + "/plugins", installed + "/cni"}));
  const std::string data = ValueInHcl(*text, "data_dir");
  if (data.empty()) {
    checks.push_back({Verdict::kFailed, "Nomad's data_dir",
                      "is not in the client's configuration",
                      "write data_dir = \"/var/lib/nomad/data\""});
    return;
  }
  // Nomad makes the directory itself, and alloc_mounts beside it.
  const std::string parent = std::filesystem::path(data).parent_path();
  const DirectoryFacts facts = LookAtDirectory(data);
  checks.push_back(CheckOwnDirectory(
      "Nomad's data_dir", facts.exists ? facts : LookAtDirectory(parent),
      "write data_dir = \"/var/lib/nomad/data\", or chown it"));
  if (ValueInHcl(*text, "alloc_mounts_dir").empty()) {
    checks.push_back(CheckOwnDirectory(
        "Nomad's alloc_mounts_dir", LookAtDirectory(parent),
        "write data_dir = \"/var/lib/nomad/data\", beside which Nomad 1.8 and "
        "later make alloc_mounts"));
  }
}

void LookAtRules(const NomadPlaces& places, const NomadUnit& unit,
                 Client* client, Checks& checks) {
  if (client != nullptr) {
    const auto networks = client->ListNetworks();
    AddAll(checks, networks
                       ? CheckNomadGrants(
                             *networks, VariableOf(unit, "MOUNTD_CNI_NETWORK"))
                       : Checks{NotTold("networks", networks.error())});
  }
  const Result<std::string> toml =
      ReadWhole(places.etc + "/mountd/mountd.toml");
  checks.push_back(toml ? CheckGrantedCgroup(
                              *toml, WhoAsks(),
                              unit.cgroup.empty() ? kUsualCgroup : unit.cgroup)
                        : NotSeen("cgroups of rules", toml.error()));
}

}  // namespace

std::vector<Check> CheckNomadClient(const NomadPlaces& places,
                                    const Result<NomadUnit>& unit,
                                    Client* client) {
  const std::string user = CallerName();
  const NomadUnit known = unit ? *unit : NomadUnit();
  std::string path = VariableOf(known, "PATH");
  if (path.empty()) {
    path = places.path;
  }
  const std::string installed =
      places.installed.empty() ? InstalledNomad() : places.installed;
  Checks checks = {CheckNomadUser(user, ::geteuid() == 0)};
  checks.push_back(unit ? CheckNomadUnit(*unit, user)
                        : NotSeen("unit nomad.service", unit.error()));
  for (const char* file : {"/subuid", "/subgid"}) {
    checks.push_back(CheckSubordinateIds(
        places.etc + file, user, CountSubordinateIds(places.etc + file, user)));
  }
  LookAtTools(path, checks);
  checks.push_back(CheckUserNamespaces(ReadNamespaceSwitches(places.sysctl)));
  checks.push_back(CheckBridgeModule(FindsBridge(places.modules)));
  checks.push_back(CheckNomadCgroup(LookAtCgroup(
      places.cgroups + (known.cgroup.empty() ? kUsualCgroup : known.cgroup))));
  LookAtInstalled(installed, path, checks);
  LookAtConfig(places, installed, checks);
  checks.push_back(CheckOwnDirectory("CNI cache", LookAtDirectory(places.cache),
                                     "if no CNI runtime of root's runs here: "
                                     "chown nomad: /var/lib/cni/results"));
  LookAtRules(places, known, client, checks);
  return checks;
}

}  // namespace mountd::agent
