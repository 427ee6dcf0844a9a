// SPDX-License-Identifier: LGPL-2.1-or-later
// Each method on a task's mounts, called once with valid arguments.
#include <fcntl.h>

#include "tests/dbus/methods.h"

namespace mountd::test {
namespace {

class MountMethods : public Methods {
 protected:
  // Prepares the allocation "web" and mounts the host volume "data" in it, as
  // web/task/m.
  void MustPrepareAndMount() {
    MustPrepare();
    const Answer answer =
        client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m", "host",
                      "data", 0, "private", 0);
    ASSERT_TRUE(answer.ok()) << answer.message;
  }
};

TEST_P(MountMethods, BindMountOfAHostVolume) {
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

TEST_P(MountMethods, BindMountWithAMapOfIds) {
  MustPrepare();
  const auto bind = [&](std::uint32_t on_disk) {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "host", "data", 0, "private", 3, "noatime", "b", 1,
                         "nosymfollow", "b", 1, "idmap", "a(uuu)", 2, on_disk,
                         200000U, 1U, 100001U, 300000U, 2U);
  };
  EXPECT_EQ(bind(0).error, "org.mountd1.Error.PermissionDenied");
  const Answer answer = bind(100000);
  ASSERT_TRUE(answer.ok()) << answer.message;
  const exec::AttachPlan plan = executor().plans().back().body.attach;
  EXPECT_EQ(plan.attributes, exec::kNoAtime | exec::kNoSymFollow);
  ASSERT_EQ(plan.ids.count, 2U);
  EXPECT_EQ(plan.ids.extents[0], (exec::IdExtent{100000, 200000, 1}));
  EXPECT_EQ(plan.ids.extents[1], (exec::IdExtent{100001, 300000, 2}));
  const Answer five =
      client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "n", "host",
                    "data", 0, "private", 1, "idmap", "a(uuu)", 5, 1U, 1U, 1U,
                    2U, 2U, 1U, 3U, 3U, 1U, 4U, 4U, 1U, 5U, 5U, 1U);
  EXPECT_EQ(five.error, "org.mountd1.Error.InvalidArgument");
}

TEST_P(MountMethods, BindMountWithMapsOfUsersAndGroups) {
  MustPrepare();
  const auto bind = [&](const char* name, const char* one, const char* other) {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "task", name,
                         "host", "data", 0, "private", 2, one, "a(uuu)", 1,
                         100000U, 200000U, 1U, other, "a(uuu)", 1, 100001U,
                         300000U, 2U);
  };
  const Answer answer = bind("m", "uidmap", "gidmap");
  ASSERT_TRUE(answer.ok()) << answer.message;
  const exec::IdMapPlan ids = executor().plans().back().body.attach.ids;
  ASSERT_EQ(ids.count, 1U);
  EXPECT_EQ(ids.extents[0], (exec::IdExtent{100000, 200000, 1}));
  ASSERT_EQ(ids.gid_count, 1U);
  EXPECT_EQ(ids.gids[0], (exec::IdExtent{100001, 300000, 2}));
  for (const char* alone : {"uidmap", "gidmap"}) {
    const Answer half = client_->Call(
        "BindMount", "sssssbsa{sv}", "web", "task", "n", "host", "data", 0,
        "private", 1, alone, "a(uuu)", 1, 100000U, 200000U, 1U);
    EXPECT_EQ(half.error, "org.mountd1.Error.InvalidArgument") << alone;
  }
  const Answer all = client_->Call(
      "BindMount", "sssssbsa{sv}", "web", "task", "n", "host", "data", 0,
      "private", 3, "idmap", "a(uuu)", 1, 100000U, 1U, 1U, "uidmap", "a(uuu)",
      1, 100000U, 1U, 1U, "gidmap", "a(uuu)", 1, 100000U, 1U, 1U);
  EXPECT_EQ(all.error, "org.mountd1.Error.InvalidArgument");
}

TEST_P(MountMethods, BindMountOfAFilesystem) {
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

TEST_P(MountMethods, BindMountOfATmpfs) {
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

TEST_P(MountMethods, BindMountOnADirectory) {
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

TEST_P(MountMethods, BindMountOfADirectory) {
  MustPrepare();
  const TempDirectory directory;
  const UniqueFd fd(
      open(directory.File(".").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto bind = [&](const char* source, const char* propagation) {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                         "directory", source, 0, propagation, 1,
                         "source_directory", "h", fd.get());
  };
  EXPECT_EQ(bind("data", "private").error, "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(bind("", "bidirectional").error,
            "org.mountd1.Error.InvalidArgument");
  const Answer answer = bind("", "host-to-task");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  EXPECT_EQ(answer.values.at("host_path"),
            R"(b"/run/mountd/base/a/web/task/m")");
  const exec::AttachPlan plan = executor().plans().back().body.attach;
  EXPECT_EQ(plan.source.kind, exec::SourceKind::kDirectory);
  EXPECT_EQ(plan.target_kind, exec::TargetKind::kInbox);
  EXPECT_EQ(plan.caller.uid, ::getuid());
  const Answer status = client_->Call("GetAllocation", "sa{sv}", "web", 0);
  EXPECT_NE(status.values.at("mounts").find("mountd-test-"), std::string::npos);
  // Another directory is another source.
  const TempDirectory other;
  const UniqueFd others(
      open(other.File(".").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(client_
                ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                       "directory", "", 0, "host-to-task", 1,
                       "source_directory", "h", others.get())
                .error,
            "org.mountd1.Error.AlreadyExists");
  EXPECT_EQ(
      client_->Call("RepairMount", "sssa{sv}", "web", "task", "m", 0).error,
      "org.mountd1.Error.FailedPrecondition");
}

TEST_P(MountMethods, BindMountOfADirectoryNeedsIt) {
  MustPrepare();
  const TempDirectory directory;
  const UniqueFd fd(
      open(directory.File(".").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(client_
                ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                       "directory", "", 0, "private", 0)
                .error,
            "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(
      client_
          ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m", "host",
                 "data", 0, "private", 1, "source_directory", "h", fd.get())
          .error,
      "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(client_
                ->Call("BindMount", "sssssbsa{sv}", "web", "task", "m",
                       "directory", "", 0, "private", 2, "source_directory",
                       "h", fd.get(), "directory", "h", fd.get())
                .error,
            "org.mountd1.Error.InvalidArgument");
  EXPECT_EQ(client_
                ->Call("ReplaceMount", "sssssbsa{sv}", "web", "task", "m",
                       "directory", "", 0, "private", 1, "source_directory",
                       "h", fd.get())
                .error,
            "org.mountd1.Error.NotSupported");
  EXPECT_EQ(
      client_
          ->Call("OpenTree", "ssssa{sv}", "web", "directory", "", "private", 0)
          .error,
      "org.mountd1.Error.InvalidArgument");
}

TEST_P(MountMethods, BindMountInAContainer) {
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
  EXPECT_EQ(plan.container.caller, static_cast<std::uint32_t>(::getpid()));
  // A container of another user does not belong to the caller.
  executor().PutCgroup(8, "/system.slice/db");
  executor().SetTask(8);
  EXPECT_EQ(bind("/data").error, "org.mountd1.Error.PermissionDenied");
}

TEST_P(MountMethods, BindMountsMountsAll) {
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

TEST_P(MountMethods, ReplaceMountSwapsTheMount) {
  MustPrepareAndMount();
  const std::uint64_t old = executor().MountIdOf("web/task/m");
  const Answer answer =
      client_->Call("ReplaceMount", "sssssbsa{sv}", "web", "task", "m", "host",
                    "data", 1, "private", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("replaced_mount_id"), std::to_string(old));
  EXPECT_EQ(answer.values.at("read_only"), "true");
}

TEST_P(MountMethods, RepairMountMountsAnew) {
  MustPrepareAndMount();
  const std::uint64_t old = executor().MountIdOf("web/task/m");
  const Answer without =
      client_->Call("RepairMount", "sssa{sv}", "web", "task", "m", 0);
  ASSERT_TRUE(without.ok()) << without.message;
  EXPECT_EQ(without.values.at("replaced_mount_id"), std::to_string(old));
  EXPECT_EQ(without.values.at("reaches_task"), "false");
  EXPECT_NE(without.values.at("reason").find("inbox"), std::string::npos);
  ASSERT_TRUE(client_->Call("PrepareInbox", "ssa{sv}", "web", "task", 0).ok());
  // A mount that was lost is mounted again.
  executor().LoseMount("web/task/m");
  const Answer with =
      client_->Call("RepairMount", "sssa{sv}", "web", "task", "m", 0);
  ASSERT_TRUE(with.ok()) << with.message;
  EXPECT_EQ(with.values.at("reaches_task"), "true");
  EXPECT_NE(executor().MountIdOf("web/task/m"), 0U);
}

TEST_P(MountMethods, OpenTreeAnswersAnFd) {
  MustPrepare();
  const Answer answer = client_->Call("OpenTree", "ssssa{sv}", "web", "host",
                                      "data", "private", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "h");
}

TEST_P(MountMethods, AnInboxIsAnsweredAsAnFdToWhomItIsWantedBy) {
  MustPrepare();
  const Answer answer = client_->Call("PrepareInbox", "ssa{sv}", "web", "task",
                                      1, "open", "b", true);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types.at("tree"), "h");
  EXPECT_EQ(answer.values.at("host_path"), R"(b"/run/mountd/base/a/web/task")");
}

TEST_P(MountMethods, PrepareInboxAndRemoveInbox) {
  MustPrepare();
  const Answer answer =
      client_->Call("PrepareInbox", "ssa{sv}", "web", "task", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("host_path"), R"(b"/run/mountd/base/a/web/task")");
  EXPECT_EQ(answer.values.at("required_rootfs_propagation"), R"("slave")");
  EXPECT_FALSE(answer.values.contains("tree"));
  EXPECT_FALSE(answer.values.contains("mount_namespace"));
  ASSERT_TRUE(client_->Call("RemoveInbox", "ssa{sv}", "web", "task", 0).ok());
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

TEST_P(MountMethods, BindMountOfAVolume) {
  Publish(*client_);
  const Answer answer =
      client_->Call("BindMount", "sssssbsa{sv}", "web", "task", "m", "volume",
                    "data", 1, "host-to-task", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, kMountTypes);
  EXPECT_EQ(answer.values.at("read_only"), "true");
  EXPECT_EQ(answer.values.at("propagation"), R"("host-to-task")");
}

TEST_P(MountMethods, Unmount) {
  MustPrepareAndMount();
  const Answer answer = client_->Call("Unmount", "sssa{sv}", "web", "task", "m",
                                      1, "mode", "s", "detach");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
}

// Only a real cgroup has an id that tells its path; refusals_test.cc and the
// main job use one.
TEST_P(MountMethods, ListHolders) {
  MustPrepareAndMount();
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
  Types types = TypesOf<agent::Holders>();
  types.merge(Prefixed("holders.0.", TypesOf<agent::Holder>()));
  EXPECT_EQ(answer.types, types);
  EXPECT_EQ(answer.values.at("holders.0.pid"), "12");
  EXPECT_EQ(answer.values.at("holders.0.how"), R"("fd 5")");
  EXPECT_EQ(answer.values.at("complete"), "true");
  EXPECT_EQ(
      client_->Call("ListHolders", "sssa{sv}", "web", "task", "m", 0).error,
      "org.mountd1.Error.FailedPrecondition");
}

TEST_P(MountMethods, ListHandedOut) {
  MustPrepare();
  ASSERT_TRUE(
      client_
          ->Call("OpenTree", "ssssa{sv}", "web", "host", "data", "private", 0)
          .ok());
  exec::Holder holder;
  holder.pid = 12;
  holder.uid = ::geteuid();
  holder.kind = exec::HolderKind::kMount;
  executor().AddHolder(executor().last_handed_out(), holder);
  ASSERT_TRUE(
      client_
          ->Call("PrepareInbox", "ssa{sv}", "web", "task", 1, "open", "b", true)
          .ok());
  executor().AddHolder(executor().last_handed_out(), holder);
  const Answer answer = client_->Call("ListHandedOut", "sa{sv}", "web", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  Types types = {{"descriptors", "aa{sv}"},
                 {"descriptors.0.source_type", "s"},
                 {"descriptors.0.source", "s"},
                 {"descriptors.1.task", "s"},
                 {"complete", "b"}};
  for (const std::string one : {"descriptors.0.", "descriptors.1."}) {
    types.merge(Prefixed(one, TypesOf<agent::Holders>()));
    types.merge(Prefixed(one + "holders.0.", TypesOf<agent::Holder>()));
    types.merge(Types{{one + "kind", "s"}, {one + "mount_id", "t"}});
  }
  EXPECT_EQ(answer.types, types);
  EXPECT_EQ(answer.values.at("descriptors.0.kind"), R"("detached")");
  EXPECT_EQ(answer.values.at("descriptors.0.source_type"), R"("host")");
  EXPECT_EQ(answer.values.at("descriptors.0.source"), R"("data")");
  EXPECT_EQ(answer.values.at("descriptors.1.kind"), R"("inbox")");
  EXPECT_EQ(answer.values.at("descriptors.1.task"), R"("task")");
  EXPECT_EQ(answer.values.at("descriptors.1.holders.0.how"), R"("mount")");
}

TEST_P(MountMethods, VerifyTask) {
  MustPrepareAndMount();
  executor().PutCgroup(7, "/mountd-test");
  executor().SetTask(7);
  const Answer answer =
      client_->Call("VerifyTask", "ssha{sv}", "web", "task", 0, 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  Types types = TypesOf<agent::TaskReport>();
  types.merge(Prefixed("mounts.0.", TypesOf<agent::TaskMount>()));
  EXPECT_EQ(answer.types, types);
  EXPECT_EQ(answer.values.at("ok"), "false");
  EXPECT_EQ(answer.values.at("mounts.0.verdict"), R"("missing")");
}

MOUNTD_ON_BOTH_TRANSPORTS(MountMethods);

}  // namespace
}  // namespace mountd::test
