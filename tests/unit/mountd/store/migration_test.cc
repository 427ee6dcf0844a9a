// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Stores of each schema version, with rows in each table (schemas/*.sql, as
// `sqlite3 FILE .dump` prints them). Their content is there after an upgrade,
// and columns that a version did not know have their intended meaning. Each new
// version of a schema needs a file here.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"
#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd::store {
namespace {

// The versions of this release; schemas/ has a store of each earlier one.
constexpr int kStateVersions = 15;
constexpr int kBootVersions = 15;

struct CloseRaw {
  void operator()(sqlite3* database) const { sqlite3_close(database); }
};
using RawDatabase = std::unique_ptr<sqlite3, CloseRaw>;

RawDatabase OpenRaw(const std::string& path) {
  sqlite3* raw = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
  return RawDatabase(raw);
}

std::string TextOf(const std::string& name) {
  std::ifstream file(std::string(SCHEMAS_DIR) + "/" + name + ".sql");
  EXPECT_TRUE(file) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns the statement that makes each table or index, and the version.
std::map<std::string, std::string> SchemaOf(const std::string& path) {
  std::map<std::string, std::string> all;
  const RawDatabase raw = OpenRaw(path);
  const auto each = [](void* to, int, char** values, char**) {
    auto& map = *static_cast<std::map<std::string, std::string>*>(to);
    map[values[0]] = values[1] == nullptr ? "" : values[1];
    return 0;
  };
  for (const char* sql : {"SELECT name, sql FROM sqlite_schema",
                          "SELECT 'version', user_version FROM "
                          "pragma_user_version"}) {
    EXPECT_EQ(sqlite3_exec(raw.get(), sql, each, &all, nullptr), SQLITE_OK);
  }
  return all;
}

class Migration : public ::testing::TestWithParam<int> {
 protected:
  // Makes a store as that version left it.
  void Make(const std::string& kind) {
    const RawDatabase raw = OpenRaw(path_);
    char* error = nullptr;
    ASSERT_EQ(
        sqlite3_exec(raw.get(),
                     TextOf(kind + "_" + std::to_string(GetParam())).c_str(),
                     nullptr, nullptr, &error),
        SQLITE_OK)
        << error;
  }
  static int version() { return GetParam(); }

  TempDirectory directory_;
  const std::string path_ = directory_.File("store.db");
  const std::string fresh_ = directory_.File("fresh.db");
};

class StateMigration : public Migration {
 protected:
  void SetUp() override {
    Make("state");
    Open();
  }
  void Open(const std::string& boot = "boot 1") {
    store_.reset();
    auto opened = StateStore::Open(path_, boot);
    ASSERT_EQ(MessageOf(opened), "Ok");
    store_ = *std::move(opened);
  }
  const VolumeKey key_ = VolumeKey::Derive("csi", "vol/1");
  std::unique_ptr<StateStore> store_;
};

TEST_P(StateMigration, HasTheSchemaOfAFreshStore) {
  ASSERT_EQ(MessageOf(StateStore::Open(fresh_, "boot 1")), "Ok");
  store_.reset();
  EXPECT_EQ(SchemaOf(path_), SchemaOf(fresh_));
  EXPECT_EQ(SchemaOf(path_).at("version"), std::to_string(kStateVersions));
}

TEST_P(StateMigration, KeepsAllocationsReceiptsAndDebts) {
  const auto all = store_->allocations.ListAllocations();
  ASSERT_TRUE(all && all->size() == 2U);
  EXPECT_EQ(all->at(0).state, AllocationState::kReleasing);
  const AllocationRecord& web = all->at(1);
  EXPECT_EQ(web.id, "web");
  EXPECT_EQ(web.uid, 1000U);
  EXPECT_EQ(web.gid, 100U);
  EXPECT_EQ(web.scope, "prod");
  EXPECT_EQ(web.cgroup, version() >= 2 ? 77U : 0U);
  EXPECT_EQ(web.lease_required, version() >= 9);
  EXPECT_EQ(web.group, version() >= 12 ? 100000U : 0U);
  const auto receipt = store_->allocations.GetReceipt("old");
  ASSERT_TRUE(receipt && *receipt);
  EXPECT_EQ((*receipt)->serial, 7U);
  EXPECT_EQ((*receipt)->released_at_us, 1'700'000'000'000'000U);
  ASSERT_EQ((*receipt)->volumes.size(), 1U);
  EXPECT_EQ((*receipt)->volumes[0].volume_id, "vol/9");
  EXPECT_TRUE((*receipt)->volumes[0].unstaged);
  EXPECT_FALSE((*receipt)->volumes[0].owed);
  EXPECT_EQ((*receipt)->request_id, version() >= 8 ? "r-1" : "");
  EXPECT_EQ((*receipt)->traceparent.empty(), version() < 8);
  const auto owed = store_->owed.ListOwed();
  ASSERT_TRUE(owed && owed->size() == 1U);
  EXPECT_EQ(owed->at(0).id, 3U);
  EXPECT_EQ(owed->at(0).kind, OwedKind::kRelease);
  EXPECT_EQ(owed->at(0).object, "db");
  EXPECT_EQ(owed->at(0).attempts, 4U);
}

TEST_P(StateMigration, KeepsPlugins) {
  const auto plugins = store_->plugins.ListPlugins();
  ASSERT_TRUE(plugins && plugins->size() == 1U);
  const PluginRecord& plugin = plugins->front();
  EXPECT_EQ(plugin.id, "csi");
  EXPECT_EQ(plugin.type, "node");
  EXPECT_EQ(plugin.uid, 1000U);
  EXPECT_EQ(plugin.allocation, "plug");
  EXPECT_EQ(plugin.mount_dir, "/csi");
  EXPECT_EQ(plugin.serial, 1U);
  EXPECT_EQ(plugin.stage_publish_base_dir, version() >= 3 ? "/stage" : "");
  EXPECT_EQ(plugin.health_timeout_ms, version() >= 3 ? 1500U : 0U);
  EXPECT_EQ(plugin.bare_directories, version() >= 3);
  EXPECT_EQ(plugin.declared, version() >= 4);
  const auto former = store_->plugins.ListFormerNodeIds();
  ASSERT_TRUE(former);
  EXPECT_EQ(former->size(), version() >= 10 ? 1U : 0U);
  const auto removed = store_->plugins.ListRemovedNodeIds();
  ASSERT_TRUE(removed);
  EXPECT_TRUE(removed->empty());
}

TEST_P(StateMigration, KeepsLeasesAndFences) {
  const auto leases = store_->leases.ListLeases();
  ASSERT_TRUE(leases);
  EXPECT_EQ(leases->size(), version() >= 9 ? 1U : 0U);
  const auto fences = store_->leases.ListFences();
  ASSERT_TRUE(fences);
  ASSERT_EQ(fences->size(), version() >= 9 ? 2U : 0U);
  if (version() >= 9) {
    EXPECT_EQ(fences->at(0).allocation, "going");
    EXPECT_EQ(fences->at(0).state, FenceState::kBegun);
    EXPECT_EQ(fences->at(1).state, FenceState::kDone);
  }
  // An earlier mountd told a fence when it was done. One that ends later has
  // still to be told.
  EXPECT_TRUE(store_->leases.UsersToTell()->empty());
  FenceRecord going;
  going.allocation = "going";
  going.lease = {1000, "old lease"};
  going.state = FenceState::kDone;
  ASSERT_EQ(MessageOf(store_->leases.PutFence(going)), "Ok");
  EXPECT_EQ(*store_->leases.UsersToTell(), std::set<std::uint32_t>{1000});
}

TEST_P(StateMigration, KeepsVolumesAndTheirUsers) {
  const auto volume = store_->volumes.GetVolume(key_);
  ASSERT_TRUE(volume && *volume);
  EXPECT_EQ((*volume)->state, VolumeState::kStaged);
  EXPECT_EQ((*volume)->access_mode, 5);
  EXPECT_EQ((*volume)->fs_type, "ext4");
  EXPECT_EQ((*volume)->capability_digest, "d1");
  EXPECT_EQ((*volume)->publish_context, (StringMap{{"a", "1"}}));
  EXPECT_EQ((*volume)->volume_context, (StringMap{{"b", "2"}}));
  EXPECT_EQ((*volume)->uid, 1000U);
  EXPECT_EQ((*volume)->block, version() >= 5);
  EXPECT_EQ((*volume)->volume_mount_group, version() >= 5 ? "77" : "");
  EXPECT_EQ((*volume)->needs, version() >= 5 ? 3U : 0U);
  const auto users = store_->volumes.UsersOf(key_);
  ASSERT_TRUE(users && users->size() == 1U);
  EXPECT_EQ(users->front().allocation, "web");
  EXPECT_EQ(users->front().alias, "data");
  EXPECT_TRUE(users->front().read_only);
  EXPECT_EQ(users->front().state, PublicationState::kPublished);
  EXPECT_EQ(users->front().mount_id, 4711U);
  EXPECT_EQ(users->front().device, version() >= 5 ? 2049U : 0U);
  // Tasks may have had mounts of the volume before mountd recorded that.
  EXPECT_TRUE(users->front().was_published);
  const auto departed = store_->volumes.DepartedFrom(key_);
  ASSERT_TRUE(departed);
  EXPECT_EQ(departed->size(), version() >= 5 ? 1U : 0U);
}

// The records that were kept are usable, in the next boot, too.
TEST_P(StateMigration, GoesOnFromThere) {
  Open("boot 2");
  const auto users = store_->volumes.UsersOf(key_);
  ASSERT_TRUE(users && users->size() == 1U);
  EXPECT_EQ(users->front().state, PublicationState::kUncertain);
  ASSERT_EQ(MessageOf(store_->volumes.RemovePublication(users->front(),
                                                        /*volume_too=*/false)),
            "Ok");
  ReceiptRecord receipt;
  receipt.allocation = "web";
  receipt.uid = 1000;
  const auto finished =
      store_->allocations.FinishAllocation(std::move(receipt));
  ASSERT_EQ(MessageOf(finished), "Ok");
  EXPECT_EQ(finished->serial, 8U);
  ASSERT_GE(finished->volumes.size(), 1U);
  EXPECT_EQ(finished->volumes[0].volume_id, "vol/0");
  EXPECT_TRUE(finished->volumes[0].unstaged);
}

INSTANTIATE_TEST_SUITE_P(Versions, StateMigration,
                         ::testing::Range(1, kStateVersions));

class BootMigration : public Migration {
 protected:
  void SetUp() override {
    Make("boot");
    auto opened = BootStore::Open(path_);
    ASSERT_EQ(MessageOf(opened), "Ok");
    store_ = *std::move(opened);
  }
  std::unique_ptr<BootStore> store_;
};

TEST_P(BootMigration, HasTheSchemaOfAFreshStore) {
  ASSERT_EQ(MessageOf(BootStore::Open(fresh_)), "Ok");
  store_.reset();
  EXPECT_EQ(SchemaOf(path_), SchemaOf(fresh_));
  EXPECT_EQ(SchemaOf(path_).at("version"), std::to_string(kBootVersions));
}

TEST_P(BootMigration, KeepsMounts) {
  const auto data = store_->mounts.GetMount("web", "app", "data");
  ASSERT_TRUE(data && *data);
  EXPECT_EQ((*data)->wish.source_kind, exec::SourceKind::kHostVolume);
  EXPECT_EQ((*data)->wish.source, "vol");
  EXPECT_EQ((*data)->wish.propagation, exec::Propagation::kHostToTask);
  EXPECT_EQ((*data)->wish.attributes, 1U);
  EXPECT_EQ((*data)->wish.task_path, "/data");
  EXPECT_EQ((*data)->state, MountRecordState::kAttached);
  EXPECT_EQ((*data)->peer_group, 5U);
  EXPECT_EQ((*data)->master, 6U);
  EXPECT_EQ((*data)->wish.ids.count, version() >= 3 ? 1U : 0U);
  EXPECT_EQ((*data)->source_group, version() >= 6 ? 9U : 0U);
  EXPECT_EQ((*data)->uid, version() >= 6 ? 1000U : 0U);
  EXPECT_EQ((*data)->wish.target_kind, exec::TargetKind::kInbox);
  EXPECT_EQ((*data)->wish.place, version() >= 6 ? "place" : "");
  const auto by_id = store_->mounts.FindMount(4711);
  ASSERT_TRUE(by_id && *by_id);
  EXPECT_EQ((*by_id)->name, "data");
  const auto tmp = store_->mounts.GetMount("web", "app", "tmp");
  ASSERT_TRUE(tmp && *tmp);
  EXPECT_EQ((*tmp)->state, MountRecordState::kAttaching);
  EXPECT_EQ((*tmp)->wish.tmpfs.bytes, version() >= 2 ? 4096U : 0U);
  EXPECT_EQ(*store_->mounts.TmpfsBytesOf("web"), version() >= 2 ? 4096U : 0U);
  EXPECT_EQ(*store_->mounts.CountMounts("web"), 2U);
}

TEST_P(BootMigration, KeepsAnchorsAndInboxes) {
  const auto anchors = store_->anchors.ListAnchors();
  ASSERT_TRUE(anchors);
  EXPECT_EQ(*anchors, (std::map<AnchorKey, std::uint64_t>{
                          {{exec::SourceKind::kHostVolume, "vol"}, 42}}));
  const auto inboxes = store_->inboxes.InboxesOf("web");
  ASSERT_TRUE(inboxes);
  EXPECT_EQ(inboxes->size(), version() >= 6 ? 1U : 0U);
}

TEST_P(BootMigration, KeepsWhatWasHandedOut) {
  const auto all = store_->handed_out.HandedOutOf("web");
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), version() >= 11 ? 1U : 0U);
  for (const HandedOutRecord& record : *all) {
    EXPECT_EQ(record.mount.mount_id, 4712U);
    EXPECT_EQ(record.mount.reusable_id, 43U);
    EXPECT_EQ(record.mount.device, 2049U);
    EXPECT_EQ(record.uid, 1000U);
    EXPECT_EQ(record.kind, HandedOutKind::kInbox);
    EXPECT_EQ(record.name, "app");
  }
}

TEST_P(BootMigration, KeepsNetworksAndWhatIsDying) {
  const auto networks = store_->networks.NetworksOf("web");
  ASSERT_TRUE(networks && networks->size() == 1U);
  const NetworkRecord& network = networks->front();
  EXPECT_EQ(network.interface, "eth0");
  EXPECT_EQ(network.mode, NetworkMode::kBridge);
  EXPECT_EQ(network.network, "default");
  EXPECT_EQ(netns::ToString(network.ipv4), "10.88.0.2");
  EXPECT_EQ(netns::ToString(network.ipv6), "fd00::2");
  EXPECT_EQ(network.state, NetworkRecordState::kCreated);
  EXPECT_EQ(network.netns_inode, 4026532000U);
  // The default route led to the only network that there was.
  EXPECT_EQ(network.flags, version() >= 8
                               ? exec::kIsolated | exec::kDefaultRoute
                               : std::uint32_t{exec::kDefaultRoute});
  EXPECT_EQ(network.netns_given, version() >= 8);
  EXPECT_EQ(network.files.hostname, version() >= 8 ? "host" : "");
  EXPECT_FALSE(network.taken_over);
  ASSERT_EQ(network.ports.size(), 1U);
  EXPECT_EQ(network.ports[0].label, "http");
  EXPECT_EQ(network.ports[0].host_port, 8080U);
  EXPECT_EQ(network.ports[0].container_port, 80U);
  EXPECT_EQ(network.ports[0].count, version() >= 8 ? 2U : 1U);
  const auto dying = store_->networks.ListQuarantine();
  ASSERT_TRUE(dying && dying->size() == 1U);
  EXPECT_EQ(netns::ToString(dying->front().ipv4), "10.88.0.3");
  EXPECT_EQ(netns::ToString(dying->front().ipv6),
            version() >= 8 ? "fd00::3" : "::");
  ASSERT_EQ(MessageOf(store_->networks.QuarantineNetwork(network)), "Ok");
  EXPECT_TRUE(store_->networks.ListNetworks()->empty());
  EXPECT_EQ(store_->networks.ListQuarantine()->size(), 2U);
}

INSTANTIATE_TEST_SUITE_P(Versions, BootMigration,
                         ::testing::Range(1, kBootVersions));

}  // namespace
}  // namespace mountd::store
