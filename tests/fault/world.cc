// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/world.h"

#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "mountd/base/paths.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/temp_directory.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
[host_volume.b]
path = "/run/host/b"
propagation = ["private", "host-to-task", "bidirectional"]
[filesystem.box]
type = "fuse.bindfs"
source = "/run/host/a"
[network.default]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[cni]
config_dirs = ["/run/networks"]
plugin_dirs = ["/run/plugins"]
[[rule]]
users = ["agent"]
host_volumes = ["*"]
filesystems = ["*"]
bidirectional = true
networks = ["*", "cni/net"]
host_ports = ["20000-20999"]
plugins = ["*"]
register_plugins = ["*"]
control_plugins = ["*"]
detached = true
alloc_roots = ["/run/host/alloc"]
ids = ["100000-165535"]
[timeouts]
rpc_ms = 2000
probe_starting_ms = 10
probe_timeout_ms = 2000
)";

constexpr char kPluginDirectory[] = "/run/mountd/base/p/fault";
constexpr char kFaultsOfPlugin[] = "/run/host/fault";

// Reads a copy, because mountd holds the store itself. Counts nothing if the
// store was being written.
void CountRows(const std::string& store, std::map<std::string, int>* rows) {
  const TempDirectory copy("/run");  // a tmpfs, where SQLite waits for no disk
  const std::string name = fs::path(store).filename().string();
  std::error_code error;
  for (const char* suffix : {"", "-wal"}) {
    fs::copy_file(store + suffix, copy.File(name + suffix),
                  fs::copy_options::overwrite_existing, error);
  }
  sqlite3* database = nullptr;
  sqlite3_open(copy.File(name).c_str(), &database);
  std::vector<std::string> tables;
  const auto add = [](void* all, int, char** values, char**) {
    static_cast<std::vector<std::string>*>(all)->emplace_back(values[0]);
    return 0;
  };
  sqlite3_exec(database, "SELECT name FROM sqlite_master WHERE type='table'",
               add, &tables, nullptr);
  for (const std::string& table : tables) {
    std::vector<std::string> count;
    sqlite3_exec(database, ("SELECT count(*) FROM " + table).c_str(), add,
                 &count, nullptr);
    (*rows)[name + " " + table] = count.empty() ? -1 : std::stoi(count[0]);
  }
  sqlite3_close(database);
}

std::string Hex(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

std::string Difference(const World::State& before, const World::State& after) {
  std::string text = Difference(before.inventory, after.inventory) +
                     MoreFds(before.fds, after.fds);
  for (const auto& [table, count] : after.rows) {
    const auto found = before.rows.find(table);
    if (found == before.rows.end() || found->second != count) {
      text += "~ " + table + ": " + std::to_string(count) + " rows, not " +
              (found == before.rows.end() ? "there"
                                          : std::to_string(found->second)) +
              "\n";
    }
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<World>> World::Make(const std::string& timeouts,
                                           int probe_ready_ms) {
  std::unique_ptr<World> world(new World);
  MOUNTD_TRY(world->Start(timeouts, probe_ready_ms));
  return world;
}

Result<void> World::Start(const std::string& timeouts, int probe_ready_ms) {
  ::umask(S_IWGRP | S_IWOTH);
  MakeHostVolumes();
  fs::create_directories(kAllocRoot);
  fs::create_directories(kFaultsOfPlugin);
  if (::chown(kAllocRoot, kAgentUid, kAgentUid) != 0) {
    return ErrnoError(errno, "chown", kAllocRoot);
  }
  CniWorld::Make();
  WriteNetwork("net.conflist", Network("net", {Plugin("first")}));
  MOUNTD_ASSIGN(node_, Node::Start(kConfig +
                                       ("probe_ready_ms = " +
                                        std::to_string(probe_ready_ms)) +
                                       "\n" + timeouts,
                                   STEPPED_PROGRAMS));
  MOUNTD_ASSIGN(agent::Client client, Connect());
  MOUNTD_TRY(client.RegisterPlugin(
      {.plugin = kPlugin, .type = agent::PluginType::kMonolith}));
  MOUNTD_TRY(StartPlugin());
  const bool healthy = Eventually([&] {
    const auto plugin = client.GetPlugin(kPlugin);
    return plugin && plugin->state == "healthy";
  });
  // The first CNI network makes the directories of CNI's records.
  agent::NetworkSpec spec;
  spec.mode = "cni/net";
  MOUNTD_TRY(client.PrepareAllocation("first"));
  MOUNTD_TRY(client.SetupNetwork("first", spec));
  MOUNTD_TRY(client.ReleaseAllocation("first"));
  return healthy ? Ok()
                 : Result<void>(MakeError(Code::kUnavailable, "start", "plugin",
                                          node_->Log()));
}

Result<void> World::StartPlugin() {
  const std::string socket = std::string(kPluginDirectory) + "/csi.sock";
  plugin_ = Process({FAULT_PLUGIN, socket, kFaultsOfPlugin});
  return Ok();
}

void World::Tell(const std::string& rpc, const std::string& action) {
  const std::string faults = std::string(kFaultsOfPlugin) + "/faults";
  if (action.empty()) {
    fs::remove(faults);
    return;
  }
  std::ofstream(faults + ".new") << rpc << " * " << action << "\n";
  fs::rename(faults + ".new", faults);
}

std::string World::DataOf(const std::string& volume) {
  return std::string(kFaultsOfPlugin) + "/data/" + Hex(volume);
}

bool World::HasMade(const std::string& volume) {
  return fs::exists(DataOf(volume));
}

bool World::HasAttached(const std::string& volume, const std::string& node) {
  return fs::exists(std::string(kFaultsOfPlugin) + "/attached/" + Hex(volume) +
                    "." + node);
}

World::State World::Take() {
  State state{Inventory::Take(), TakeDaemonFds(), {}};
  // This process's connections and the daemons' own files come and go.
  std::erase_if(state.inventory.items, [](const std::string& item) {
    return item.starts_with("fd ") || item.starts_with("file /run/log") ||
           item.starts_with("file /run/host/fault/");
  });
  CountRows(paths::kBootStore, &state.rows);
  CountRows(paths::kStateStore, &state.rows);
  // These rows are kept on purpose when all is over.
  state.rows.erase("state.db receipts");
  state.rows.erase("state.db receipt_volumes");
  state.rows.erase("state.db sqlite_sequence");
  // Kept until mountd has looked for holders.
  state.rows.erase("boot.db handed_out");
  return state;
}

World::State World::TakeSettled() {
  constexpr int kEnough = 3;
  State last;
  // Links disappear after their namespaces, and only then are their addresses
  // free.
  for (int same = 0; same < kEnough;) {
    State now = Take();
    const bool is_same = now.inventory.items == last.inventory.items &&
                         now.rows == last.rows &&
                         now.rows["boot.db quarantine"] == 0;
    same = is_same ? same + 1 : 0;
    last = std::move(now);
  }
  return last;
}

std::string World::DifferenceTo(const State& before) {
  std::string difference;
  Eventually([&] {
    difference = Difference(before, Take());
    return difference.empty();
  });
  return difference;
}

agent::Client& Agent::client() {
  while (!client_) {
    auto client = world_.Connect();
    if (client) {
      client_.emplace(*std::move(client));
    }
  }
  return *client_;
}

agent::Client& Agent::root() {
  while (!root_) {
    auto client = world_.ConnectAsRoot();
    if (client) {
      root_.emplace(*std::move(client));
    }
  }
  return *root_;
}

Result<agent::AllocationStatus> Agent::Status() {
  Result<agent::AllocationStatus> status = client().GetAllocation(allocation_);
  Eventually([&] {
    const std::string told = Told(status);
    if (told == "Ok" || told == "NotFound") {
      return true;
    }
    status = client().GetAllocation(allocation_);
    return false;
  });
  return status;
}

std::string Agent::Contradiction() {
  const auto status = Status();
  if (!status) {
    return Told(status) == "NotFound" ? "" : "not told: " + told_;
  }
  const auto owed = client().ListOwed();
  if (!owed) {
    return "not told of what is owed: " + Told(owed);
  }
  std::multiset<std::string> recorded;
  for (const agent::MountStatus& mount : status->mounts) {
    recorded.insert(mount.config.host_path);
  }
  std::multiset<std::string> there;
  for (const std::string& point :
       MountPointsUnder("/run/mountd/base/a/" + allocation_)) {
    there.insert(point);
  }
  std::string text;
  for (const std::string& point : there) {
    if (!recorded.contains(point) && owed->empty()) {
      text += point + " is mounted and not recorded; ";
    }
  }
  for (const agent::MountStatus& mount : status->mounts) {
    const std::string& path = mount.config.host_path;
    if (mount.state == "attached" && path.starts_with("/run/mountd/") &&
        !there.contains(path)) {
      text += path + " is recorded and not mounted; ";
    }
  }
  for (const agent::NetworkStatus& network : status->networks) {
    struct stat st = {};
    if (network.mode != "host" &&
        (::stat(network.netns_path.c_str(), &st) != 0 ||
         st.st_ino != network.netns_inode)) {
      text += network.netns_path + " is recorded and not there; ";
    }
  }
  return text;
}

std::string Agent::HalfDone() {
  const auto status = Status();
  if (!status) {
    return Told(status) == "NotFound" ? "" : "not told: " + told_;
  }
  std::string text =
      status->state == "prepared" ? "" : "it is " + status->state + "; ";
  for (const agent::MountStatus& mount : status->mounts) {
    if (mount.state != "attached") {
      text += "mount " + mount.name + " is " + mount.state + "; ";
    }
  }
  for (const agent::VolumeStatus& volume : status->volumes) {
    if (volume.state != "published") {
      text += "volume " + volume.alias + " is " + volume.state + "; ";
    }
  }
  return text;
}

std::string Agent::Release() {
  std::string told;
  if (!Eventually([&] {
        told = Told(client().ReleaseAllocation(allocation_));
        // Some allocations never existed.
        return told == "Ok" || told == "NotFound";
      })) {
    return "the release: " + told_;
  }
  std::string left;
  Eventually([&] {
    left.clear();
    const auto owed = client().ListOwed();
    if (!owed) {
      left = Told(owed);
      return false;
    }
    for (const agent::OwedTeardown& one : *owed) {
      left += one.kind + " " + one.object + " is owed: " + one.reason + "; ";
    }
    return left.empty();
  });
  return left;
}

}  // namespace mountd::testing
