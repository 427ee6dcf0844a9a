// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/types/csi_values.h"

#include <algorithm>

namespace mountd::csi {

bool Offers(const PluginCapabilities& capabilities, NodeRpc rpc) {
  return std::find(capabilities.node_rpcs.begin(), capabilities.node_rpcs.end(),
                   static_cast<int>(rpc)) != capabilities.node_rpcs.end();
}

}  // namespace mountd::csi
