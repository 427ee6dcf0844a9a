// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountctl/doctor/check.h"
#include "agent/types.h"
#include "mountd/base/result.h"

// Checks of what a Nomad client without root needs beside mountd
// (`mountctl doctor --nomad`). Each is a function of facts that nomad_facts.h
// collects.
namespace mountd::agent {

// Checks that the caller is the client's user, and not root.
Check CheckNomadUser(const std::string& user, bool root);

// `count` is how many ids the file (/etc/subuid, /etc/subgid) gives the user.
Check CheckSubordinateIds(const std::string& path, const std::string& user,
                          const Result<std::uint64_t>& count);

// A program that a task needs.
struct ProgramFacts {
  std::string names;       // "crun or runc"
  std::string package;     // of Debian
  std::string path;        // "": there is none
  bool privileged = true;  // it runs with the rights that it needs
};
Check CheckProgram(const ProgramFacts& facts);

// The kernel's switches; absent if the kernel has no such file.
struct NamespaceSwitches {
  std::optional<std::string> unprivileged_clone;  // Debian's own
  std::optional<std::string> most;                // user.max_user_namespaces
  std::optional<std::string> apparmor_restricts;  // Ubuntu's
};
Check CheckUserNamespaces(const NamespaceSwitches& switches);

// Nomad places no job with mode "bridge" unless it finds the kernel's module
// bridge, loaded or not.
Check CheckBridgeModule(bool found);

// The unit nomad.service, as systemd reports it.
struct NomadUnit {
  std::string load;    // "loaded", "not-found"
  std::string active;  // "active", "inactive", "failed"
  std::string user;
  bool delegate = false;
  std::vector<std::string> environment{};  // NAME=VALUE
  std::string cgroup{};                    // "/system.slice/nomad.service"
};
Check CheckNomadUnit(const NomadUnit& unit, const std::string& user);

// Returns the value of a variable of the unit; "" if it has none.
std::string VariableOf(const NomadUnit& unit, std::string_view name);

// The unit's cgroup in the hierarchy of version 2.
struct CgroupFacts {
  std::string path;  // in the file system
  bool exists = false;
  bool delegated = false;   // the caller may move processes in it
  std::string controllers;  // cgroup.controllers
};
Check CheckNomadCgroup(const CgroupFacts& facts);

// One check for each of networks, host ports and the interface's network.
std::vector<Check> CheckNomadGrants(const std::vector<NetworkGrant>& networks,
                                    const std::string& cni_network);

// Checks whether a rule of mountd.toml grants the cgroup to one of the users
// or groups.
struct RuleOwner {
  std::vector<std::string> users;   // by name and by number
  std::vector<std::string> groups;  // the same
};
Check CheckGrantedCgroup(const std::string& toml, const RuleOwner& owner,
                         const std::string& cgroup);

// `missing` are the names that lead to no program in the directory.
Check CheckNames(const std::string& what, const std::string& directory,
                 const std::vector<std::string>& missing);

// `found` is the iptables that the client's PATH leads to; "" if there is none.
Check CheckIptables(const std::string& found, const std::string& wanted);

// A directory that the client writes to.
struct DirectoryFacts {
  std::string path;
  bool exists = false;
  bool writable = false;  // for the caller
};
Check CheckOwnDirectory(const std::string& what, const DirectoryFacts& facts,
                        const std::string& advice);

// Returns the value of `key = "value"` in a text of HCL, the last one, without
// commented lines; "" if there is none.
std::string ValueInHcl(std::string_view text, std::string_view key);

// The directories that the package has.
struct NomadDirectories {
  std::string plugins;
  std::string cni;
};
// Checks the client's configuration: the text of all its files.
std::vector<Check> CheckNomadConfig(const std::string& text,
                                    const NomadDirectories& directories);

}  // namespace mountd::agent
