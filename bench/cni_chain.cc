// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/cni_chain.h"

#include <algorithm>

#include "bench/namespaces.h"
#include "bench/nomad_chain.h"
#include "bench/programs.h"

namespace mountd::bench {
namespace {

constexpr char kPlugins[] = "/usr/lib/cni";
constexpr char kIptables[] = "/usr/sbin/iptables";

class CniChain final : public NetworkWay {
 public:
  explicit CniChain(Namespace host) : host_(std::move(host)) {}
  std::string name() const override { return "CNI chain"; }

  // Makes the chain that Nomad makes with its first allocation.
  Result<void> MakeAdminChain() {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    MOUNTD_TRY(RunProgram({{kIptables, "-w", "-N", "NOMAD-ADMIN"}}));
    MOUNTD_TRY(RunProgram({{kIptables, "-w", "-A", "NOMAD-ADMIN", "-o", "nomad",
                            "-d", kNomadSubnet, "-j", "ACCEPT"}}));
    return Ok();
  }

  Result<void> Prepare(const std::vector<std::uint16_t>& ports) override {
    ports_ = ports;
    return namespace_.Make();
  }
  Result<void> CleanUp() override { return namespace_.Remove(); }

  Result<void> SetUp() override {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    return chain_.Add(namespace_.path(), ports_);
  }

  Result<void> TearDown() override {
    MOUNTD_ASSIGN(const Inside inside, Inside::Enter(host_));
    return chain_.Delete(namespace_.path());
  }

 private:
  const Namespace host_;
  NomadChain chain_{kPlugins};
  NomadNamespace namespace_{kNomadAllocation};
  std::vector<std::uint16_t> ports_;
};

}  // namespace

Result<std::unique_ptr<NetworkWay>> ByCniChain() {
  std::vector<std::string> programs = NomadChain(kPlugins).Programs();
  programs.emplace_back(kIptables);
  const auto missing =
      std::find_if_not(programs.begin(), programs.end(), IsProgram);
  if (missing != programs.end()) {
    return MakeError(Code::kNotFound, "find", *missing, "not installed");
  }
  MOUNTD_ASSIGN(Namespace host, MakeNamespace());
  auto chain = std::make_unique<CniChain>(std::move(host));
  MOUNTD_TRY(chain->MakeAdminChain());
  return std::unique_ptr<NetworkWay>(std::move(chain));
}

std::string CniVersion() {
  const Result<std::string> version =
      RunProgram({.command = {"/usr/bin/dpkg-query", "-W", "-f",
                              "${Package} ${Version}, with iptables ",
                              "containernetworking-plugins"}});
  const Result<std::string> iptables =
      RunProgram({.command = {kIptables, "--version"}});
  std::string text = version ? *version : "unknown, with iptables ";
  if (iptables) {
    text += iptables->substr(iptables->find(' ') + 1);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace mountd::bench
