// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/operations.h"

#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using agent::BindMountSpec;
using agent::Propagation;
using agent::SourceType;

std::string Prepare(Agent& agent) {
  return agent.Told(agent.client().PrepareAllocation(agent.allocation()));
}
std::string Nothing(Agent& /*agent*/) { return "Ok"; }

// Runs the parts one after the other until one fails.
using Part = std::function<std::string(Agent&)>;
Part All(std::vector<Part> parts) {
  return [parts = std::move(parts)](Agent& agent) {
    for (const Part& part : parts) {
      if (std::string told = part(agent); told != "Ok") {
        return told;
      }
    }
    return std::string("Ok");
  };
}

BindMountSpec Spec(const std::string& source,
                   SourceType type = SourceType::kHostVolume,
                   Propagation propagation = Propagation::kPrivate) {
  BindMountSpec spec = HostVolumeSpec("d", source);
  spec.source_type = type;
  spec.propagation = propagation;
  if (type == SourceType::kTmpfs) {
    spec.tmpfs = agent::TmpfsOptions{.size = 1U << 20U};
  }
  return spec;
}

Part Bind(const BindMountSpec& spec) {
  return [spec](Agent& agent) {
    return agent.Told(agent.client().BindMount(agent.allocation(), spec));
  };
}

std::size_t MountsAt(const std::string& path) {
  return MountPointsUnder(path).size();
}

// Returns "" if the inbox's "d" has one mount with that content.
Part Shows(const std::string& content) {
  return [content](Agent& agent) -> std::string {
    const std::string path = agent.Inbox() + "/d";
    if (MountsAt(path) != 1) {
      return std::to_string(MountsAt(path)) + " mounts at " + path;
    }
    const std::string shown = VolumeShownAt(path);
    return shown == content ? "" : path + " shows \"" + shown + "\"";
  };
}
std::string IsUnmounted(Agent& agent) {
  return MountsAt(agent.Inbox() + "/d") == 0 ? "" : "still mounted";
}

Part Unmounted(const std::string& name = "d") {
  return [name](Agent& agent) {
    return agent.Told(agent.client().Unmount(agent.allocation(), "app", name));
  };
}

// ---- Volumes ----

agent::VolumeSpec Volume(const Agent& agent) {
  agent::VolumeSpec spec;
  spec.alias = "data";
  spec.volume = agent.volume();
  spec.plugin = World::kPlugin;
  if (agent.shares_volume()) {
    spec.usage.access_mode = "multi-node-multi-writer";
  }
  return spec;
}
std::string Publish(Agent& agent) {
  return agent.Told(
      agent.client().PublishVolume(agent.allocation(), Volume(agent)));
}
std::string Unpublish(Agent& agent) {
  return agent.Told(agent.client().UnpublishVolume(agent.allocation(), "data"));
}
constexpr const char* kNotRecorded = "no volume of it is recorded";

std::string IsPublished(Agent& agent) {
  const auto status = agent.Status();
  if (!status || status->volumes.size() != 1) {
    return kNotRecorded;
  }
  const agent::VolumeStatus& volume = status->volumes.front();
  return volume.state != "published" ? "the volume is " + volume.state
         : MountsAt(volume.host_path) != 1
             ? std::to_string(MountsAt(volume.host_path)) + " mounts at " +
                   volume.host_path
             : "";
}
// Returns "" for an allocation that is gone as a whole.
std::string NotTold(Agent& agent,
                    const Result<agent::AllocationStatus>& status) {
  const std::string told = agent.Told(status);
  return told == "NotFound" ? "" : told;
}

// The volume's own unstage may still be pending if the plugin is just coming
// back.
std::string IsUnpublished(Agent& agent) {
  const auto status = agent.Status();
  return !status                    ? NotTold(agent, status)
         : !status->volumes.empty() ? "a volume of it is recorded"
                                    : "";
}

// ---- Networks ----

agent::NetworkSpec Bridge(const Agent& agent) {
  agent::NetworkSpec spec;
  agent::Port port;
  port.label = "http";
  // Each allocation has ports of its own.
  port.host = static_cast<std::uint16_t>(
      20000 + std::hash<std::string>()(agent.allocation()) % 900);
  port.container = 80;
  port.protocols = "tcp+udp";
  port.count = 2;
  spec.ports = {port};
  spec.hostname = "web";
  spec.dns_servers = {"10.0.0.53"};
  return spec;
}
agent::NetworkSpec Alone() {
  agent::NetworkSpec spec;
  spec.mode = "none";
  return spec;
}
agent::NetworkSpec Cni() {
  agent::NetworkSpec spec;
  spec.mode = "cni/net";
  return spec;
}
Part SetUp(std::function<agent::NetworkSpec(const Agent&)> spec) {
  return [spec = std::move(spec)](Agent& agent) {
    return agent.Told(
        agent.client().SetupNetwork(agent.allocation(), spec(agent)));
  };
}
std::string TearDown(Agent& agent) {
  return agent.Told(agent.client().TeardownNetwork(agent.allocation()));
}
std::string HasNetwork(Agent& agent) {
  const auto status = agent.Status();
  if (!status || status->networks.size() != 1) {
    return "no network of it is recorded";
  }
  const agent::NetworkStatus& network = status->networks.front();
  struct stat st = {};
  if (::stat(network.netns_path.c_str(), &st) != 0 ||
      st.st_ino != network.netns_inode) {
    return network.netns_path + " is not its namespace";
  }
  return !network.host_interface.empty() &&
                 ::if_nametoindex(network.host_interface.c_str()) == 0
             ? "no link " + network.host_interface
             : "";
}
std::string HasNoNetwork(Agent& agent) {
  const auto status = agent.Status();
  return !status                     ? NotTold(agent, status)
         : !status->networks.empty() ? "a network of it is recorded"
         : fs::exists("/run/netns/" + agent.allocation())
             ? "its namespace has its name"
             : "";
}

// ---- Trees ----

std::string TreeOf(const Agent& agent) {
  return std::string(World::kAllocRoot) + "/" + agent.allocation();
}
// Makes a tree of the agent's, with files of another of its ids.
std::string MakeTree(Agent& agent) {
  const std::string tree = TreeOf(agent);
  fs::create_directories(tree + "/x/y");
  for (const char* file : {"/f", "/x/g", "/x/y/h"}) {
    std::ofstream(tree + file) << "text";
  }
  bool owned = ::chown(tree.c_str(), kAgentUid, kAgentUid) == 0;
  for (const char* entry : {"/f", "/x", "/x/g", "/x/y", "/x/y/h"}) {
    owned = owned && ::chown((tree + entry).c_str(), 100000, 100000) == 0;
  }
  return owned ? "Ok" : "chown";
}
std::string DropTree(Agent& agent) {
  agent.directory().reset();
  std::error_code error;
  fs::remove_all(TreeOf(agent), error);
  return error ? error.message() : "Ok";
}
UniqueFd OpenTreeOf(const Agent& agent) {
  return UniqueFd(
      ::open(TreeOf(agent).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}
// Opens the agent's tree while nothing is mounted there.
std::string OpenDirectory(Agent& agent) {
  agent.directory() = OpenTreeOf(agent);
  return agent.directory().valid() ? "Ok" : "open";
}
bool AllBelongTo(const std::string& tree, uid_t uid) {
  for (const auto& entry : fs::recursive_directory_iterator(tree)) {
    struct stat st = {};
    if (::lstat(entry.path().c_str(), &st) != 0 || st.st_uid != uid) {
      return false;
    }
  }
  return true;
}

// ---- The operations ----

std::vector<Operation> OfAllocations() {
  return {
      {"PrepareAllocation", "PrepareAllocation", Nothing, Prepare,
       [](Agent& agent) -> std::string {
         return fs::is_directory("/run/mountd/base/a/" + agent.allocation())
                    ? ""
                    : "no directory";
       }},
      {"ReleaseAllocation", "ReleaseAllocation",
       All({Prepare, Publish, Bind(Spec("data", SourceType::kVolume)),
            SetUp(Bridge)}),
       [](Agent& agent) {
         return agent.Told(
             agent.client().ReleaseAllocation(agent.allocation()));
       },
       [](Agent& agent) -> std::string {
         Result<agent::Receipt> receipt =
             agent.client().GetReceipt(agent.allocation());
         Eventually([&] {
           if (agent.Told(receipt) == "Unavailable") {
             receipt = agent.client().GetReceipt(agent.allocation());
             return false;
           }
           return true;
         });
         return !receipt                   ? agent.Told(receipt)
                : receipt->volumes.empty() ? "the receipt has no volume"
                : fs::exists("/run/mountd/base/a/" + agent.allocation())
                    ? "its directory is there"
                    : "";
       }},
      {"Reconcile", "Reconcile",
       All({Prepare, Publish, Bind(Spec("data", SourceType::kVolume)),
            SetUp(Bridge)}),
       [](Agent& agent) {
         const auto all = agent.client().Reconcile(
             {.scope = "", .epoch = 1, .wanted = {}, .dry_run = false});
         if (!all) {
           return agent.Told(all);
         }
         // An allocation that another call prepares meanwhile is kept, as if
         // that call had come afterwards.
         const auto kept = std::find_if(
             all->begin(), all->end(),
             [](const agent::ReconciledAllocation& one) {
               return one.outcome != "released" &&
                      one.reason != "another call prepared it meanwhile";
             });
         return kept == all->end() ? std::string("Ok") : kept->outcome;
       },
       [](Agent& agent) -> std::string {
         return agent.Status() ? "the allocation is there" : "";
       }},
      {"PrepareInbox", "PrepareInbox", Prepare,
       [](Agent& agent) {
         return agent.Told(
             agent.client().PrepareInbox(agent.allocation(), "app"));
       },
       [](Agent& agent) -> std::string {
         return fs::is_directory(agent.Inbox()) ? "" : "no inbox";
       }},
      {"OpenInbox", "PrepareInbox", Prepare,
       [](Agent& agent) {
         return agent.Told(agent.client().OpenInbox(agent.allocation(), "app"));
       },
       [](Agent& agent) -> std::string {
         return fs::is_directory(agent.Inbox()) ? "" : "no inbox";
       }},
      {"RemoveInbox", "RemoveInbox",
       All({Prepare,
            [](Agent& agent) {
              return agent.Told(
                  agent.client().PrepareInbox(agent.allocation(), "app"));
            }}),
       [](Agent& agent) {
         return agent.Told(
             agent.client().RemoveInbox(agent.allocation(), "app"));
       },
       [](Agent& agent) -> std::string {
         return fs::exists(agent.Inbox()) ? "the inbox is there" : "";
       }},
  };
}

std::vector<Operation> OfMounts() {
  const auto of = [](const std::string& name, const BindMountSpec& spec,
                     const std::string& content) {
    return Operation{"BindMountOf" + name, "BindMount", Prepare, Bind(spec),
                     Shows(content)};
  };
  BindMountSpec directory = Spec("a");
  Operation in_directory = {
      "BindMountInADirectory",
      "BindMount",
      All({Prepare, MakeTree, OpenDirectory}),
      [directory](Agent& agent) {
        BindMountSpec spec = directory;
        spec.directory = agent.directory().get();
        return agent.Told(agent.client().BindMount(agent.allocation(), spec));
      },
      [](Agent& agent) -> std::string {
        return VolumeShownAt(TreeOf(agent)) == "a" ? "" : "it is not mounted";
      },
      DropTree};
  Operation of_directory = {
      "BindMountOfADirectory",
      "BindMount",
      All({Prepare, MakeTree}),
      [](Agent& agent) {
        const UniqueFd source = OpenTreeOf(agent);
        BindMountSpec spec = Spec("", SourceType::kDirectory);
        spec.source_directory = source.get();
        return agent.Told(agent.client().BindMount(agent.allocation(), spec));
      },
      [](Agent& agent) -> std::string {
        return fs::exists(agent.Inbox() + "/d/f") ? "" : "it is not mounted";
      },
      DropTree};
  return {
      of("AHostVolume", Spec("a"), "a"),
      of("AHostVolumeHostToTask",
         Spec("b", SourceType::kHostVolume, Propagation::kHostToTask), "b"),
      of("AHostVolumeBidirectional",
         Spec("b", SourceType::kHostVolume, Propagation::kBidirectional), "b"),
      of("ATmpfs", Spec("", SourceType::kTmpfs), ""),
      of("AFilesystem", Spec("box", SourceType::kFilesystem), "a"),
      {"BindMountOfAVolume", "BindMount", All({Prepare, Publish}),
       Bind(Spec("data", SourceType::kVolume)), Shows("")},
      std::move(in_directory),
      std::move(of_directory),
      {"BindMounts", "BindMounts", Prepare,
       [](Agent& agent) {
         std::vector<BindMountSpec> set = {Spec("a"), Spec("b"),
                                           Spec("", SourceType::kTmpfs)};
         set[1].name = "e";
         set[2].name = "f";
         return agent.Told(agent.client().BindMounts(agent.allocation(), set));
       },
       [](Agent& agent) -> std::string {
         return MountsAt(agent.Inbox()) == 3 ? "" : "not three mounts";
       }},
      {"ReplaceMount", "ReplaceMount", All({Prepare, Bind(Spec("a"))}),
       [](Agent& agent) {
         return agent.Told(
             agent.client().ReplaceMount(agent.allocation(), Spec("b")));
       },
       Shows("b")},
      {"RepairMount", "RepairMount",
       All({Prepare, Bind(Spec("box", SourceType::kFilesystem)),
            [](Agent&) {
              Node::Kill(Node::Processes("bindfs"));
              return std::string("Ok");
            }}),
       [](Agent& agent) {
         return agent.Told(
             agent.client().RepairMount(agent.allocation(), "app", "d"));
       },
       Shows("a")},
      {"Unmount", "Unmount", All({Prepare, Bind(Spec("a"))}), Unmounted(),
       IsUnmounted},
      {"OpenTree", "OpenTree", Prepare,
       [](Agent& agent) {
         const auto tree =
             agent.client().OpenTree(agent.allocation(), Spec("a"));
         const std::string told = agent.Told(tree);
         return told != "Ok" ||
                        VolumeShownAt("/proc/self/fd/" +
                                      std::to_string(tree->get())) == "a"
                    ? told
                    : "another tree";
       },
       [](Agent& agent) -> std::string {
         return MountsAt(agent.Inbox()) == 0 ? "" : "something is mounted";
       }},
  };
}

std::vector<Operation> OfVolumes() {
  const auto unregister = [](Agent& agent) {
    return agent.Told(agent.client().UnregisterPlugin(agent.allocation()));
  };
  return {
      {"PublishVolume", "PublishVolume", Prepare, Publish, IsPublished},
      {"UnpublishVolume", "UnpublishVolume", All({Prepare, Publish}), Unpublish,
       IsUnpublished},
      {"ExpandVolume", "ExpandVolume", All({Prepare, Publish}),
       [](Agent& agent) {
         return agent.Told(agent.client().ExpandVolume(
             agent.allocation(), "data", {.required_bytes = 1 << 20}));
       },
       IsPublished},
      {"GetVolumeStats",
       "GetVolumeStats",
       All({Prepare, Publish}),
       [](Agent& agent) {
         return agent.Told(
             agent.client().GetVolumeStats(agent.allocation(), "data"));
       },
       IsPublished,
       {},
       /*looks_on=*/true},
      {"RegisterPlugin", "RegisterPlugin", Nothing,
       [](Agent& agent) {
         return agent.Told(
             agent.client().RegisterPlugin({.plugin = agent.allocation()}));
       },
       [](Agent& agent) -> std::string {
         return MountsAt("/run/mountd/base/p/" + agent.allocation()) == 1
                    ? ""
                    : "no directory of its own";
       },
       unregister},
      {"UnregisterPlugin", "UnregisterPlugin",
       [](Agent& agent) {
         return agent.Told(
             agent.client().RegisterPlugin({.plugin = agent.allocation()}));
       },
       unregister,
       [](Agent& agent) -> std::string {
         return fs::exists("/run/mountd/base/p/" + agent.allocation())
                    ? "its directory is there"
                    : "";
       },
       unregister},
  };
}

std::vector<Operation> OfNetworks() {
  const auto bridge = [](const Agent& agent) { return Bridge(agent); };
  const auto alone = [](const Agent&) { return Alone(); };
  const auto cni = [](const Agent&) { return Cni(); };
  const auto host = [](const Agent& agent) {
    agent::NetworkSpec spec = Bridge(agent);
    spec.mode = "host";
    spec.network.clear();
    return spec;
  };
  return {
      {"SetupNetwork", "SetupNetwork", Prepare, SetUp(bridge), HasNetwork},
      {"SetupNetworkOfANamespace", "SetupNetwork", Prepare, SetUp(alone),
       HasNetwork},
      {"SetupNetworkOfCni", "SetupNetwork", Prepare, SetUp(cni), HasNetwork},
      {"SetupNetworkOfTheHost", "SetupNetwork", Prepare, SetUp(host),
       [](Agent& agent) -> std::string {
         const auto status = agent.Status();
         return status && status->networks.size() == 1 ? "" : "no network";
       }},
      {"GetNetwork", "GetNetwork", All({Prepare, SetUp(bridge)}),
       [](Agent& agent) {
         return agent.Told(agent.client().OpenNamespace(agent.allocation()));
       },
       HasNetwork},
      {"UpdatePorts", "UpdatePorts", All({Prepare, SetUp(bridge)}),
       [](Agent& agent) {
         std::vector<agent::Port> ports = Bridge(agent).ports;
         ports[0].container = 81;
         return agent.Told(
             agent.client().UpdatePorts(agent.allocation(), ports));
       },
       [](Agent& agent) -> std::string {
         const auto status = agent.Status();
         return status && status->networks.size() == 1 &&
                        status->networks[0].ports.size() == 1 &&
                        status->networks[0].ports[0].container == 81
                    ? ""
                    : "its ports are not the new ones";
       }},
      {"TeardownNetwork", "TeardownNetwork", All({Prepare, SetUp(bridge)}),
       TearDown, HasNoNetwork},
      {"TeardownNetworkOfCni", "TeardownNetwork", All({Prepare, SetUp(cni)}),
       TearDown, HasNoNetwork},
  };
}

std::vector<Operation> OfTrees() {
  return {
      {"RemoveTree", "RemoveTree", All({Prepare, MakeTree}),
       [](Agent& agent) {
         return agent.Told(agent.client().RemoveTree(OpenTreeOf(agent).get()));
       },
       [](Agent& agent) -> std::string {
         return fs::is_empty(TreeOf(agent)) ? "" : "something is in it";
       },
       DropTree,
       /*looks_on=*/false,
       /*takes_tree=*/true},
      {"ChownTree", "ChownTree", All({Prepare, MakeTree}),
       [](Agent& agent) {
         return agent.Told(
             agent.client().ChownTree(OpenTreeOf(agent).get(), 100001, 100001));
       },
       [](Agent& agent) -> std::string {
         return AllBelongTo(TreeOf(agent), 100001) ? "" : "some are another's";
       },
       DropTree},
  };
}

// Calls of the plugin's controller change nothing of mountd's. The answer must
// be true, and the plugin must have done what it says.
std::string Made(const Agent& agent) { return "made-" + agent.volume(); }

std::string Create(Agent& agent) {
  return agent.Told(agent.client().CreateVolume(
      {.plugin = World::kPlugin, .name = Made(agent)}));
}
std::string Delete(Agent& agent) {
  return agent.Told(agent.client().DeleteVolume(World::kPlugin, Made(agent)));
}
// Runs `call` with the node's id.
Part OnNode(
    const std::function<std::string(Agent&, const std::string&)>& call) {
  return [call](Agent& agent) {
    const auto plugin = agent.client().GetPlugin(World::kPlugin);
    return plugin ? call(agent, plugin->node_id) : agent.Told(plugin);
  };
}
// Returns "", or the error if the volume is not attached as `attached` says.
Part IsAttached(bool attached) {
  return [attached](Agent& agent) -> std::string {
    if (agent.shares_volume()) {
      return "";
    }
    std::string wrong = "nobody told the node's id";
    Eventually([&] {
      return OnNode([&](Agent&, const std::string& node) -> std::string {
               wrong = World::HasAttached(Made(agent), node) == attached
                           ? ""
                           : "it is attached, or not, against the answer";
               return "Ok";
             })(agent) == "Ok";
    });
    return wrong;
  };
}

std::vector<Operation> OfControllers() {
  const auto publish = OnNode([](Agent& agent, const std::string& node) {
    return agent.Told(agent.client().ControllerPublishVolume(
        {.plugin = World::kPlugin, .volume = Made(agent), .node_id = node}));
  });
  const auto unpublish = OnNode([](Agent& agent, const std::string& node) {
    return agent.Told(agent.client().ControllerUnpublishVolume(
        World::kPlugin, Made(agent), node));
  });
  return {
      {"CreateVolume", "CreateVolume", Nothing, Create,
       [](Agent& agent) -> std::string {
         return agent.shares_volume() || World::HasMade(Made(agent))
                    ? ""
                    : "it was not made";
       },
       Delete},
      {"DeleteVolume", "DeleteVolume", Create, Delete,
       [](Agent& agent) -> std::string {
         return !agent.shares_volume() && World::HasMade(Made(agent))
                    ? "it is there"
                    : "";
       }},
      {"ControllerPublishVolume", "ControllerPublishVolume", Create, publish,
       IsAttached(true), All({unpublish, Delete})},
      {"ControllerUnpublishVolume", "ControllerUnpublishVolume",
       All({Create, publish}), unpublish, IsAttached(false), Delete},
  };
}

// Returns "Ok" only if the plugin's answer came with it.
std::string Said(const std::string& told, bool right) {
  return told != "Ok" || right ? told : "another answer";
}

std::vector<Operation> OfControllersThatRead() {
  const auto nothing = [](Agent&) { return std::string(); };
  return {
      {"ValidateVolume", "ValidateVolume", Create,
       [](Agent& agent) {
         const auto valid = agent.client().ValidateVolume(
             {.plugin = World::kPlugin, .volume = Made(agent)});
         const std::string told = agent.Told(valid);
         return Said(told, valid && valid->confirmed);
       },
       nothing, Delete},
      {"ControllerExpandVolume", "ControllerExpandVolume", Create,
       [](Agent& agent) {
         const auto grown =
             agent.client().ControllerExpandVolume({.plugin = World::kPlugin,
                                                    .volume = Made(agent),
                                                    .required_bytes = 4096});
         const std::string told = agent.Told(grown);
         return Said(told, grown && grown->capacity_bytes == 4096);
       },
       nothing, Delete},
      {"ListPluginVolumes", "ListPluginVolumes", Nothing,
       [](Agent& agent) {
         const auto page = agent.client().ListPluginVolumes(World::kPlugin);
         const std::string told = agent.Told(page);
         return Said(told, page && page->volumes.size() == 1);
       },
       nothing},
      {"GetCapacity", "GetCapacity", Nothing,
       [](Agent& agent) {
         const auto capacity = agent.client().GetCapacity(World::kPlugin);
         const std::string told = agent.Told(capacity);
         return Said(told, capacity && capacity->available_bytes == 1 << 20);
       },
       nothing},
      {"CallController", "CallController", Create,
       [](Agent& agent) {
         // This is a csi.v1.CreateSnapshotRequest: source_volume_id "v", name
         // "s".
         const auto made =
             agent.client().CallController({.plugin = World::kPlugin,
                                            .rpc = "CreateSnapshot",
                                            .request = "\x0a\x01v\x12\x01s"});
         const std::string told = agent.Told(made);
         return Said(told, made && made->find('s') != std::string::npos);
       },
       nothing, Delete},
  };
}

// ---- Of the node as a whole ----

std::string NothingIsOwed(Agent& agent) {
  std::string left;
  Eventually([&] {
    const auto owed = agent.client().ListOwed();
    left = !owed ? agent.Told(owed) : owed->empty() ? "" : "something is owed";
    return left.empty();
  });
  return left;
}

std::vector<Operation> OfTheNode() {
  return {
      // mountd also retries pending tear-downs by itself, so this call may find
      // none.
      {"RetryOwed",
       "RetryOwed",
       All({[](Agent&) {
              World::Tell("NodeUnstageVolume", "");
              return std::string("Ok");
            },
            Prepare, Publish,
            [](Agent& agent) {
              World::Tell("NodeUnstageVolume", "code 13");
              const std::string told = Unpublish(agent);
              return told == "Internal" ? std::string("Ok") : told;
            }}),
       [](Agent& agent) {
         World::Tell("NodeUnstageVolume", "");
         return agent.Told(agent.root().RetryOwed());
       },
       NothingIsOwed,
       {},
       /*looks_on=*/false,
       /*takes_tree=*/false,
       /*is_alone=*/true,
       /*searches=*/true},
  };
}

// mountd starts with an object of each kind to find again, and the operation
// lasts until mountd has found the plugin, too.
std::vector<Operation> OfStarts() {
  return {
      {"Start", "GetCapabilities",
       All({Prepare, Publish, Bind(Spec("data", SourceType::kVolume)),
            SetUp(Bridge),
            [](Agent&) {
              Node::KillAll();
              return std::string("Ok");
            }}),
       [](Agent& agent) {
         // A mountd that is killed on the way is followed by another one.
         std::string told = "Unavailable";
         Eventually([&] {
           const auto plugin = agent.client().GetPlugin(World::kPlugin);
           if (plugin && plugin->state == "healthy") {
             told = agent.Told(agent.client().GetCapabilities());
             return true;
           }
           if (!plugin) {
             agent.Told(plugin);
           }
           return false;
         });
         return told;
       },
       [](Agent& agent) {
         // mountd looks again at what it could not look at. A volume whose
         // record another operation has removed stays away.
         std::string missing;
         Eventually([&] {
           missing = IsPublished(agent);
           return missing.empty() || missing == kNotRecorded;
         });
         return missing.empty() ? HasNetwork(agent) : missing;
       }},
  };
}

// ---- Leases, of a scope without allocations ----

std::string LeaseOf(const Agent& agent) {
  return "lease-" + agent.allocation();
}

std::string AcquireLease(Agent& agent) {
  agent::LeaseSpec spec;
  spec.scope = "scope-" + agent.allocation();
  spec.timeout_ms = 3'600'000;
  return agent.Told(agent.client().AcquireLease(LeaseOf(agent), spec));
}
std::string ReleaseLease(Agent& agent) {
  return agent.Told(agent.client().ReleaseLease(LeaseOf(agent)));
}
// Returns "held", "lapsed", or "" if there is no such lease.
std::string LeaseState(Agent& agent) {
  const auto all = agent.client().ListLeases();
  if (!all) {
    return agent.Told(all);
  }
  const auto found = std::find_if(
      all->begin(), all->end(),
      [&](const agent::Lease& one) { return one.lease == LeaseOf(agent); });
  return found == all->end() ? "" : found->state;
}
std::string IsHeld(Agent& agent) {
  const std::string state = LeaseState(agent);
  return state == "held" ? "" : "the lease is \"" + state + "\"";
}

// A fence has a test of its own, fence_test.
std::vector<Operation> OfLeases() {
  return {
      {"AcquireLease", "AcquireLease", Nothing, AcquireLease, IsHeld,
       ReleaseLease},
      {"RenewLease", "RenewLease", AcquireLease,
       [](Agent& agent) {
         return agent.Told(agent.client().RenewLease(LeaseOf(agent)));
       },
       IsHeld, ReleaseLease},
      {"ReleaseLease", "ReleaseLease", AcquireLease, ReleaseLease, LeaseState,
       ReleaseLease},
  };
}

}  // namespace

const std::vector<Operation>& AllOperations() {
  static const std::vector<Operation> all = [] {
    std::vector<Operation> operations;
    for (auto part : {OfAllocations(), OfMounts(), OfVolumes(), OfNetworks(),
                      OfTrees(), OfControllers(), OfStarts()}) {
      std::move(part.begin(), part.end(), std::back_inserter(operations));
    }
    for (auto part : {OfControllersThatRead(), OfTheNode(), OfLeases()}) {
      for (Operation& one : part) {
        one.is_alone = true;
        operations.push_back(std::move(one));
      }
    }
    return operations;
  }();
  return all;
}

std::size_t OverlappingOperations() {
  return static_cast<std::size_t>(
      std::count_if(AllOperations().begin(), AllOperations().end(),
                    [](const Operation& one) { return !one.is_alone; }));
}

std::size_t IndexOf(const std::string& name) {
  const std::vector<Operation>& all = AllOperations();
  return static_cast<std::size_t>(
      std::find_if(all.begin(), all.end(),
                   [&](const Operation& one) { return one.name == name; }) -
      all.begin());
}

const std::vector<Uncounted>& UncountedMethods() {
  static const std::vector<Uncounted> methods = {
      {"Subscribe", "of the connection alone"},
      {"Unsubscribe", "of the connection alone"},
      {"Cancel", "of mountd's memory alone"},
      {"ListOperations", "of mountd's memory alone"},
      {"Reload",
       "replaces the executors, and makes no plan; the child that accepts the "
       "configuration is killed in root/ResidenceTest."
       "AConfigurationOfTheOtherWayIsNotAcceptedWhileItIsUsed"},
      {"GetStatistics", "of mountd's memory alone"},
      {"GetAllocation", "only reads the stores"},
      {"ListAllocations", "only reads the stores"},
      {"GetReceipt", "only reads the stores"},
      {"ListVolumes", "only reads the stores"},
      {"GetPlugin", "only reads the stores"},
      {"ListPlugins", "only reads the stores"},
      {"ListOwed", "only reads the stores"},
      {"ListHostVolumes", "only reads the configuration"},
      {"ListFilesystems", "only reads the configuration"},
      {"ListNetworks",
       "only asks which CNI networks exist, by the plan of GetCapabilities, "
       "which the operation Start counts; it is called in "
       "root/NodeCni.ListNetworksTellsWhatTheUserMayUse"},
      {"ListLeases", "of mountd's memory alone"},
      {"GetFence", "only reads the stores"},
      {"VerifyTask",
       "only reads, of a task in a cgroup; each kernel call of its plan fails "
       "in root/Tasks.EachCallThatFailsIsAnError"},
      {"ListHolders",
       "only reads, of all processes of the machine; each kernel call of its "
       "plan fails in "
       "root/Holders.EachCallThatFailsIsAnErrorOrAnIncompleteAnswer"},
      {"ListHandedOut",
       "only looks, by the plan of ListHolders, and forgets what nobody has; "
       "each kernel call of its plan fails in "
       "root/Holders.EachCallThatFailsIsAnErrorOrAnIncompleteAnswer"},
  };
  return methods;
}

}  // namespace mountd::testing
