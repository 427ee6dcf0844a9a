// SPDX-License-Identifier: LGPL-2.1-or-later
// The client's calls on a task's mounts.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/agent/client_test.h"

namespace mountd::agent::test {
namespace {

class ClientMountsTest : public ClientTest {};

TEST_F(ClientMountsTest, ListHoldersAnswersWhatIsKnownOfEach) {
  const Holders found = client_->ListHolders("web", "server", "data").value();
  EXPECT_EQ(script().last_call(), "ListHolders web server data {}");
  EXPECT_TRUE(found.more);
  EXPECT_FALSE(found.complete);
  ASSERT_EQ(found.holders.size(), 2U);
  EXPECT_EQ(found.holders[0].pid, 12U);
  EXPECT_EQ(found.holders[0].uid, 1000U);
  EXPECT_EQ(found.holders[0].command, "sh");
  EXPECT_EQ(found.holders[0].how, "fd 5");
  EXPECT_TRUE(found.holders[0].in_cgroup);
  EXPECT_TRUE(found.holders[0].copy);
  EXPECT_EQ(found.holders[1].pid, 13U);
  EXPECT_EQ(found.holders[1].how, "");
  ASSERT_TRUE(client_->ListHolders("web", "server", "data", true));
  EXPECT_EQ(script().last_call(), "ListHolders web server data {scope=node;}");
}

TEST_F(ClientMountsTest, ListHandedOutAnswersWhoHasEach) {
  const HandedOutList list = client_->ListHandedOut("web").value();
  EXPECT_EQ(script().last_call(), "ListHandedOut web {}");
  EXPECT_FALSE(list.complete);
  ASSERT_EQ(list.descriptors.size(), 2U);
  EXPECT_EQ(list.descriptors[0].kind, "detached");
  EXPECT_EQ(list.descriptors[0].source_type, "host");
  EXPECT_EQ(list.descriptors[0].source, "shared");
  EXPECT_EQ(list.descriptors[0].mount_id, 4711U);
  ASSERT_EQ(list.descriptors[0].holders.holders.size(), 2U);
  EXPECT_EQ(list.descriptors[0].holders.holders[0].how, "fd 5");
  EXPECT_TRUE(list.descriptors[0].holders.more);
  EXPECT_EQ(list.descriptors[1].kind, "inbox");
  EXPECT_EQ(list.descriptors[1].task, "server");
  EXPECT_EQ(list.descriptors[1].source, "");
}

TEST_F(ClientMountsTest, VerifyTaskSendsThePidfdAndAnswersEachMount) {
  const UniqueFd pidfd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const TaskReport report =
      client_->VerifyTask("web", "server", pidfd.get()).value();
  EXPECT_EQ(script().last_call(), "VerifyTask web server fd {}");
  EXPECT_FALSE(report.ok);
  EXPECT_TRUE(report.own_user_namespace);
  EXPECT_EQ(report.mount_namespace, 4026531841U);
  ASSERT_EQ(report.mounts.size(), 1U);
  const TaskMount& mount = report.mounts[0];
  EXPECT_EQ(mount.name, "data");
  EXPECT_EQ(mount.verdict, "lost-propagation");
  EXPECT_EQ(mount.reason, "the runtime's rootfsPropagation");
  EXPECT_TRUE(mount.read_only && mount.nosuid && mount.nodev && !mount.noexec);
  EXPECT_EQ(mount.peer_group, 12U);
  EXPECT_EQ(mount.master, 13U);
}

TEST_F(ClientMountsTest, BindMountsSendsEachMountWhole) {
  const std::vector<BindMountSpec> specs = {
      {.task = "server", .name = "data", .source = "data", .noatime = true},
      {.task = "server",
       .name = "logs",
       .source_type = SourceType::kHostVolume,
       .source = "logs",
       .read_only = true,
       .propagation = Propagation::kHostToTask}};
  const std::vector<MountConfig> configs =
      client_->BindMounts("web", specs).value();
  ASSERT_EQ(configs.size(), 2U);
  EXPECT_EQ(configs[0].propagation, "private");
  EXPECT_EQ(configs[1].propagation, "host-to-task");
  EXPECT_EQ(script().last_call(),
            "BindMounts web "
            "{name=data;noatime=true;propagation=private;read_only=false;"
            "source=data;source_type=volume;task=server;} "
            "{name=logs;propagation=host-to-task;read_only=true;source=logs;"
            "source_type=host;task=server;} {}");
}

TEST_F(ClientMountsTest, ReplaceMountAnswersWhatItReplaced) {
  const BindMountSpec spec{.task = "server", .name = "data", .source = "data"};
  const ReplacedMount replaced = client_->ReplaceMount("web", spec).value();
  EXPECT_EQ(script().last_call(),
            "ReplaceMount web server data volume:data rw private {}");
  EXPECT_EQ(replaced.replaced_mount_id, 10U);
  ASSERT_TRUE(replaced.old_holders);
  EXPECT_TRUE(replaced.old_holders->more);
  EXPECT_EQ(replaced.config.mount_id, 11U);
}

TEST_F(ClientMountsTest, RepairMountSaysWhetherTheTaskSeesIt) {
  const RepairedMount repaired =
      client_->RepairMount("web", "server", "data").value();
  EXPECT_EQ(script().last_call(), "RepairMount web server data {}");
  EXPECT_EQ(repaired.replaced_mount_id, 10U);
  EXPECT_FALSE(repaired.old_holders);
  EXPECT_FALSE(repaired.reaches_task);
  EXPECT_EQ(repaired.reason, "no inbox");
}

TEST_F(ClientMountsTest, OpenTreeAnswersAnFd) {
  const BindMountSpec spec{.source_type = SourceType::kHostVolume,
                           .source = "shared"};
  const Result<UniqueFd> tree = client_->OpenTree("web", spec);
  ASSERT_TRUE(tree) << tree.error().Message();
  EXPECT_TRUE(tree->valid());
  EXPECT_EQ(script().last_call(), "OpenTree web host:shared private {}");
}

TEST_F(ClientMountsTest, InboxesArePreparedAndRemoved) {
  const InboxConfig inbox = client_->PrepareInbox("web", "server").value();
  EXPECT_EQ(inbox.host_path, "/run/mountd/base/a/web/server");
  EXPECT_EQ(inbox.propagation, "host-to-task");
  EXPECT_EQ(inbox.required_rootfs_propagation, "slave");
  // The client returns an fd only if the daemon answers one.
  const Result<UniqueFd> inbox_fd = client_->OpenInbox("web", "server");
  ASSERT_FALSE(inbox_fd);
  EXPECT_EQ(inbox_fd.error().code, Code::kInternal);
  EXPECT_EQ(script().last_call(), "PrepareInbox web server {open=true;}");
  ASSERT_TRUE(client_->RemoveInbox("web", "server"));
  EXPECT_EQ(script().last_call(), "RemoveInbox web server {}");
}

TEST_F(ClientMountsTest, BindMountCanBeOnADirectory) {
  const BindMountSpec spec{
      .task = "t", .name = "n", .source = "data", .directory = STDERR_FILENO};
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n volume:data rw private {directory=h;}");
}

TEST_F(ClientMountsTest, BindMountCanBeOfADirectory) {
  BindMountSpec spec{.task = "t", .name = "n"};
  spec.source_type = SourceType::kDirectory;
  spec.source_directory = STDERR_FILENO;
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n directory: rw private {source_directory=h;}");
}

TEST_F(ClientMountsTest, BindMountCanBeInAContainer) {
  BindMountSpec spec{.task = "t", .name = "n", .source = "data"};
  spec.task_path = "/data";
  spec.container = STDERR_FILENO;
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n volume:data rw private "
            "{container=h;task_path=/data;}");
}

TEST_F(ClientMountsTest,
       BindMountSendsTheContractsWordsAndAnswersTheMountConfig) {
  BindMountSpec spec{.task = "server", .name = "data", .source = "data"};
  spec.read_only = true;
  spec.propagation = Propagation::kHostToTask;
  spec.task_path = "/data";
  spec.noexec = true;
  spec.noatime = true;
  spec.nosymfollow = true;
  spec.id_map = {{1000, 200000, 1}, {3000, 300000, 10}};
  const MountConfig config = client_->BindMount("web", spec).value();
  EXPECT_EQ(script().last_call(),
            "BindMount web server data volume:data ro host-to-task "
            "{idmap=1000:200000:1+3000:300000:10+;noatime=true;noexec=true;"
            "nosymfollow=true;task_path=/data;}");
  EXPECT_EQ(config.host_path, "/run/mountd/base/a/web/server/data");
  EXPECT_EQ(config.task_path, "/data");
  EXPECT_TRUE(config.read_only);
  EXPECT_EQ(config.propagation, "host-to-task");
  EXPECT_EQ(config.required_rootfs_propagation, "slave");
  EXPECT_EQ(config.mount_id, 11U);
  EXPECT_EQ(config.peer_group, 12U);
  EXPECT_EQ(config.master, 13U);
}

TEST_F(ClientMountsTest, EachPropagationAndSourceHasItsWord) {
  BindMountSpec spec{.task = "t", .name = "n"};
  spec.source_type = SourceType::kHostVolume;
  spec.source = "shared";
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n host:shared rw private {}");
  spec.propagation = Propagation::kBidirectional;
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n host:shared rw bidirectional {}");
}

TEST_F(ClientMountsTest, ATmpfsSendsWhatWasSaidOfIt) {
  BindMountSpec spec{.task = "t", .name = "n"};
  spec.source_type = SourceType::kTmpfs;
  spec.tmpfs = TmpfsOptions{.size = 4096};
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n tmpfs: rw private {size=t4096;}");
  spec.tmpfs = TmpfsOptions{.size = 4096,
                            .inodes = 4,
                            .mode = 0700,
                            .uid = 1,
                            .gid = 2,
                            .noswap = true};
  ASSERT_TRUE(client_->BindMount("web", spec));
  EXPECT_EQ(script().last_call(),
            "BindMount web t n tmpfs: rw private "
            "{gid=u2;inodes=t4;mode=u448;noswap=true;size=t4096;uid=u1;}");
}

}  // namespace
}  // namespace mountd::agent::test
