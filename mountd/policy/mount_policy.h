// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/config/config.h"
#include "mountd/config/id_grants.h"
#include "mountd/policy/rules.h"
#include "mountd/store/records.h"

namespace mountd {

// Decides who may mount and open which sources. Also decides whose files a
// caller may pass, give away and show under other ids. Answers as Policy does.
// Lives no longer than the Policy that returned it.
class MountPolicy {
 public:
  // Returns whether a mount with this propagation cannot be read-only.
  static constexpr bool NeedsWriteAccess(exec::Propagation propagation) {
    return propagation == exec::Propagation::kBidirectional;
  }

  explicit MountPolicy(const PolicyRules& rules) : rules_(rules) {}

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
  // Decides about detached mounts (detached = true). No release can take such a
  // mount from a process that has the fd.
  Result<void> MayOpenTree(const Caller& caller) const;
  // Decides about mounts in a container whose process is in the cgroup `path`
  // (containers = true). A tmpfs needs container_tmpfs = true in the same rule.
  Result<void> MayMountIn(const Caller& caller, const std::string& path,
                          bool tmpfs) const;
  // Ok if some rule has alloc_roots for the caller. Returns the caller in the
  // form that the executor gets, because the executor checks the directory.
  Result<exec::CallerPlan> MayPassDirectory(const Caller& caller) const;
  // Returns the caller as MayPassDirectory does, if it may also give files to
  // this owner. Each id must be the caller's own or in some rule's ids.
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
  // Returns the ranges of ids on disk that the caller's rules grant. An extent
  // must lie in one of them.
  std::vector<IdRange> IdsOf(const Caller& caller) const;

 private:
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
  const PolicyRules& rules_;
};

}  // namespace mountd
