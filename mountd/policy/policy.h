// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/config/id_grants.h"
#include "mountd/networks/network_request.h"
#include "mountd/store/records.h"

namespace mountd {

// Decides which caller may do what, by the configuration's rules alone. Denies
// by default. Rules hold for root and administrators like everyone else, except
// that root may administer.
//
// Pure: does no I/O, and has no state but its configuration. Each answer is Ok
// or PermissionDenied. A denial says what is missing, in words that an operator
// can put into the configuration, and whether an administrator may
// (Error::administrator_may). Thread-safe.
class Policy {
 public:
  // Returns whether a mount with this propagation cannot be read-only.
  static constexpr bool NeedsWriteAccess(exec::Propagation propagation) {
    return propagation == exec::Propagation::kBidirectional;
  }

  // Records in `decisions`, if there is one, which rules allow the call.
  explicit Policy(std::shared_ptr<const Config> config,
                  std::shared_ptr<Decisions> decisions = nullptr)
      : holder_(std::move(config)), decisions_(std::move(decisions)) {}

  // Ok if the caller is the owner of `what`, or an administrator.
  Result<void> MayUse(const Caller& caller, std::uint32_t owner,
                      const std::string& what) const;
  bool MayAdminister(const Caller& caller) const;
  // The same for `op` on `object`, which only administrators may do.
  Result<void> MustAdminister(const Caller& caller, const std::string& op,
                              const std::string& object) const;

  // Ok if some rule names the caller, so that it may have allocations.
  Result<void> MayPrepare(const Caller& caller) const;

  // NotFound if the configuration declares no such host volume, file system or
  // network.
  Result<void> MayMountHostVolume(const Caller& caller,
                                  const std::string& host_volume,
                                  bool read_only,
                                  exec::Propagation propagation) const;
  Result<void> MayMountFilesystem(const Caller& caller,
                                  const std::string& filesystem, bool read_only,
                                  exec::Propagation propagation) const;
  Result<void> MayPropagate(const Caller& caller,
                            exec::Propagation propagation) const;
  // Ok if some rule has alloc_roots for the caller. Returns the caller in the
  // form that the executor gets, because the executor checks the directory.
  Result<exec::CallerPlan> MayPassDirectory(const Caller& caller) const;
  // Ok if the processes of this group may pass through directories of the
  // caller's allocations, because some rule's ids have the group.
  Result<void> MayLetPass(const Caller& caller, std::uint32_t group) const;
  // Returns the caller as above if it may also give files to this owner. Each
  // id must be the caller's own or in some rule's ids.
  Result<exec::CallerPlan> MayGiveFilesTo(const Caller& caller,
                                          std::uint32_t uid,
                                          std::uint32_t gid) const;
  // Ok if each id on disk is the caller's own uid or primary gid, or in some
  // rule's ids. Root's files may show as the caller's if a rule that grants the
  // source has root_as_caller. Returns the caller in the form that the executor
  // gets, because the executor checks the ids again.
  Result<exec::CallerPlan> MayMapIds(const Caller& caller,
                                     const exec::IdMapPlan& ids,
                                     const IdsSource& source = {}) const;
  // Returns whether root's files in the source may show as the caller's own, by
  // uid and by primary gid. Never as root's own.
  bool MayShowRoot(const Caller& caller, const IdsSource& source) const;
  // Detached mounts, which no release takes from a process with the fd
  // (detached = true).
  Result<void> MayOpenTree(const Caller& caller) const;
  // Mounts in a container whose process is in the cgroup `path` (containers =
  // true). A tmpfs needs container_tmpfs = true in the same rule.
  Result<void> MayMountIn(const Caller& caller, const std::string& path,
                          bool tmpfs) const;
  Result<void> MayUsePlugin(const Caller& caller,
                            const std::string& plugin) const;
  Result<void> MayRegisterPlugin(const Caller& caller,
                                 const std::string& plugin) const;
  Result<void> MayControlPlugin(const Caller& caller,
                                const std::string& plugin) const;
  Result<void> MayUseNetwork(const Caller& caller,
                             const NetworkRequest& request) const;
  // Returns whether the caller may ask for any CNI network.
  bool MayBeInSomeCni(const Caller& caller) const;
  // Returns the ranges of host ports that the caller's rules grant.
  std::vector<PortRange> HostPortsOf(const Caller& caller) const;
  // Returns the ranges of ids on disk that the caller's rules grant. An extent
  // must lie in one of them.
  std::vector<IdRange> IdsOf(const Caller& caller) const;
  // Returns whether the caller may pass network namespaces of the host's user
  // namespace.
  bool MayPassHostNamespaces(const Caller& caller) const;
  // `path` is a path in the host's own hierarchy.
  Result<void> MayUseCgroup(const Caller& caller,
                            const std::string& path) const;
  // Fences that stop tasks so, in the cgroup `path` (stop_tasks).
  Result<void> MayStopTasks(const Caller& caller, const std::string& path,
                            exec::TaskStop how) const;
  // Returns the caller as the executor looks for the caller's rules.
  exec::CallerPlan PlanOf(const Caller& caller) const;

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
  bool AnyRuleGrantsRoot(const Caller& caller, const IdsSource& source) const;
  template <typename F>
  bool AnyRule(const Caller& caller, F allows) const;
  // Returns the denial of a call, and clears its decisions, because a denial
  // rests on no rule.
  Error Denied(const std::string& op, const std::string& object,
               const std::string& why) const;

  const std::shared_ptr<const Config> holder_;
  const std::shared_ptr<Decisions> decisions_;
  const Config& config_ = *holder_;
};

}  // namespace mountd
