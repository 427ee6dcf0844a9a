// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/dbus/refusal_probes.h"

#include <fcntl.h>

#include <cstdint>

#include "mountd/base/unique_fd.h"

namespace mountd::test {

int AnyDirectory() {
  static const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  return directory.get();
}

const std::vector<Probe>& WithOption() {
  static const std::vector<Probe> all = {
      {"Subscribe",
       [](auto& c, auto* k) {
         return c.Call("Subscribe", "a{sv}", 1, k, "s", "x");
       }},
      {"Unsubscribe",
       [](auto& c, auto* k) {
         return c.Call("Unsubscribe", "a{sv}", 1, k, "s", "x");
       }},
      {"PrepareAllocation",
       [](auto& c, auto* k) {
         return c.Call("PrepareAllocation", "sa{sv}", "new", 1, k, "s", "x");
       }},
      {"SetupNetwork",
       [](auto& c, auto* k) {
         return c.Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0,
                       1, k, "s", "x");
       }},
      {"GetNetwork",
       [](auto& c, auto* k) {
         return c.Call("GetNetwork", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"UpdatePorts",
       [](auto& c, auto* k) {
         return c.Call("UpdatePorts", "sa(ssqqqs)a{sv}", "web", 0, 1, k, "s",
                       "x");
       }},
      {"TeardownNetwork",
       [](auto& c, auto* k) {
         return c.Call("TeardownNetwork", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"PublishVolume",
       [](auto& c, auto* k) {
         return c.Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "v2",
                       "vol2", "csi", 0, 0, 0, 1, k, "s", "x");
       }},
      {"UnpublishVolume",
       [](auto& c, auto* k) {
         return c.Call("UnpublishVolume", "ssa{sv}", "web", "data", 1, k, "s",
                       "x");
       }},
      {"ExpandVolume",
       [](auto& c, auto* k) {
         return c.Call("ExpandVolume", "ssxa{sv}", "web", "data",
                       std::int64_t{1 << 20}, 1, k, "s", "x");
       }},
      {"GetVolumeStats",
       [](auto& c, auto* k) {
         return c.Call("GetVolumeStats", "ssa{sv}", "web", "data", 1, k, "s",
                       "x");
       }},
      {"ControllerPublishVolume",
       [](auto& c, auto* k) {
         return c.Call("ControllerPublishVolume", "sssa{sv}a{ss}a{sv}", "csi",
                       "vol", "node-1", 0, 0, 1, k, "s", "x");
       }},
      {"ControllerUnpublishVolume",
       [](auto& c, auto* k) {
         return c.Call("ControllerUnpublishVolume", "sssa{sv}", "csi", "vol",
                       "node-1", 1, k, "s", "x");
       }},
      {"ValidateVolume",
       [](auto& c, auto* k) {
         return c.Call("ValidateVolume", "ssa{sv}a{ss}a{sv}", "csi", "vol", 0,
                       0, 1, k, "s", "x");
       }},
      {"CreateVolume",
       [](auto& c, auto* k) {
         return c.Call("CreateVolume", "ssa{sv}a{sv}", "csi", "new", 0, 1, k,
                       "s", "x");
       }},
      {"DeleteVolume",
       [](auto& c, auto* k) {
         return c.Call("DeleteVolume", "ssa{sv}", "csi", "vol", 1, k, "s", "x");
       }},
      {"ControllerExpandVolume",
       [](auto& c, auto* k) {
         return c.Call("ControllerExpandVolume", "ssxa{sv}", "csi", "vol",
                       std::int64_t{1 << 20}, 1, k, "s", "x");
       }},
      {"ListPluginVolumes",
       [](auto& c, auto* k) {
         return c.Call("ListPluginVolumes", "sa{sv}", "csi", 1, k, "s", "x");
       }},
      {"GetCapacity",
       [](auto& c, auto* k) {
         return c.Call("GetCapacity", "sa{sv}", "csi", 1, k, "s", "x");
       }},
      {"CallController",
       [](auto& c, auto* k) {
         return c.Call("CallController", "ssaya{sv}", "csi", "CreateSnapshot",
                       0, 1, k, "s", "x");
       }},
      {"BindMount",
       [](auto& c, auto* k) {
         return c.Call("BindMount", "sssssbsa{sv}", "web", "t", "n", "host",
                       "data", 0, "private", 1, k, "s", "x");
       }},
      {"Unmount",
       [](auto& c, auto* k) {
         return c.Call("Unmount", "sssa{sv}", "web", "t", "n", 1, k, "s", "x");
       }},
      {"RemoveTree",
       [](auto& c, auto* k) {
         return c.Call("RemoveTree", "ha{sv}", AnyDirectory(), 1, k, "s", "x");
       }},
      {"ChownTree",
       [](auto& c, auto* k) {
         return c.Call("ChownTree", "huua{sv}", AnyDirectory(), 0, 0, 1, k, "s",
                       "x");
       }},
      {"ListHolders",
       [](auto& c, auto* k) {
         return c.Call("ListHolders", "sssa{sv}", "web", "t", "n", 1, k, "s",
                       "x");
       }},
      {"ListHandedOut",
       [](auto& c, auto* k) {
         return c.Call("ListHandedOut", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"VerifyTask",
       [](auto& c, auto* k) {
         return c.Call("VerifyTask", "ssha{sv}", "web", "t", 0, 1, k, "s", "x");
       }},
      {"ReleaseAllocation",
       [](auto& c, auto* k) {
         return c.Call("ReleaseAllocation", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"Reconcile",
       [](auto& c, auto* k) {
         return c.Call("Reconcile", "stasba{sv}", "", std::uint64_t{1}, 0, 0, 1,
                       k, "s", "x");
       }},
      {"GetReceipt",
       [](auto& c, auto* k) {
         return c.Call("GetReceipt", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"AcquireLease",
       [](auto& c, auto* k) {
         return c.Call("AcquireLease", "sa{sv}", "lease", 1, k, "s", "x");
       }},
      {"RenewLease",
       [](auto& c, auto* k) {
         return c.Call("RenewLease", "sa{sv}", "lease", 1, k, "s", "x");
       }},
      {"ReleaseLease",
       [](auto& c, auto* k) {
         return c.Call("ReleaseLease", "sa{sv}", "lease", 1, k, "s", "x");
       }},
      {"ListLeases",
       [](auto& c, auto* k) {
         return c.Call("ListLeases", "a{sv}", 1, k, "s", "x");
       }},
      {"GetFence",
       [](auto& c, auto* k) {
         return c.Call("GetFence", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"GetAllocation",
       [](auto& c, auto* k) {
         return c.Call("GetAllocation", "sa{sv}", "web", 1, k, "s", "x");
       }},
      {"RegisterPlugin",
       [](auto& c, auto* k) {
         return c.Call("RegisterPlugin", "sssa{sv}", "new", "node", "", 1, k,
                       "s", "x");
       }},
      {"UnregisterPlugin",
       [](auto& c, auto* k) {
         return c.Call("UnregisterPlugin", "sa{sv}", "csi", 1, k, "s", "x");
       }},
      {"GetPlugin",
       [](auto& c, auto* k) {
         return c.Call("GetPlugin", "sa{sv}", "csi", 1, k, "s", "x");
       }},
      {"Cancel",
       [](auto& c, auto* k) {
         return c.Call("Cancel", "sa{sv}", "1.1", 1, k, "s", "x");
       }},
  };
  return all;
}

const std::vector<Probe>& WithName() {
  static const std::vector<Probe> all = {
      {"PrepareAllocation allocation",
       [](auto& c, auto* n) {
         return c.Call("PrepareAllocation", "sa{sv}", n, 0);
       }},
      {"PrepareAllocation scope",
       [](auto& c, auto* n) {
         return c.Call("PrepareAllocation", "sa{sv}", "new", 1, "scope", "s",
                       n);
       },
       true},
      {"ListHolders allocation",
       [](auto& c, auto* n) {
         return c.Call("ListHolders", "sssa{sv}", n, "t", "n", 0);
       }},
      {"ListHolders task",
       [](auto& c, auto* n) {
         return c.Call("ListHolders", "sssa{sv}", "web", n, "n", 0);
       }},
      {"ListHolders name",
       [](auto& c, auto* n) {
         return c.Call("ListHolders", "sssa{sv}", "web", "t", n, 0);
       }},
      {"ListHandedOut allocation",
       [](auto& c, auto* n) {
         return c.Call("ListHandedOut", "sa{sv}", n, 0);
       }},
      {"VerifyTask allocation",
       [](auto& c, auto* n) {
         return c.Call("VerifyTask", "ssha{sv}", n, "t", 0, 0);
       }},
      {"VerifyTask task",
       [](auto& c, auto* n) {
         return c.Call("VerifyTask", "ssha{sv}", "web", n, 0, 0);
       }},
      {"SetupNetwork allocation",
       [](auto& c, auto* n) {
         return c.Call("SetupNetwork", "ssa(ssqqqs)a{sv}", n, "bridge", 0, 0);
       }},
      {"SetupNetwork network",
       [](auto& c, auto* n) {
         return c.Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0,
                       1, "network", "s", n);
       }},
      {"SetupNetwork label",
       [](auto& c, auto* n) {
         return c.Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 1,
                       n, "", 20080, 0, 1, "tcp", 0);
       },
       true},
      {"SetupNetwork interface",
       [](auto& c, auto* n) {
         return c.Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 0,
                       1, "interface", "s", n);
       },
       true},
      {"GetNetwork interface",
       [](auto& c, auto* n) {
         return c.Call("GetNetwork", "sa{sv}", "web", 1, "interface", "s", n);
       },
       true},
      {"GetNetwork allocation",
       [](auto& c, auto* n) { return c.Call("GetNetwork", "sa{sv}", n, 0); }},
      {"UpdatePorts interface",
       [](auto& c, auto* n) {
         return c.Call("UpdatePorts", "sa(ssqqqs)a{sv}", "web", 0, 1,
                       "interface", "s", n);
       },
       true},
      {"UpdatePorts label",
       [](auto& c, auto* n) {
         return c.Call("UpdatePorts", "sa(ssqqqs)a{sv}", "web", 1, n, "", 20080,
                       0, 1, "tcp", 0);
       },
       true},
      {"UpdatePorts allocation",
       [](auto& c, auto* n) {
         return c.Call("UpdatePorts", "sa(ssqqqs)a{sv}", n, 0, 0);
       }},
      {"TeardownNetwork interface",
       [](auto& c, auto* n) {
         return c.Call("TeardownNetwork", "sa{sv}", "web", 1, "interface", "s",
                       n);
       },
       true},
      {"TeardownNetwork allocation",
       [](auto& c, auto* n) {
         return c.Call("TeardownNetwork", "sa{sv}", n, 0);
       }},
      {"PublishVolume allocation",
       [](auto& c, auto* n) {
         return c.Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", n, "v2",
                       "vol2", "csi", 0, 0, 0, 0);
       }},
      {"PublishVolume alias",
       [](auto& c, auto* n) {
         return c.Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", n,
                       "vol2", "csi", 0, 0, 0, 0);
       }},
      {"PublishVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "v2",
                       "vol2", n, 0, 0, 0, 0);
       }},
      {"UnpublishVolume allocation",
       [](auto& c, auto* n) {
         return c.Call("UnpublishVolume", "ssa{sv}", n, "data", 0);
       }},
      {"UnpublishVolume alias",
       [](auto& c, auto* n) {
         return c.Call("UnpublishVolume", "ssa{sv}", "web", n, 0);
       }},
      {"ExpandVolume allocation",
       [](auto& c, auto* n) {
         return c.Call("ExpandVolume", "ssxa{sv}", n, "data",
                       std::int64_t{1 << 20}, 0);
       }},
      {"ExpandVolume alias",
       [](auto& c, auto* n) {
         return c.Call("ExpandVolume", "ssxa{sv}", "web", n,
                       std::int64_t{1 << 20}, 0);
       }},
      {"GetVolumeStats allocation",
       [](auto& c, auto* n) {
         return c.Call("GetVolumeStats", "ssa{sv}", n, "data", 0);
       }},
      {"GetVolumeStats alias",
       [](auto& c, auto* n) {
         return c.Call("GetVolumeStats", "ssa{sv}", "web", n, 0);
       }},
      {"ControllerPublishVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("ControllerPublishVolume", "sssa{sv}a{ss}a{sv}", n,
                       "vol", "node-1", 0, 0, 0);
       }},
      {"ControllerUnpublishVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("ControllerUnpublishVolume", "sssa{sv}", n, "vol",
                       "node-1", 0);
       }},
      {"ValidateVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("ValidateVolume", "ssa{sv}a{ss}a{sv}", n, "vol", 0, 0,
                       0);
       }},
      {"CreateVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("CreateVolume", "ssa{sv}a{sv}", n, "new", 0, 0);
       }},
      {"DeleteVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("DeleteVolume", "ssa{sv}", n, "vol", 0);
       }},
      {"ControllerExpandVolume plugin",
       [](auto& c, auto* n) {
         return c.Call("ControllerExpandVolume", "ssxa{sv}", n, "vol",
                       std::int64_t{1 << 20}, 0);
       }},
      {"ListPluginVolumes plugin",
       [](auto& c, auto* n) {
         return c.Call("ListPluginVolumes", "sa{sv}", n, 0);
       }},
      {"GetCapacity plugin",
       [](auto& c, auto* n) { return c.Call("GetCapacity", "sa{sv}", n, 0); }},
      {"CallController plugin",
       [](auto& c, auto* n) {
         return c.Call("CallController", "ssaya{sv}", n, "CreateSnapshot", 0,
                       0);
       }},
      {"CallController rpc",
       [](auto& c, auto* n) {
         return c.Call("CallController", "ssaya{sv}", "csi", n, 0, 0);
       }},
      {"BindMount allocation",
       [](auto& c, auto* n) {
         return c.Call("BindMount", "sssssbsa{sv}", n, "t", "n", "host", "data",
                       0, "private", 0);
       }},
      {"BindMount task",
       [](auto& c, auto* n) {
         return c.Call("BindMount", "sssssbsa{sv}", "web", n, "n", "host",
                       "data", 0, "private", 0);
       }},
      {"BindMount name",
       [](auto& c, auto* n) {
         return c.Call("BindMount", "sssssbsa{sv}", "web", "t", n, "host",
                       "data", 0, "private", 0);
       }},
      {"BindMount source",
       [](auto& c, auto* n) {
         return c.Call("BindMount", "sssssbsa{sv}", "web", "t", "n", "host", n,
                       0, "private", 0);
       }},
      {"Unmount allocation",
       [](auto& c, auto* n) {
         return c.Call("Unmount", "sssa{sv}", n, "t", "n", 0);
       }},
      {"Unmount task",
       [](auto& c, auto* n) {
         return c.Call("Unmount", "sssa{sv}", "web", n, "n", 0);
       }},
      {"Unmount name",
       [](auto& c, auto* n) {
         return c.Call("Unmount", "sssa{sv}", "web", "t", n, 0);
       }},
      {"ReleaseAllocation",
       [](auto& c, auto* n) {
         return c.Call("ReleaseAllocation", "sa{sv}", n, 0);
       }},
      {"Reconcile scope",
       [](auto& c, auto* n) {
         return c.Call("Reconcile", "stasba{sv}", n, std::uint64_t{1}, 0, 1, 0);
       },
       true},
      {"Reconcile wanted",
       [](auto& c, auto* n) {
         return c.Call("Reconcile", "stasba{sv}", "", std::uint64_t{1}, 2,
                       "web", n, 1, 0);
       }},
      {"GetReceipt",
       [](auto& c, auto* n) { return c.Call("GetReceipt", "sa{sv}", n, 0); }},
      {"AcquireLease lease",
       [](auto& c, auto* n) {
         return c.Call("AcquireLease", "sa{sv}", n, 2, "allocation", "s", "web",
                       "timeout_ms", "t", std::uint64_t{5000});
       }},
      {"RenewLease",
       [](auto& c, auto* n) { return c.Call("RenewLease", "sa{sv}", n, 0); }},
      {"ReleaseLease",
       [](auto& c, auto* n) { return c.Call("ReleaseLease", "sa{sv}", n, 0); }},
      {"GetFence",
       [](auto& c, auto* n) { return c.Call("GetFence", "sa{sv}", n, 0); }},
      {"GetAllocation",
       [](auto& c, auto* n) {
         return c.Call("GetAllocation", "sa{sv}", n, 0);
       }},
      {"RegisterPlugin plugin",
       [](auto& c, auto* n) {
         return c.Call("RegisterPlugin", "sssa{sv}", n, "node", "", 0);
       }},
      {"RegisterPlugin type",
       [](auto& c, auto* n) {
         return c.Call("RegisterPlugin", "sssa{sv}", "new", n, "", 0);
       }},
      {"RegisterPlugin allocation",
       [](auto& c, auto* n) {
         return c.Call("RegisterPlugin", "sssa{sv}", "new", "node", n, 0);
       },
       true},
      {"UnregisterPlugin",
       [](auto& c, auto* n) {
         return c.Call("UnregisterPlugin", "sa{sv}", n, 0);
       }},
      {"GetPlugin",
       [](auto& c, auto* n) { return c.Call("GetPlugin", "sa{sv}", n, 0); }},
  };
  return all;
}

}  // namespace mountd::test
