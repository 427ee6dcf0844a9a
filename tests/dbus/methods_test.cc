// SPDX-License-Identifier: LGPL-2.1-or-later
// Every method once, asked right: what it answers, with which types.
#include <fcntl.h>

#include "csi-node/secrets.h"
#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

using Types = std::map<std::string, std::string>;

const Types kNetworkTypes = {
    {"netns_path", "ay"}, {"netns_inode", "t"},    {"interface", "s"},
    {"address", "s"},     {"address6", "s"},       {"gateway", "s"},
    {"gateway6", "s"},    {"host_interface", "s"}, {"ports", "a(sqqs)"}};
const Types kMountTypes = {{"host_path", "ay"},
                           {"task_path", "s"},
                           {"read_only", "b"},
                           {"propagation", "s"},
                           {"required_rootfs_propagation", "s"},
                           {"mount_id", "t"},
                           {"peer_group", "t"},
                           {"master", "t"}};
const Types kPluginTypes = {{"id", "s"},
                            {"type", "s"},
                            {"uid", "u"},
                            {"allocation", "s"},
                            {"state", "s"},
                            {"reason", "s"},
                            {"provider", "s"},
                            {"vendor_version", "s"},
                            {"node_id", "s"},
                            {"max_volumes", "x"},
                            {"topology", "a{ss}"},
                            {"node_capabilities", "ai"},
                            {"controller_capabilities", "ai"},
                            {"plugin_capabilities", "ai"},
                            {"generation", "t"}};
const Types kReceiptTypes = {{"allocation", "s"},
                             {"released_at", "t"},
                             {"node_detached", "b"},
                             {"volumes", "a(ssb)"},
                             {"serial", "t"}};

Types Prefixed(const std::string& prefix, const Types& types) {
  Types all;
  for (const auto& [key, type] : types) {
    all[prefix + key] = type;
  }
  return all;
}

class Methods : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
  }
  // Refuses a test whose preparation failed.
  void MustPrepare() {
    const Answer made = client_->Call("PrepareAllocation", "sa{sv}", "web", 0);
    ASSERT_TRUE(made.ok()) << made.message;
  }

  std::unique_ptr<BusClient> client_;
};

TEST_P(Methods, PrepareAllocation) {
  const Answer answer = client_->Call("PrepareAllocation", "sa{sv}", "web", 1,
                                      "scope", "s", "region-1");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"host_path", "ay"}}));
  EXPECT_EQ(answer.values.at("host_path"), R"(b"/run/mountd/base/a/web")");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(Methods, SetupNetwork) {
  MustPrepare();
  const Answer answer = client_->Call(
      "SetupNetwork", "ssa(sqqs)a{sv}", "web", "bridge", 2, "http", 20080, 80,
      "tcp+udp", "", 20443, 0, "tcp", 1, "network", "s", "default");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kNetworkTypes);
  EXPECT_EQ(answer.values.at("netns_path"), R"(b"/run/netns/web")");
  EXPECT_EQ(answer.values.at("interface"), R"("eth0")");
  EXPECT_EQ(answer.values.at("ports"),
            R"([("http", 20080, 80, "tcp+udp"), ("", 20443, 20443, "tcp")])");
}

TEST_P(Methods, TeardownNetwork) {
  MustPrepare();
  ASSERT_TRUE(
      client_->Call("SetupNetwork", "ssa(sqqs)a{sv}", "web", "bridge", 0, 0)
          .ok());
  const Answer answer = client_->Call("TeardownNetwork", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(Methods, PublishVolume) {
  RegisterPlugin(*client_);
  MustPrepare();
  const UniqueFd secrets = csi::EncodeSecrets({{"key", "value"}}).value();
  const Answer answer = client_->Call(
      "PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "data", "vol", "csi",
      5, "read_only", "b", 1, "access_mode", "s", "multi-node-reader-only",
      "attachment_mode", "s", "file-system", "fs_type", "s", "ext4",
      "mount_flags", "as", 1, "noatime", 1, "a", "b", 1, "c", "d", 1, "secrets",
      "h", secrets.get());
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(
      answer.types,
      (Types{{"host_path", "ay"}, {"read_only", "b"}, {"is_device", "b"}}));
  EXPECT_EQ(answer.values.at("read_only"), "true");
  const csi::PublishRequest request = csi().last_publish();
  EXPECT_EQ(request.publish_context, (StringMap{{"a", "b"}}));
  EXPECT_EQ(request.volume_context, (StringMap{{"c", "d"}}));
  EXPECT_EQ(request.capability.fs_type, "ext4");
  EXPECT_EQ(request.capability.mount_flags,
            std::vector<std::string>{"noatime"});
  EXPECT_EQ(request.capability.access_mode,
            csi::AccessMode::kMultiNodeReaderOnly);
  EXPECT_TRUE(csi().last_had_secrets());
}

TEST_P(Methods, UnpublishVolume) {
  Publish(*client_);
  const Answer answer =
      client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_TRUE(csi().Published().empty());
  EXPECT_TRUE(csi().Staged().empty());
}

TEST_P(Methods, BindMountOfAHostVolume) {
  MustPrepare();
  const Answer answer = client_->Call(
      "BindMount", "sssssbsa{sv}", "web", "task", "m", "host", "data", 0,
      "bidirectional", 2, "task_path", "s", "/data", "noexec", "b", 1);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  EXPECT_EQ(answer.values.at("host_path"),
            R"(b"/run/mountd/base/a/web/task/m")");
  EXPECT_EQ(answer.values.at("task_path"), R"("/data")");
  EXPECT_EQ(answer.values.at("required_rootfs_propagation"), R"("shared")");
}

TEST_P(Methods, BindMountWithAMapOfIds) {
  MustPrepare();
  const auto bind = [&](std::uint32_t on_disk) {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 2, "noatime", "b", 1,
                         "idmap", "a(uuu)", 2, on_disk, 200000U, 1U, 100001U,
                         300000U, 2U);
  };
  EXPECT_EQ(bind(0).error, "org.mountd1.Error.PermissionDenied");
  const Answer answer = bind(100000);
  ASSERT_TRUE(answer.ok()) << answer.message;
  const exec::AttachPlan plan = executor().plans().back().body.attach;
  EXPECT_EQ(plan.attributes, static_cast<std::uint32_t>(exec::kNoAtime));
  ASSERT_EQ(plan.ids.count, 2U);
  EXPECT_EQ(plan.ids.extents[0], (exec::IdExtent{100000, 200000, 1}));
  EXPECT_EQ(plan.ids.extents[1], (exec::IdExtent{100001, 300000, 2}));
  const Answer five =
      client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "n", "host",
                    "data", 0, "private", 1, "idmap", "a(uuu)", 5, 1U, 1U, 1U,
                    2U, 2U, 1U, 3U, 3U, 1U, 4U, 4U, 1U, 5U, 5U, 1U);
  EXPECT_EQ(five.error, "org.mountd1.Error.InvalidArgument");
}

TEST_P(Methods, BindMountOfAFilesystem) {
  MustPrepare();
  const Answer answer =
      client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                    "filesystem", "homes", 1, "host-to-task", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  const exec::SourcePlan source = executor().plans().back().body.attach.source;
  EXPECT_EQ(source.kind, exec::SourceKind::kFilesystem);
  EXPECT_EQ(source.filesystem.view(), "homes");
}

TEST_P(Methods, BindMountOfATmpfs) {
  MustPrepare();
  const Answer answer = client_->Call(
      "BindMount", "sssssbsa{sv}", "web", "task", "secrets", "tmpfs", "", 0,
      "private", 6, "size", "t", std::uint64_t{65536}, "inodes", "t",
      std::uint64_t{8}, "mode", "u", 0750U, "uid", "u", 5U, "gid", "u", 6U,
      "noswap", "b", 1);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  EXPECT_EQ(executor().plans().back().body.attach.source.tmpfs,
            (exec::TmpfsPlan{65536, 8, 0750, 5, 6, 1}));
  const Answer status = client_->Call("GetAllocation", "sa{sv}", "web", 0);
  EXPECT_NE(status.values.at("mounts").find(R"("tmpfs")"), std::string::npos);
}

TEST_P(Methods, BindMountOnADirectory) {
  MustPrepare();
  const TempDirectory directory;
  const UniqueFd fd(
      open(directory.File(".").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const Answer answer = client_->Call(
      "BindMount", "sssssbsa{sv}", "web", "task", "m", "host", "data", 0,
      "private", 2, "directory", "h", fd.get(), "noatime", "b", 1);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_NE(answer.values.at("host_path").find("mountd-test-"),
            std::string::npos);
  const exec::AttachPlan plan = executor().plans().back().body.attach;
  EXPECT_EQ(plan.target_kind, exec::TargetKind::kDirectory);
  EXPECT_EQ(plan.attributes, exec::kNoAtime);
}

TEST_P(Methods, BindMountInAContainer) {
  MustPrepare();
  executor().PutCgroup(7, "/mountd-test/web");
  executor().SetTask(7);
  const auto bind = [&](const char* path) {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 2, "container", "h",
                         STDERR_FILENO, "task_path", "s", path);
  };
  EXPECT_EQ(bind("data").error, "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(bind("/proc/self").error, "org.mountd1.Error.InvalidArgument");
  const Answer answer = bind("/data");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  const exec::AttachPlan plan = executor().plans().back().body.attach;
  EXPECT_EQ(plan.target_kind, exec::TargetKind::kContainer);
  EXPECT_EQ(plan.container.cgroup, 7U);
  EXPECT_STREQ(plan.container.path.data(), "/data");
  // Another user's container is none of the caller's.
  executor().PutCgroup(8, "/system.slice/db");
  executor().SetTask(8);
  EXPECT_EQ(bind("/data").error, "org.mountd1.Error.PermissionDenied");
}

TEST_P(Methods, BindMountsMountsAll) {
  MustPrepare();
  const Answer answer =
      client_->Call("BindMounts", "saa{sv}a{sv}", "web", 2,  //
                    4, "task", "s", "task", "name", "s", "a", "source_type",
                    "s", "host", "source", "s", "data",  //
                    6, "task", "s", "task", "name", "s", "b", "source_type",
                    "s", "host", "source", "s", "data", "read_only", "b", 1,
                    "propagation", "s", "host-to-task", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "aa{sv}");
  EXPECT_EQ(answer.values.at("0.propagation"), R"("private")");
  EXPECT_EQ(answer.values.at("1.propagation"), R"("host-to-task")");
  EXPECT_NE(executor().MountIdOf("web/task/a"), 0U);
  EXPECT_NE(executor().MountIdOf("web/task/b"), 0U);
}

TEST_P(Methods, ReplaceMountSwapsTheMount) {
  MustPrepare();
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 0)
                  .ok());
  const std::uint64_t old = executor().MountIdOf("web/task/m");
  const Answer answer =
      client_->Call("ReplaceMount", "sssssbsa{sv}", "web", "task", "m", "host",
                    "data", 1, "private", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("replaced_mount_id"), std::to_string(old));
  EXPECT_EQ(answer.values.at("read_only"), "true");
}

TEST_P(Methods, RepairMountMountsAnew) {
  MustPrepare();
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 0)
                  .ok());
  const std::uint64_t old = executor().MountIdOf("web/task/m");
  const Answer without =
      client_->Call("RepairMount", "sssa{sv}", "web", "task", "m", 0);
  ASSERT_TRUE(without.ok()) << without.message;
  EXPECT_EQ(without.values.at("replaced_mount_id"), std::to_string(old));
  EXPECT_EQ(without.values.at("reaches_task"), "false");
  EXPECT_NE(without.values.at("reason").find("inbox"), std::string::npos);
  ASSERT_TRUE(client_->Call("PrepareInbox", "ssa{sv}", "web", "task", 0).ok());
  // One that was lost is mounted anew.
  executor().LoseMount("web/task/m");
  const Answer with =
      client_->Call("RepairMount", "sssa{sv}", "web", "task", "m", 0);
  ASSERT_TRUE(with.ok()) << with.message;
  EXPECT_EQ(with.values.at("reaches_task"), "true");
  EXPECT_NE(executor().MountIdOf("web/task/m"), 0U);
}

TEST_P(Methods, OpenTreeAnswersAnFd) {
  MustPrepare();
  const Answer answer = client_->Call("OpenTree", "ssssa{sv}", "web", "host",
                                      "data", "private", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "h");
}

TEST_P(Methods, PrepareInboxAndRemoveInbox) {
  MustPrepare();
  const Answer answer =
      client_->Call("PrepareInbox", "ssa{sv}", "web", "task", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("host_path"), R"(b"/run/mountd/base/a/web/task")");
  EXPECT_EQ(answer.values.at("required_rootfs_propagation"), R"("slave")");
  ASSERT_TRUE(client_->Call("RemoveInbox", "ssa{sv}", "web", "task", 0).ok());
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(Methods, BindMountOfAVolume) {
  Publish(*client_);
  const Answer answer =
      client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m", "volume",
                    "data", 1, "host-to-task", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  EXPECT_EQ(answer.values.at("read_only"), "true");
  EXPECT_EQ(answer.values.at("propagation"), R"("host-to-task")");
}

TEST_P(Methods, Unmount) {
  MustPrepare();
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 0)
                  .ok());
  const Answer answer = client_->Call("Unmount", "sssa{sv}", "web", "task", "m",
                                      1, "mode", "s", "detach");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(Methods, RemoveTree) {
  const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  executor().SetTree(3);
  const Answer answer =
      client_->Call("RemoveTree", "ha{sv}", directory.get(), 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"done", "t"}}));
  EXPECT_EQ(answer.values.at("done"), "3");
}

TEST_P(Methods, ChownTree) {
  const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  executor().SetTree(3);
  const Answer answer = client_->Call("ChownTree", "huua{sv}", directory.get(),
                                      100000, 100000, 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"done", "t"}, {"left", "t"}}));
  EXPECT_EQ(answer.values.at("done"), "3");
}

// What a cgroup's id is, only a real one tells: see refusals_test.cc and the
// main job.
TEST_P(Methods, ListHolders) {
  MustPrepare();
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 0)
                  .ok());
  exec::Holder holder;
  holder.pid = 12;
  holder.uid = ::geteuid();
  holder.kind = exec::HolderKind::kFd;
  holder.fd = 5;
  holder.comm = {'s', 'h'};
  executor().AddHolder(executor().MountIdOf("web/task/m"), holder);
  const Answer answer = client_->Call("ListHolders", "sssa{sv}", "web", "task",
                                      "m", 1, "scope", "s", "node");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"holders", "aa{sv}"},
                                 {"holders.0.pid", "u"},
                                 {"holders.0.uid", "u"},
                                 {"holders.0.command", "s"},
                                 {"holders.0.how", "s"},
                                 {"holders.0.in_cgroup", "b"},
                                 {"holders.0.copy", "b"},
                                 {"more", "b"},
                                 {"complete", "b"}}));
  EXPECT_EQ(answer.values.at("holders.0.pid"), "12");
  EXPECT_EQ(answer.values.at("holders.0.how"), R"("fd 5")");
  EXPECT_EQ(answer.values.at("complete"), "true");
  EXPECT_EQ(
      client_->Call("ListHolders", "sssa{sv}", "web", "task", "m", 0).error,
      "org.mountd1.Error.FailedPrecondition");
}

TEST_P(Methods, VerifyTask) {
  MustPrepare();
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 0)
                  .ok());
  executor().PutCgroup(7, "/mountd-test");
  executor().SetTask(7);
  const Answer answer =
      client_->Call("VerifyTask", "ssha{sv}", "web", "task", 0, 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"ok", "b"},
                                 {"mounts", "aa{sv}"},
                                 {"mounts.0.name", "s"},
                                 {"mounts.0.verdict", "s"},
                                 {"mounts.0.reason", "s"},
                                 {"mounts.0.read_only", "b"},
                                 {"mounts.0.nosuid", "b"},
                                 {"mounts.0.nodev", "b"},
                                 {"mounts.0.noexec", "b"},
                                 {"mounts.0.peer_group", "t"},
                                 {"mounts.0.master", "t"},
                                 {"mount_namespace", "t"},
                                 {"own_user_namespace", "b"}}));
  EXPECT_EQ(answer.values.at("ok"), "false");
  EXPECT_EQ(answer.values.at("mounts.0.verdict"), R"("missing")");
}

TEST_P(Methods, ReleaseAllocationAndItsReceipt) {
  Publish(*client_);
  const Answer receipt = client_->Call("ReleaseAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(receipt.ok()) << receipt.message;
  EXPECT_EQ(receipt.types, kReceiptTypes);
  EXPECT_EQ(receipt.values.at("allocation"), R"("web")");
  EXPECT_EQ(receipt.values.at("node_detached"), "true");
  EXPECT_EQ(receipt.values.at("volumes"), R"([("csi", "vol", true)])");
  const Answer again = client_->Call("GetReceipt", "sa{sv}", "web", 0);
  EXPECT_EQ(again.text, receipt.text);
  EXPECT_EQ(client_->Call("ReleaseAllocation", "sa{sv}", "web", 0).text,
            receipt.text);
}

TEST_P(Methods, GetAllocation) {
  Publish(*client_);
  ASSERT_TRUE(client_
                  ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "volume", "data", 0, "private", 0)
                  .ok());
  ASSERT_TRUE(
      client_->Call("SetupNetwork", "ssa(sqqs)a{sv}", "web", "bridge", 0, 0)
          .ok());
  const Answer answer = client_->Call("GetAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  Types expected = {
      {"id", "s"},           {"uid", "u"},         {"scope", "s"},
      {"state", "s"},        {"host_path", "ay"},  {"network", "a{sv}"},
      {"volumes", "aa{sv}"}, {"mounts", "aa{sv}"}, {"inboxes", "as"}};
  expected.merge(Prefixed("network.", kNetworkTypes));
  expected.merge(Prefixed("mounts.0.", kMountTypes));
  expected.merge(Prefixed("mounts.0.", {{"health", "s"},
                                        {"task", "s"},
                                        {"name", "s"},
                                        {"source_type", "s"},
                                        {"source", "s"},
                                        {"state", "s"}}));
  expected.merge(Prefixed("volumes.0.", {{"alias", "s"},
                                         {"plugin", "s"},
                                         {"volume", "s"},
                                         {"state", "s"},
                                         {"read_only", "b"},
                                         {"host_path", "ay"}}));
  EXPECT_EQ(answer.types, expected);
  EXPECT_EQ(answer.values.at("uid"), std::to_string(::geteuid()));
  EXPECT_EQ(answer.values.at("state"), R"("prepared")");
  EXPECT_EQ(answer.values.at("volumes.0.state"), R"("published")");
  EXPECT_EQ(answer.values.at("mounts.0.source_type"), R"("volume")");
}

TEST_P(Methods, GetAllocationWithoutAnything) {
  MustPrepare();
  const Answer answer = client_->Call("GetAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("network"), "{}");
  EXPECT_EQ(answer.types.at("volumes"), "aa{sv}");
  EXPECT_EQ(answer.types.at("mounts"), "aa{sv}");
}

TEST_P(Methods, ListAllocations) {
  EXPECT_EQ(client_->Call("ListAllocations", "a{sv}", 0).text, "[]");
  MustPrepare();
  const Answer answer = client_->Call("ListAllocations", "a{sv}", 0);
  EXPECT_EQ(answer.signature, "a(suss)");
  EXPECT_EQ(answer.text, "[(\"web\", " + std::to_string(::geteuid()) +
                             ", \"\", \"prepared\")]");
}

TEST_P(Methods, ListVolumes) {
  Publish(*client_);
  const Answer answer = client_->Call("ListVolumes", "a{sv}", 0);
  EXPECT_EQ(answer.signature, "aa{sv}");
  EXPECT_EQ(answer.types, (Types{{"0.plugin", "s"},
                                 {"0.volume", "s"},
                                 {"0.state", "s"},
                                 {"0.users", "a(ss)"}}));
  EXPECT_EQ(answer.values.at("0.users"), R"([("web", "data")])");
}

TEST_P(Methods, RegisterPlugin) {
  const Answer answer = client_->Call("RegisterPlugin", "sssa{sv}", "csi",
                                      "node", "", 1, "mount_dir", "s", "/csi");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(
      answer.types,
      (Types{{"host_path", "ay"}, {"endpoint", "s"}, {"mounts", "a(aysbs)"}}));
  EXPECT_EQ(answer.values.at("endpoint"), R"("unix:///csi/csi.sock")");
}

TEST_P(Methods, UnregisterPlugin) {
  RegisterPlugin(*client_);
  const Answer answer = client_->Call("UnregisterPlugin", "sa{sv}", "csi", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_TRUE(executor().Existing().empty());
}

TEST_P(Methods, GetPluginAndListPlugins) {
  RegisterPlugin(*client_);
  const Answer one = client_->Call("GetPlugin", "sa{sv}", "csi", 0);
  ASSERT_TRUE(one.ok()) << one.message;
  EXPECT_EQ(one.types, kPluginTypes);
  EXPECT_EQ(one.values.at("node_id"), R"("node-csi")");
  EXPECT_EQ(one.values.at("topology"), R"({"zone": "z1"})");
  const Answer all = client_->Call("ListPlugins", "a{sv}", 0);
  EXPECT_EQ(all.signature, "aa{sv}");
  EXPECT_EQ(all.types, Prefixed("0.", kPluginTypes));
}

TEST_P(Methods, ListOwedAndRetryOwed) {
  Publish(*client_);
  csi().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal,
                 FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  EXPECT_FALSE(
      client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0).ok());
  const Answer owed = client_->Call("ListOwed", "a{sv}", 0);
  EXPECT_EQ(owed.signature, "a(tsssut)");
  EXPECT_NE(owed.text.find(R"("unpublish", "web/data")"), std::string::npos)
      << owed.text;
  csi().script().Clear();
  const Answer left = client_->Call("RetryOwed", "a{sv}", 0);
  EXPECT_EQ(left.signature, "u");
  EXPECT_EQ(left.text, "0");
  EXPECT_EQ(client_->Call("ListOwed", "a{sv}", 0).text, "[]");
}

TEST_P(Methods, GetCapabilities) {
  const Answer answer = client_->Call("GetCapabilities", "a{sv}", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"version", "s"},
                                 {"kernel", "s"},
                                 {"network_modes", "as"},
                                 {"propagation", "as"},
                                 {"source_types", "as"},
                                 {"features", "a{sb}"},
                                 {"missing", "a{ss}"},
                                 {"addresses", "a{s(uu)}"},
                                 {"executor_capabilities", "t"},
                                 {"stuck_executors", "u"}}));
  EXPECT_EQ(answer.values.at("version"), "\"" MOUNTD_VERSION "\"");
  EXPECT_EQ(answer.values.at("network_modes"), R"(["bridge"])");
}

TEST_P(Methods, GetStatistics) {
  MustPrepare();
  const Answer answer = client_->Call("GetStatistics", "a{sv}", 0);
  EXPECT_EQ(answer.signature, "a(stttt)");
  EXPECT_NE(answer.text.find(R"(("PrepareAllocation", 1, 0, )"),
            std::string::npos)
      << answer.text;
}

TEST_P(Methods, SubscribeUnsubscribeAnswerNothing) {
  EXPECT_EQ(client_->Call("Subscribe", "a{sv}", 0).signature, "");
  const Answer answer = client_->Call("Unsubscribe", "a{sv}", 0);
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
}

MOUNTD_ON_BOTH_TRANSPORTS(Methods);

}  // namespace
}  // namespace mountd::test
