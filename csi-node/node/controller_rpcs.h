// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

namespace mountd::csi {

// The facts that the core needs about each RPC of the controller services.
struct ControllerRpcTraits {
  std::string_view name;
  // The ControllerServiceCapability.RPC.Type that the plugin must have; 0:
  // none.
  int needs = 0;
  // True if the RPC changes something. Such an RPC is repeated until its answer
  // is final; without one its outcome is not known.
  bool changes = false;
  bool handed_on =
      false;  // CallController makes it; it has no method of its own
  bool of_group = false;  // belongs to the GroupController service
};

// Returns null if there is no such RPC.
const ControllerRpcTraits* FindControllerRpc(std::string_view name);

}  // namespace mountd::csi
