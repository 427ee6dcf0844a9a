// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/privileges.h"

#include <sys/capability.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

namespace mountd::exec {
namespace {

// SYS_ADMIN mounts and enters namespaces. NET_ADMIN makes links and rules.
// DAC_READ_SEARCH opens declared sources, plugin sockets and cgroups by their
// handles. CHOWN gives directories to their owners. SETUID and SETGID write the
// maps of idmapped mounts. SYS_PTRACE looks at the files of other users'
// processes. SYS_CHROOT enters a container's mount namespace (setns(2)).
// SECURITY.md has the tests.
constexpr std::array<cap_value_t, 8> kKept = {
    CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_DAC_READ_SEARCH, CAP_CHOWN,
    CAP_SETUID,    CAP_SETGID,    CAP_SYS_PTRACE,      CAP_SYS_CHROOT};

struct CapFree {
  void operator()(cap_t caps) const { cap_free(caps); }
};
using Caps = std::unique_ptr<std::remove_pointer_t<cap_t>, CapFree>;

Error Failed(const char* op) { return ErrnoError(errno, op, "capabilities"); }

using Values = std::vector<cap_value_t>;

// Needs CAP_SETPCAP, which the caller drops afterwards with all others.
Result<void> DropBounding(const Values& kept) {
  for (cap_value_t cap = 0; cap < cap_max_bits(); ++cap) {
    if (std::find(kept.begin(), kept.end(), cap) != kept.end() ||
        cap_get_bound(cap) != CAP_SET) {
      continue;
    }
    if (cap_drop_bound(cap) != 0) {
      return Failed("cap_drop_bound");
    }
  }
  return Ok();
}

bool Holds(cap_value_t cap, cap_flag_t set = CAP_EFFECTIVE) {
  const Caps caps(cap_get_proc());
  cap_flag_value_t value = CAP_CLEAR;
  return caps != nullptr && cap_get_flag(caps.get(), cap, set, &value) == 0 &&
         value == CAP_SET;
}

Result<void> SetCapabilities(const Values& permitted, const Values& effective) {
  const Caps caps(cap_init());
  if (caps == nullptr ||
      cap_set_flag(caps.get(), CAP_PERMITTED,
                   static_cast<int>(permitted.size()), permitted.data(),
                   CAP_SET) != 0 ||
      (!effective.empty() && cap_set_flag(caps.get(), CAP_EFFECTIVE,
                                          static_cast<int>(effective.size()),
                                          effective.data(), CAP_SET) != 0) ||
      cap_set_proc(caps.get()) != 0) {
    return Failed("cap_set_proc");
  }
  return Ok();
}

Result<void> ForbidNewPrivileges() {
  // no_new_privs keeps an exec from gaining anything by setuid bits or file
  // capabilities (prctl(2)).
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
             ? Ok()
             : Result<void>(Failed("prctl"));
}

}  // namespace

Result<void> LayPrivilegesDown() {
  Values permitted(kKept.begin(), kKept.end());
  // DropPrivileges needs CAP_SETPCAP, and may keep CAP_NET_RAW.
  for (const cap_value_t other : {CAP_NET_RAW, CAP_SETPCAP}) {
    if (Holds(other, CAP_PERMITTED)) {
      permitted.push_back(other);
    }
  }
  MOUNTD_TRY(SetCapabilities(permitted, {}));
  return ForbidNewPrivileges();
}

Result<void> DropPrivileges(bool runs_cni) {
  Values permitted(kKept.begin(), kKept.end());
  if (runs_cni && Holds(CAP_NET_RAW, CAP_PERMITTED)) {
    permitted.push_back(CAP_NET_RAW);
  }
  // Clear ambient capabilities, because every program that the executor starts
  // would get them (capabilities(7)).
  if (cap_reset_ambient() != 0) {
    return Failed("cap_reset_ambient");
  }
  // If CAP_SETPCAP is missing, the unit's CapabilityBoundingSet= has already
  // dropped all other capabilities.
  if (Holds(CAP_SETPCAP, CAP_PERMITTED)) {
    Values all = permitted;
    all.push_back(CAP_SETPCAP);
    MOUNTD_TRY(SetCapabilities(all, {CAP_SETPCAP}));
    MOUNTD_TRY(DropBounding(permitted));
  }
  MOUNTD_TRY(SetCapabilities(permitted, {kKept.begin(), kKept.end()}));
  return ForbidNewPrivileges();
}

std::uint64_t EffectiveCapabilities() {
  std::uint64_t bits = 0;
  for (cap_value_t cap = 0; cap < cap_max_bits(); ++cap) {
    bits |= Holds(cap) ? std::uint64_t{1} << static_cast<unsigned>(cap) : 0;
  }
  return bits;
}

}  // namespace mountd::exec
