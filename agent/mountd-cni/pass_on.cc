// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/pass_on.h"

#include "agent/mountd-cni/result.h"
#include "agent/mountd-cni/values.h"

namespace mountd::cni_plugin {
namespace {

constexpr char kChoosesItself[] =
    "mountd chooses addresses itself, so mountd's host-local gives none; use "
    "mountd's bridge, or the host-local of the CNI project from another "
    "directory";

Failure Refused() {
  return FailureOf(
      MakeError(Code::kNotSupported, "allocate", "address", kChoosesItself));
}

}  // namespace

Outcome<Added> PassOn(const Environment& /*environment*/,
                      const Config& config) {
  return Added{PassedOn(config), ""};
}

Outcome<Added> PassOnPrevious(const Environment& environment,
                              const Config& config) {
  if (config.prev_result.is_null()) {
    return BadConfig("prevResult",
                     "is required, because firewall comes after the plugin "
                     "that makes the interface");
  }
  return PassOn(environment, config);
}

Outcome<Added> RefuseAddress(const Environment& /*environment*/,
                             const Config& /*config*/) {
  return Refused();
}

Outcome<void> RefuseCheck(const Environment& /*environment*/,
                          const Config& /*config*/) {
  return Refused();
}

Outcome<void> RefuseStatus(const Config& /*config*/) {
  return Failure{cni::kPluginNotAvailable, kChoosesItself};
}

Outcome<void> Nothing(const Environment& /*environment*/,
                      const Config& /*config*/) {
  return {};
}

Outcome<void> NothingForAll(const Config& /*config*/) { return {}; }

}  // namespace mountd::cni_plugin
