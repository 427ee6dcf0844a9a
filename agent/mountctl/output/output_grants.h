// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>
#include <vector>

#include "agent/fields/grant_fields.h"
#include "agent/mountctl/output/json_fields.h"

// Writes what a user may use.
namespace mountd::agent {

struct GrantReport {
  std::vector<HostVolumeGrant> host_volumes;
  std::vector<FilesystemGrant> filesystems;
  std::vector<NetworkGrant> networks;
};

template <>
struct FieldsOf<GrantReport> {
  static constexpr auto kList =
      std::tuple(Key("host_volumes", &GrantReport::host_volumes),
                 Key("filesystems", &GrantReport::filesystems),
                 Key("networks", &GrantReport::networks));
};

void PrintGrants(std::ostream& out, const GrantReport& report);

}  // namespace mountd::agent
