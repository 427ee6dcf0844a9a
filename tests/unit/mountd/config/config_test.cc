// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/outcome.h"
#include "tests/support/temp_directory.h"

namespace mountd {
namespace {

using exec::Propagation;
using std::chrono::milliseconds;

Result<Config> Parse(const std::string& text) {
  return ParseConfig(text, "mountd.toml");
}

constexpr char kEverything[] = R"(
[host_volume.data]
path = "/srv/data"
read_only = true
users = ["root", "65534"]
propagation = ["private", "host-to-task", "bidirectional"]

[host_volume.plain]
path = "/srv/plain"

[filesystem.homes]
type = "nfs4"
source = "server:/homes"
options = ["soft", "timeo=50", "sec=krb5p", "noexec"]
read_only = true
propagation = ["host-to-task"]
users = ["root"]

[filesystem.image]
type = "ext4"
source = "/srv/image"

[network.default]
ipv4 = "10.88.0.0/16"
ipv6 = "fd88::/64"
mtu = 1400

[network.four]
ipv4 = "10.89.0.0/24"

[[rule]]
users = ["root", "nobody"]
groups = ["root"]
host_volumes = ["data", "plain:ro", "*:ro"]
filesystems = ["homes:ro"]
plugins = ["nfs"]
register_plugins = ["*"]
control_plugins = ["ebs"]
networks = ["default"]
host_ports = ["80", "20000-32000"]
cgroups = ["/nomad.slice"]
alloc_roots = ["/var/lib/nomad/alloc", "/srv/alloc"]
ids = ["1000", "100000-165535"]
bidirectional = true
containers = true
container_tmpfs = true
root_as_caller = true
stop_tasks = "freeze"
administer = true

[[rule]]
users = ["root"]

[limits]
peers_per_uid = 1
allocations_per_uid = 2
operations_per_uid = 3
plugins_per_uid = 6
mounts_per_allocation = 4
mounts_per_plugin = 9
tmpfs_bytes = 0
tmpfs_bytes_per_allocation = 8589934592
network_file_bytes_per_uid = 21
propagated_directories_per_uid = 25
leases_per_uid = 23
namespaces_per_uid = 22
mount_executors = 5
mount_reserve = 7

[timeouts]
plan_ms = 11
rpc_ms = 12
patience_ms = 13
probe_starting_ms = 14
probe_ready_ms = 15
plugin_health_ms = 19
probe_timeout_ms = 16
probe_mounts_ms = 17
probe_volumes_ms = 21
owed_warning_ms = 20
lease_grace_ms = 24
probe_answer_ms = 18
)";

TEST(ConfigTest, MountsAreTheHostsUnlessItSaysOtherwise) {
  EXPECT_FALSE(Parse("")->mounts.own_namespace);
  EXPECT_FALSE(Parse("[mounts]")->mounts.own_namespace);
  EXPECT_FALSE(Parse("[mounts]\nnamespace = \"host\"")->mounts.own_namespace);
  EXPECT_TRUE(Parse("[mounts]\nnamespace = \"own\"")->mounts.own_namespace);
}

TEST(ConfigTest, HostVolumes) {
  const auto config = Parse(kEverything);
  ASSERT_EQ(MessageOf(config), "Ok");
  ASSERT_EQ(config->host_volumes.size(), 2U);
  const HostVolumeConfig& data = config->host_volumes.at("data");
  EXPECT_EQ(data.path, "/srv/data");
  EXPECT_TRUE(data.read_only);
  EXPECT_EQ(data.uids, (std::vector<std::uint32_t>{0, 65534}));
  EXPECT_EQ(data.propagation,
            (std::vector{Propagation::kPrivate, Propagation::kHostToTask,
                         Propagation::kBidirectional}));
  const HostVolumeConfig& plain = config->host_volumes.at("plain");
  EXPECT_FALSE(plain.read_only);
  EXPECT_EQ(plain.propagation, std::vector{Propagation::kPrivate});
}

TEST(ConfigTest, Filesystems) {
  const auto config = Parse(kEverything);
  ASSERT_EQ(MessageOf(config), "Ok");
  ASSERT_EQ(config->filesystems.size(), 2U);
  const FilesystemConfig& homes = config->filesystems.at("homes");
  EXPECT_EQ(homes.type, "nfs4");
  EXPECT_EQ(homes.source, "server:/homes");
  EXPECT_EQ(homes.options, (std::vector<std::string>{"soft", "timeo=50",
                                                     "sec=krb5p", "noexec"}));
  EXPECT_TRUE(homes.read_only);
  EXPECT_EQ(homes.propagation, std::vector{Propagation::kHostToTask});
  EXPECT_EQ(homes.uids, std::vector<std::uint32_t>{0});
  const FilesystemConfig& image = config->filesystems.at("image");
  EXPECT_TRUE(image.options.empty() && image.uids.empty());
  EXPECT_FALSE(image.read_only);
  EXPECT_EQ(image.propagation, std::vector{Propagation::kPrivate});
}

TEST(ConfigTest, Networks) {
  const auto config = Parse(kEverything);
  ASSERT_EQ(MessageOf(config), "Ok");
  ASSERT_EQ(config->networks.size(), 2U);
  const NetworkConfig& both = config->networks.at("default");
  EXPECT_EQ(netns::ToString(both.ipv4.at(0).base), "10.88.0.0");
  EXPECT_EQ(both.ipv4.at(0).prefix, 16);
  EXPECT_EQ(netns::ToString(both.ipv6.at(0).base), "fd88::");
  EXPECT_EQ(both.ipv6.at(0).prefix, 64);
  EXPECT_EQ(both.mtu, 1400U);
  const NetworkConfig& four = config->networks.at("four");
  EXPECT_TRUE(four.ipv6.empty());
  EXPECT_EQ(four.mtu, 0U);
}

TEST(ConfigTest, Rules) {
  const auto config = Parse(kEverything);
  ASSERT_EQ(MessageOf(config), "Ok");
  ASSERT_EQ(config->rules.size(), 2U);
  using Texts = std::vector<std::string>;
  const RuleConfig& rule = config->rules[0];
  EXPECT_EQ(rule.uids, (std::vector<std::uint32_t>{0, 65534}));
  EXPECT_EQ(rule.gids, std::vector<std::uint32_t>{0});
  EXPECT_EQ(rule.host_volumes, (Texts{"data", "plain:ro", "*:ro"}));
  EXPECT_EQ(rule.filesystems, Texts{"homes:ro"});
  EXPECT_EQ(rule.plugins, Texts{"nfs"});
  EXPECT_EQ(rule.register_plugins, Texts{"*"});
  EXPECT_EQ(rule.control_plugins, Texts{"ebs"});
  EXPECT_EQ(rule.networks, Texts{"default"});
  ASSERT_EQ(rule.host_ports.size(), 2U);
  EXPECT_EQ(rule.host_ports[0].first, 80);
  EXPECT_EQ(rule.host_ports[0].last, 80);
  EXPECT_EQ(rule.host_ports[1].first, 20000);
  EXPECT_EQ(rule.host_ports[1].last, 32000);
  EXPECT_EQ(rule.cgroups, std::vector<std::string>{"/nomad.slice"});
  EXPECT_TRUE(rule.containers);
  EXPECT_TRUE(rule.container_tmpfs);
  EXPECT_TRUE(rule.root_as_caller);
  EXPECT_EQ(rule.alloc_roots, (Texts{"/var/lib/nomad/alloc", "/srv/alloc"}));
  ASSERT_EQ(rule.ids.size(), 2U);
  EXPECT_TRUE(Contains(rule.ids, 1000) && Contains(rule.ids, 100000) &&
              Contains(rule.ids, 165535));
  EXPECT_FALSE(Contains(rule.ids, 1001) || Contains(rule.ids, 99999) ||
               Contains(rule.ids, 165536));
  EXPECT_TRUE(rule.bidirectional);
  EXPECT_EQ(rule.stop_tasks, exec::TaskStop::kFreeze);
  EXPECT_EQ(config->rules[1].stop_tasks, exec::TaskStop::kNo);
  EXPECT_TRUE(rule.administer);
  // A rule allows only what it says.
  const RuleConfig& bare = config->rules[1];
  EXPECT_TRUE(bare.host_volumes.empty() && bare.plugins.empty() &&
              bare.register_plugins.empty() && bare.control_plugins.empty() &&
              bare.networks.empty() && bare.host_ports.empty() &&
              bare.alloc_roots.empty());
  EXPECT_FALSE(bare.bidirectional || bare.administer || bare.root_as_caller);
}

TEST(ConfigTest, LimitsAndTimeouts) {
  const auto config = Parse(kEverything);
  ASSERT_EQ(MessageOf(config), "Ok");
  EXPECT_EQ(config->limits.peers_per_uid, 1U);
  EXPECT_EQ(config->limits.allocations_per_uid, 2U);
  EXPECT_EQ(config->limits.operations_per_uid, 3U);
  EXPECT_EQ(config->limits.plugins_per_uid, 6U);
  EXPECT_EQ(config->limits.mounts_per_allocation, 4U);
  EXPECT_EQ(config->limits.mounts_per_plugin, 9U);
  EXPECT_EQ(config->limits.tmpfs_bytes, 0U);
  EXPECT_EQ(config->limits.tmpfs_bytes_per_allocation, std::uint64_t{8} << 30U);
  EXPECT_EQ(config->limits.network_file_bytes_per_uid, 21U);
  EXPECT_EQ(config->limits.namespaces_per_uid, 22U);
  EXPECT_EQ(config->limits.mount_executors, 5U);
  EXPECT_EQ(config->timeouts.plan, milliseconds(11));
  EXPECT_EQ(config->timeouts.rpc, milliseconds(12));
  EXPECT_EQ(config->timeouts.patience, milliseconds(13));
  EXPECT_EQ(config->timeouts.probe_starting, milliseconds(14));
  EXPECT_EQ(config->timeouts.probe_ready, milliseconds(15));
  EXPECT_EQ(config->timeouts.plugin_health, milliseconds(19));
  EXPECT_EQ(config->timeouts.probe_timeout, milliseconds(16));
  EXPECT_EQ(config->limits.mount_reserve, 7U);
  EXPECT_EQ(config->timeouts.probe_mounts, milliseconds(17));
  EXPECT_EQ(config->timeouts.probe_volumes, milliseconds(21));
  EXPECT_EQ(config->timeouts.lease_grace, milliseconds(24));
  EXPECT_EQ(config->limits.leases_per_uid, 23U);
  EXPECT_EQ(config->limits.propagated_directories_per_uid, 25U);
  EXPECT_EQ(config->timeouts.probe_answer, milliseconds(18));
  EXPECT_EQ(config->timeouts.owed_warning, milliseconds(20));
}

TEST(ConfigTest, NothingIsAllowedByAnEmptyFile) {
  const auto config = Parse("");
  ASSERT_EQ(MessageOf(config), "Ok");
  EXPECT_TRUE(config->rules.empty() && config->host_volumes.empty() &&
              config->networks.empty());
  EXPECT_EQ(config->limits.allocations_per_uid, 1000U);
  EXPECT_EQ(config->limits.mounts_per_plugin, 10'000U);
  EXPECT_EQ(config->timeouts.patience, milliseconds(20'000));
}

struct Bad {
  std::string name;
  std::string text;
  std::string says;  // the line, and the error
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class BadConfigTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadConfigTest, IsRefusedWithItsKeyAndLine) {
  const auto config = Parse(GetParam().text);
  EXPECT_EQ(Outcome(config), "InvalidArgument");
  EXPECT_NE(MessageOf(config).find(GetParam().says), std::string::npos)
      << MessageOf(config);
}

std::string WithRule(const std::string& line) {
  return "[[rule]]\nusers = [\"root\"]\n" + line;
}
std::string WithVolume(const std::string& lines) {
  return "[host_volume.data]\n" + lines;
}
std::string WithPath(const std::string& path) {
  return WithVolume("path = \"" + path + "\"");
}

std::string WithFilesystem(const std::string& type, const std::string& source,
                           const std::string& lines = "") {
  return "[filesystem.f]\ntype = \"" + type + "\"\nsource = \"" + source +
         "\"\n" + lines;
}

constexpr char kPath[] = "mountd.toml:2: host_volume.data.path";

// clang-format off
const Bad kBad[] = {
  {"Syntax", "\n[limits\n", "mountd.toml:2"},
  {"UnknownSection", "\n[nonsense]\n", "mountd.toml:2: nonsense: is not a known key"},
  {"NobodysVolume", WithPath("/x") + "\nusers = []", "mountd.toml:3: host_volume.data.users: must name"},
  {"UnknownOwner", WithPath("/x") + "\nusers = [\"no such\"]", "mountd.toml:3: host_volume.data.users: \"no such\""},
  {"UnknownKeyOfAVolume", WithPath("/x") + "\nro = true", "mountd.toml:3: host_volume.data.ro: is not a known key"},
  {"UnknownKeyOfANetwork", "[network.n]\nipv4 = \"10.0.0.0/8\"\nv6 = \"\"", "mountd.toml:3: network.n.v6: is not a known key"},
  {"TasksStoppedAnotherWay", WithRule("stop_tasks = \"burn\""), "mountd.toml:3: rule.stop_tasks: must be \"no\", \"freeze\" or \"kill\""},
  {"UnknownKeyOfARule", WithRule("admin = true"), "mountd.toml:3: rule.admin: is not a known key"},
  {"UnknownLimit", "[limits]\npeers = 3", "mountd.toml:2: limits.peers: is not a known key"},
  {"UnknownKeyOfAPlugin", "[plugin.p]\nuser = \"x\"", "mountd.toml:2: plugin.p.user: is not a known key"},
  {"PluginWithoutType", "[plugin.p]\ncommand = [\"/x\"]", "plugin.p.type: must be one of"},
  {"PluginWithoutCommand", "[plugin.p]\ntype = \"node\"", "plugin.p.command: must begin with a program"},
  {"PluginsRelativeCommand", "[plugin.p]\ntype = \"node\"\ncommand = [\"x\"]", "mountd.toml:3: plugin.p.command"},
  {"PluginsControlCharacter", "[plugin.p]\ntype = \"node\"\ncommand = [\"/x\", \"\\n\"]", "mountd.toml:3: plugin.p.command: an argument"},
  {"PluginsRestart", "[plugin.p]\ntype = \"node\"\ncommand = [\"/x\"]\nrestart = \"now\"", "mountd.toml:4: plugin.p.restart"},
  {"PluginThatIsNoUnit", "[plugin.\"a[b]\"]\ntype = \"node\"\ncommand = [\"/x\"]", "must be a valid unit name"},
  {"UnknownTimeout", "[timeouts]\nplan = 3", "mountd.toml:2: timeouts.plan: is not a known key"},
  {"NoPath", "[host_volume.data]\nread_only = true", "mountd.toml:1: host_volume.data.path"},
  {"RelativePath", WithPath("srv"), kPath},
  {"RootPath", WithPath("/"), kPath},
  {"PathUp", WithPath("/a/../b"), kPath},
  {"PathDot", WithPath("/a/./b"), kPath},
  {"PathEmptyPart", WithPath("/a//b"), kPath},
  {"PathSlash", WithPath("/a/"), kPath},
  {"PathNul", WithPath("/a\\u0000b"), kPath},
  {"PathNumber", WithVolume("path = 3"), "mountd.toml:2: host_volume.data.path: has the wrong type"},
  {"ReadOnlyText", WithPath("/x") + "\nread_only = \"yes\"", "mountd.toml:3: host_volume.data.read_only: has the wrong type"},
  {"UnknownPropagation", WithPath("/x") + "\npropagation = [\"shared\"]", "mountd.toml:3: host_volume.data.propagation: \"shared\""},
  {"PropagationText", WithPath("/x") + "\npropagation = \"private\"", "mountd.toml:3: host_volume.data.propagation: must be an array"},
  {"VolumeName", "[host_volume.\"a/b\"]\npath = \"/x\"", "mountd.toml:1: host_volume: \"a/b\" is not a valid name"},
  {"VolumeIsNoTable", "[host_volume]\ndata = \"/x\"", "mountd.toml:2: host_volume.data"},
  {"NamespaceOfAnother", "[mounts]\nnamespace = \"/proc/1/ns/mnt\"", "mountd.toml:2: mounts.namespace: must be host or own"},
  {"NamespaceAsANumber", "[mounts]\nnamespace = 1", "mountd.toml:2: mounts.namespace: has the wrong type"},
  {"MountsOther", "[mounts]\nbase = \"/srv\"", "mountd.toml:2: mounts.base: "},
  {"VolumesAreNoTable", "host_volume = 3", "mountd.toml:1: host_volume: must be a table"},
  {"NoAddresses", "[network.n]\nmtu = 1500", "network.n.ipv4: must name a range of addresses, or ipv6 must"},
  {"Ipv4HostBits", "[network.n]\nipv4 = \"10.0.0.1/24\"", "network.n.ipv4: must have no host bits set"},
  {"Ipv6Prefix", "[network.n]\nipv4 = \"10.0.0.0/24\"\nipv6 = \"fd00::/16\"", "network.n.ipv6: its prefix must be"},
  {"SmallMtu", "[network.n]\nipv4 = \"10.0.0.0/24\"\nmtu = 1279", "mountd.toml:3: network.n.mtu"},
  {"LargeMtu", "[network.n]\nipv4 = \"10.0.0.0/24\"\nmtu = 65536", "mountd.toml:3: network.n.mtu"},
  {"NobodysRule", "\n[[rule]]\nplugins = [\"*\"]", "mountd.toml:2: rule.users"},
  {"RuleIsNoArray", "[rule]\nusers = [\"root\"]", "rule: must be [[rule]] tables"},
  {"UnknownUser", "[[rule]]\nusers = [\"no-such-user\"]", "mountd.toml:2: rule.users: \"no-such-user\""},
  {"UnknownGroup", "[[rule]]\ngroups = [\"no-such-group\"]", "mountd.toml:2: rule.groups: \"no-such-group\""},
  {"UserNumber", "[[rule]]\nusers = [0]", "mountd.toml:2: rule.users: must be an array of strings"},
  {"PluginName", WithRule("plugins = [\"a b\"]"), "mountd.toml:3: rule.plugins: \"a b\" is not a valid name"},
  {"VolumeMode", WithRule("host_volumes = [\"a:rw\"]"), "mountd.toml:3: rule.host_volumes: \"a:rw\""},
  {"CgroupIsRelative", WithRule("cgroups = [\"nomad.slice\"]"), "mountd.toml:3: rule.cgroups"},
  {"CgroupIsTheRoot", WithRule("cgroups = [\"/\"]"), "mountd.toml:3: rule.cgroups"},
  {"PortZero", WithRule("host_ports = [\"0\"]"), "mountd.toml:3: rule.host_ports: \"0\""},
  {"PortTooLarge", WithRule("host_ports = [\"1-65536\"]"), "mountd.toml:3: rule.host_ports"},
  {"PortsReversed", WithRule("host_ports = [\"30-20\"]"), "mountd.toml:3: rule.host_ports"},
  {"PortOpen", WithRule("host_ports = [\"20-\"]"), "mountd.toml:3: rule.host_ports"},
  {"PortText", WithRule("host_ports = [\"http\"]"), "mountd.toml:3: rule.host_ports"},
  {"AllocRootRelative", WithRule("alloc_roots = [\"alloc\"]"), "mountd.toml:3: rule.alloc_roots: must be an absolute path"},
  {"AllocRootIsRoot", WithRule("alloc_roots = [\"/\"]"), "mountd.toml:3: rule.alloc_roots: must be an absolute path"},
  {"AllocRootUp", WithRule("alloc_roots = [\"/srv/..\"]"), "mountd.toml:3: rule.alloc_roots: must be an absolute path"},
  {"IdZero", WithRule("ids = [\"0-5\"]"), "mountd.toml:3: rule.ids: \"0-5\""},
  {"IdNone", WithRule("ids = [\"4294967295\"]"), "mountd.toml:3: rule.ids: \"4294967295\""},
  {"IdsReversed", WithRule("ids = [\"9-8\"]"), "mountd.toml:3: rule.ids: \"9-8\""},
  {"AdministerNumber", WithRule("administer = 1"), "mountd.toml:3: rule.administer: has the wrong type"},
  {"LimitZero", "[limits]\npeers_per_uid = 0", "mountd.toml:2: limits.peers_per_uid: must be a whole number from 1 to 4096"},
  {"LimitTooLarge", "[limits]\nmount_executors = 65", "mountd.toml:2: limits.mount_executors"},
  {"LimitFraction", "[limits]\nmounts_per_allocation = 1.5", "mountd.toml:2: limits.mounts_per_allocation"},
  {"LimitNegative", "[limits]\nallocations_per_uid = -1", "mountd.toml:2: limits.allocations_per_uid"},
  {"OperationsTooMany", "[limits]\noperations_per_uid = 4097", "mountd.toml:2: limits.operations_per_uid"},
  {"FilesystemType", WithFilesystem("proc", "proc"), "mountd.toml:2: filesystem.f.type"},
  {"FilesystemTypeAbsent", "[filesystem.f]\nsource = \"x\"", "mountd.toml:1: filesystem.f.type"},
  {"FilesystemSource", WithFilesystem("nfs", "-o suid"), "mountd.toml:3: filesystem.f.source"},
  {"FilesystemOption", WithFilesystem("nfs", "s:/x", "options = [\"soft\", \"suid\"]"), "mountd.toml:4: filesystem.f.options: \"suid\" is not allowed for nfs"},
  {"FilesystemKey", WithFilesystem("nfs", "s:/x", "mode = 1"), "mountd.toml:4: filesystem.f.mode: is not a known key"},
  {"FilesystemOfARule", WithRule("filesystems = [\"a/b\"]"), "mountd.toml:3: rule.filesystems"},
  {"TmpfsNegative", "[limits]\ntmpfs_bytes = -1", "mountd.toml:2: limits.tmpfs_bytes"},
  {"PluginsTooMany", "[limits]\nplugins_per_uid = 4097", "mountd.toml:2: limits.plugins_per_uid"},
  {"TimeoutZero", "[timeouts]\nrpc_ms = 0", "mountd.toml:2: timeouts.rpc_ms"},
  {"WarningZero", "[timeouts]\nowed_warning_ms = 0", "mountd.toml:2: timeouts.owed_warning_ms"},
  {"TimeoutTooLarge", "[timeouts]\npatience_ms = 3600001", "mountd.toml:2: timeouts.patience_ms"},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(All, BadConfigTest, ::testing::ValuesIn(kBad),
                         [](const auto& test) { return test.param.name; });

class ConfigFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& text, mode_t mode = 0644) const {
    std::ofstream(path_) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return path_;
  }

  TempDirectory directory_;
  const std::string path_ = directory_.File("mountd.toml");
};

TEST_F(ConfigFileTest, IsReadAsAWhole) {
  const auto config = LoadConfig(Write(kEverything), false);
  ASSERT_EQ(MessageOf(config), "Ok");
  EXPECT_EQ(config->timeouts.probe_timeout, milliseconds(16));
}

TEST_F(ConfigFileTest, AProblemNamesTheFile) {
  const auto config = LoadConfig(Write("[limits]\nx = 1"), false);
  EXPECT_NE(MessageOf(config).find(path_ + ":2: limits.x"), std::string::npos)
      << MessageOf(config);
}

TEST_F(ConfigFileTest, NoFileIsNotFound) {
  EXPECT_EQ(Outcome(LoadConfig(path_, false)), "NotFound");
}

TEST_F(ConfigFileTest, ALinkOrADirectoryIsRefused) {
  const std::string link = directory_.File("link");
  ASSERT_EQ(symlink(Write("").c_str(), link.c_str()), 0);
  EXPECT_EQ(Outcome(LoadConfig(link, false)), "InvalidArgument");
  EXPECT_EQ(Outcome(LoadConfig(directory_.File(""), false)), "InvalidArgument");
}

TEST_F(ConfigFileTest, AFileThatOthersCanWriteIsRefusedIfItMustBeRoots) {
  for (const mode_t mode : {0664U, 0646U}) {
    EXPECT_EQ(Outcome(LoadConfig(Write("", mode), true)), "PermissionDenied");
    EXPECT_EQ(MessageOf(LoadConfig(Write("", mode), false)), "Ok");
  }
}

// Root can give the file away; another user's own file is not root's anyway.
TEST_F(ConfigFileTest, AFileOfAnotherUserIsRefusedIfItMustBeRoots) {
  Write("");
  if (getuid() == 0) {
    EXPECT_EQ(MessageOf(LoadConfig(path_, true)), "Ok");
    ASSERT_EQ(chown(path_.c_str(), 65534, 65534), 0);
  }
  EXPECT_EQ(Outcome(LoadConfig(path_, true)), "PermissionDenied");
  EXPECT_EQ(MessageOf(LoadConfig(path_, false)), "Ok");
}

TEST_F(ConfigFileTest, AFileThatIsTooLargeIsRefused) {
  Write("#" + std::string(1U << 20U, 'x'));
  EXPECT_EQ(Outcome(LoadConfig(path_, false)), "InvalidArgument");
}

}  // namespace
}  // namespace mountd
