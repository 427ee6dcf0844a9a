// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

namespace mountd::csi {

// What the core knows of each RPC of the controller services.
struct ControllerRpcTraits {
  std::string_view name;
  // ControllerServiceCapability.RPC.Type that the plugin must have; 0: none.
  int needs = 0;
  // Changes something: is made again until the answer is final, and without one
  // its outcome is not known.
  bool changes = false;
  bool handed_on =
      false;  // CallController makes it; it has no method of its own
  bool of_group = false;  // of the GroupController service
};

// Null if it is none.
const ControllerRpcTraits* FindControllerRpc(std::string_view name);

}  // namespace mountd::csi
