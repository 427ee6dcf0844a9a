// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/caller.h"
#include "mountd/config.h"
#include "mountd/network_spec.h"
#include "mountd/store/records.h"

namespace mountd {

// Who may do what: the configuration's rules, and nothing but them. Deny by
// default; root and administrators are held to rules like everyone else, except
// that root may administer.
//
// Pure: no I/O, and no state but the configuration it was made with. Each
// answer is Ok, or PermissionDenied with what was missing in words an operator
// can put into the configuration, and whether an administrator might
// (Error::administrator_may). Thread-safe.
class Policy {
 public:
  // Which rules allow what is written to `decisions`, if there is one.
  explicit Policy(std::shared_ptr<const Config> config,
                  std::shared_ptr<Decisions> decisions = nullptr)
      : holder_(std::move(config)), decisions_(std::move(decisions)) {}

  // Owner or administrator of what `owner` made.
  Result<void> MayUse(const Caller& caller, std::uint32_t owner,
                      const std::string& what) const;
  bool MayAdminister(const Caller& caller) const;
  // The same for what nobody else may: `op` on `object`.
  Result<void> MustAdminister(const Caller& caller, const std::string& op,
                              const std::string& object) const;

  // Whether the caller may have allocations at all: some rule names it.
  Result<void> MayPrepare(const Caller& caller) const;

  // NotFound if the configuration declares no such volume or network.
  Result<void> MayMountHostVolume(const Caller& caller,
                                  const std::string& host_volume,
                                  bool read_only,
                                  exec::Propagation propagation) const;
  Result<void> MayMountFilesystem(const Caller& caller,
                                  const std::string& filesystem, bool read_only,
                                  exec::Propagation propagation) const;
  Result<void> MayPropagate(const Caller& caller,
                            exec::Propagation propagation) const;
  // Whether some rule has alloc_roots for the caller; and the caller as the
  // executor, which looks at the directory, is told of it.
  Result<exec::CallerPlan> MayPassDirectory(const Caller& caller) const;
  // The same, and whether the caller may give files to this owner: each id is
  // its own, or in some rule's ids.
  Result<exec::CallerPlan> MayGiveFilesTo(const Caller& caller,
                                          std::uint32_t uid,
                                          std::uint32_t gid) const;
  Result<void> MayMapIds(const Caller& caller,
                         const exec::IdMapPlan& ids) const;
  // Detached mounts, whose flags their holder can change (detached = true).
  Result<void> MayOpenTree(const Caller& caller) const;
  // In a container whose process is in the cgroup `path` (containers = true); a
  // tmpfs needs container_tmpfs = true in the same rule.
  Result<void> MayMountIn(const Caller& caller, const std::string& path,
                          bool tmpfs) const;
  Result<void> MayUsePlugin(const Caller& caller,
                            const std::string& plugin) const;
  Result<void> MayRegisterPlugin(const Caller& caller,
                                 const std::string& plugin) const;
  Result<void> MayControlPlugin(const Caller& caller,
                                const std::string& plugin) const;
  Result<void> MayUseNetwork(const Caller& caller,
                             const NetworkSpec& spec) const;
  // Whether any of CNI's networks may be asked for at all.
  bool MayBeInSomeCni(const Caller& caller) const;
  // Those it may map, as the rules name them.
  std::vector<PortRange> HostPortsOf(const Caller& caller) const;
  // Network namespaces of the host's user namespace.
  bool MayPassHostNamespaces(const Caller& caller) const;
  // `path` as the host's own hierarchy has it.
  Result<void> MayUseCgroup(const Caller& caller,
                            const std::string& path) const;

 private:
  Result<void> MayBeIn(const Caller& caller, const std::string& network) const;
  Result<void> MayBeInCni(const Caller& caller,
                          const std::string& network) const;
  // A source that the configuration declares by name.
  template <typename T>
  struct Declared {
    const char* what;
    const std::string& name;
    const std::map<std::string, T>& all;
    std::vector<std::string> RuleConfig::*granted;
  };
  template <typename T>
  Result<void> MayMount(const Caller& caller, const Declared<T>& source,
                        bool read_only, exec::Propagation propagation) const;
  template <typename F>
  bool AnyRule(const Caller& caller, F allows) const;
  // The answer to a call that no rule allows: it rests on none.
  Error Denied(const std::string& op, const std::string& object,
               const std::string& why) const;

  const std::shared_ptr<const Config> holder_;
  const std::shared_ptr<Decisions> decisions_;
  const Config& config_ = *holder_;
};

}  // namespace mountd
