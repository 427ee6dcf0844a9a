// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "mountd/policy/grants.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// The user whose grants to list. Without any field it is the caller.
struct GrantsOf {
  bool all_users = false;
  std::optional<std::uint32_t> uid{};
};

// Owns nothing. Lists which host volumes, file systems and networks the rules
// grant a caller. Runs on workers, because ListNetworks waits for CNI's plugins
// and the user database may be slow. Never changes anything.
class GrantVerbs {
 public:
  GrantVerbs(const ServiceParts& parts, const CallerAccess& access)
      : parts_(parts), access_(access) {}

  // PermissionDenied for other users' grants unless the caller is an
  // administrator. Unavailable if the user database does not say which groups
  // another user has.
  Result<std::vector<HostVolumeGrant>> ListHostVolumes(
      const CallContext& call, const GrantsOf& of = {}) const;
  Result<std::vector<FilesystemGrant>> ListFilesystems(
      const CallContext& call, const GrantsOf& of = {}) const;
  // Also fails if a rule grants a CNI network and mountd cannot list CNI
  // networks.
  Result<std::vector<NetworkGrant>> ListNetworks(const CallContext& call,
                                                 const GrantsOf& of = {}) const;

 private:
  Result<Grants> Find(const CallContext& call, const GrantsOf& of) const;

  const ServiceParts& parts_;
  const CallerAccess& access_;
};

}  // namespace mountd
