// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

// The answers of the stand-in for iptables(8) and ip6tables(8).
//
// For `network { mode = "bridge" }` a Nomad client asks iptables from its PATH
// for the chain NOMAD-ADMIN and a rule of that chain, before it runs the first
// CNI plugin. iptables itself refuses an ordinary user. mountd has rules of its
// own and needs neither the chain nor the rule, so the stand-in says that both
// are there. It changes nothing, and refuses everything that a client does not
// ask at that point.
namespace mountd::nomad {

struct IptablesReply {
  int status = 0;  // as iptables exits: 4 for what the stand-in refuses
  std::string out{};
  std::string err{};
};

// `name` is the name by which the program was called, and `arguments` are those
// after it. The calls that have an answer are, with or without "--wait" or
// "--wait SECONDS" at the end, as go-iptables writes them for Nomad 0.11
// to 2.0:
//   --version
//   -t filter -S                        the built-in chains and NOMAD-ADMIN
//   -t filter -C NOMAD-ADMIN -o BRIDGE -d SUBNET -j ACCEPT
//   -t nat -S POSTROUTING               asked after a failed DEL; no rule
IptablesReply AnswerIptables(const std::string& name,
                             std::vector<std::string> arguments);

}  // namespace mountd::nomad
