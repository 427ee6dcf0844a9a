// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Each kind of volume on the real kernel: it is mounted, written, grown and
// copied.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <type_traits>

#include "mountd/base/unique_fd.h"
#include "tests/csi/csi_local.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace pb = ::csi::v1;
namespace fs = std::filesystem;
using grpc::StatusCode;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void Write(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

// Returns the errno of writing so many bytes to a new file; 0 if all fit.
int Fill(const std::string& path, std::int64_t bytes) {
  const UniqueFd file(
      ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const std::string block(kMiB, 'x');
  for (std::int64_t done = 0; done < bytes; done += kMiB) {
    const ssize_t put = ::write(file.get(), block.data(), block.size());
    if (put != kMiB) {
      return put < 0 ? errno : ENOSPC;
    }
  }
  return 0;
}

// True with CAP_SYS_RESOURCE, which ext4 requires to grow while it is mounted.
// Some machines do not give it to root.
bool MayUseReservedResources() {
  const std::unique_ptr<std::remove_pointer_t<cap_t>, int (*)(void*)> own(
      ::cap_get_proc(), &::cap_free);
  cap_flag_value_t value = CAP_CLEAR;
  return ::cap_get_flag(own.get(), CAP_SYS_RESOURCE, CAP_EFFECTIVE, &value) ==
             0 &&
         value == CAP_SET;
}

std::int64_t TotalBytes(const std::string& path) {
  struct statvfs status {};
  return ::statvfs(path.c_str(), &status) == 0
             ? static_cast<std::int64_t>(status.f_blocks * status.f_frsize)
             : -1;
}

std::int64_t DeviceBytes(const std::string& path) {
  const UniqueFd device(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t bytes = 0;
  return ::ioctl(device.get(), BLKGETSIZE64, &bytes) == 0
             ? static_cast<std::int64_t>(bytes)
             : -1;
}

class CsiLocalVolumes : public CsiLocalPlugin {
 protected:
  void SetUp() override {
    CsiLocalPlugin::SetUp();
    if (!IsSkipped() && ::access("/dev/loop-control", F_OK) != 0) {
      GTEST_SKIP() << "there are no loop devices";
    }
  }

  // Stages the volume, and publishes it at Target("t").
  void MustUse(const std::string& volume,
               const pb::VolumeCapability& capability = MountCapability()) {
    ASSERT_EQ(StatusCode::OK, Stage(volume, capability));
    ASSERT_EQ(StatusCode::OK, Publish(volume, "t", capability));
  }
  void MustEnd(const std::string& volume) {
    EXPECT_EQ(StatusCode::OK, Unpublish(volume, "t"));
    EXPECT_FALSE(fs::exists(Target("t")));
    EXPECT_EQ(StatusCode::OK, Unstage(volume));
  }
  pb::CreateVolumeRequest CloneOf(const std::string& volume, std::int64_t bytes,
                                  const pb::VolumeCapability& capability) {
    auto request = CreateRequest("clone", "image", bytes, capability);
    request.mutable_volume_content_source()->mutable_volume()->set_volume_id(
        volume);
    return request;
  }
};

class CsiLocalImages : public CsiLocalVolumes,
                       public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    CsiLocalVolumes::SetUp();
    const std::string mkfs = std::string("/usr/sbin/mkfs.") + GetParam();
    if (!IsSkipped() && ::access(mkfs.c_str(), X_OK) != 0 &&
        ::access(mkfs.substr(4).c_str(), X_OK) != 0) {
      GTEST_SKIP() << "there is no mkfs." << GetParam();
    }
    if (!IsSkipped() &&
        Read("/proc/filesystems").find(GetParam()) == std::string::npos) {
      GTEST_SKIP() << "this kernel has no " << GetParam();
    }
  }
  bool IsXfs() const { return std::string("xfs") == GetParam(); }
  std::int64_t Bytes() const { return IsXfs() ? 320 * kMiB : 32 * kMiB; }
  pb::CreateVolumeRequest Request(const std::string& name) const {
    return CreateRequest(name, "image", Bytes(), MountCapability(GetParam()));
  }
};

TEST_P(CsiLocalImages, KeepTheirFilesAndTheirSize) {
  const std::string id = MustCreate(Request("v"));
  MustUse(id);
  struct stat status {};
  ASSERT_EQ(0, ::stat(Target("t").c_str(), &status));
  EXPECT_EQ(kLoopMajor, major(status.st_dev));
  // Tasks of any user may write to it.
  EXPECT_EQ(0777U, status.st_mode & 07777U);
  for (const std::string& path : {Staging(id), Target("t")}) {
    struct statvfs flags {};
    ASSERT_EQ(0, ::statvfs(path.c_str(), &flags));
    EXPECT_NE(0U, flags.f_flag & ST_NOSUID);
    EXPECT_NE(0U, flags.f_flag & ST_NODEV);
  }
  Write(Target("t") + "/kept", "kept");
  EXPECT_EQ(ENOSPC, Fill(Target("t") + "/full", 2 * Bytes()));
  const auto stats = Stats(id, Target("t"));
  ASSERT_EQ(2, stats.response.usage_size());
  EXPECT_EQ(pb::VolumeUsage::BYTES, stats.response.usage(0).unit());
  EXPECT_LE(stats.response.usage(0).total(), Bytes());
  EXPECT_LT(stats.response.usage(0).available(), kMiB);
  EXPECT_FALSE(stats.response.volume_condition().abnormal());
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Delete(id));
  MustEnd(id);
  // A mode that users set on the root directory stays.
  ASSERT_EQ(StatusCode::OK, Stage(id));
  ASSERT_EQ(0, ::chmod(Staging(id).c_str(), 0700));
  ASSERT_EQ(StatusCode::OK, Unstage(id));
  MustUse(id);
  ASSERT_EQ(0, ::stat(Target("t").c_str(), &status));
  EXPECT_EQ(0700U, status.st_mode & 07777U);
  EXPECT_EQ("kept", Read(Target("t") + "/kept"));
  MustEnd(id);
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

TEST_P(CsiLocalImages, HaveOneDeviceWhereverTheyAreStaged) {
  const std::string id = MustCreate(Request("v"));
  MustUse(id);
  plugin_.KillAndWait();
  Start();
  MustUse(id);
  const std::string elsewhere = root() + "/elsewhere";
  fs::create_directory(elsewhere);
  pb::NodeStageVolumeRequest request;
  request.set_volume_id(id);
  request.set_staging_target_path(elsewhere);
  *request.mutable_volume_capability() = MountCapability();
  pb::NodeStageVolumeResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(node_->NodeStageVolume(&context, request, &response).ok());
  EXPECT_EQ(1U, Loops().size());
  Write(elsewhere + "/file", "x");
  EXPECT_EQ("x", Read(Target("t") + "/file"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(id, BlockCapability()));
  ASSERT_EQ(0, ::umount(elsewhere.c_str()));
  MustEnd(id);
}

TEST_P(CsiLocalImages, GrowWhileTheyAreMountedWhereTheKernelAllowsIt) {
  const std::string id = MustCreate(Request("v"));
  MustUse(id);
  Write(Target("t") + "/kept", "kept");
  const std::int64_t before = TotalBytes(Target("t"));
  const auto expanded = Expand(id, 2 * Bytes());
  ASSERT_EQ(StatusCode::OK, expanded.code) << expanded.message;
  EXPECT_EQ(2 * Bytes(), expanded.response.capacity_bytes());
  EXPECT_TRUE(expanded.response.node_expansion_required());
  const auto grown = NodeExpand(id, Target("t"));
  if (!IsXfs() && !MayUseReservedResources()) {
    EXPECT_EQ(StatusCode::FAILED_PRECONDITION, grown.code) << grown.message;
  } else {
    ASSERT_EQ(StatusCode::OK, grown.code) << grown.message;
    EXPECT_GT(TotalBytes(Target("t")), before + Bytes() / 2);
  }
  MustEnd(id);
  MustUse(id);
  EXPECT_GT(TotalBytes(Target("t")), before + Bytes() / 2);
  EXPECT_EQ("kept", Read(Target("t") + "/kept"));
  EXPECT_EQ(StatusCode::OK, NodeExpand(id, Target("t")).code);
  EXPECT_EQ(StatusCode::OK, Expand(id, kMiB).code);
  EXPECT_EQ(StatusCode::OUT_OF_RANGE, Expand(id, 0, kMiB).code);
  MustEnd(id);
}

TEST_P(CsiLocalImages, AreCopiedAsTheyAreWhileTheyAreUsed) {
  const std::string id = MustCreate(Request("v"));
  MustUse(id);
  Write(Target("t") + "/file", "old");
  const auto snapshot = Snapshot("s", id);
  ASSERT_EQ(StatusCode::OK, snapshot.code) << snapshot.message;
  Write(Target("t") + "/file", "new");
  const std::string clone =
      MustCreate(CloneOf(id, 2 * Bytes(), MountCapability()));
  auto request = CreateRequest("restored", "image", 0);
  request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(
      snapshot.response.snapshot().snapshot_id());
  request.clear_capacity_range();
  const std::string restored = MustCreate(request);
  ASSERT_EQ(StatusCode::OK, Stage(clone));
  ASSERT_EQ(StatusCode::OK, Stage(restored));
  EXPECT_EQ("new", Read(Staging(clone) + "/file"));
  EXPECT_EQ("old", Read(Staging(restored) + "/file"));
  EXPECT_GT(TotalBytes(Staging(clone)), TotalBytes(Staging(id)) + Bytes() / 2);
  EXPECT_EQ(StatusCode::OK, Unstage(clone));
  EXPECT_EQ(StatusCode::OK, Unstage(restored));
  MustEnd(id);
}

TEST_P(CsiLocalImages, ThatWereFrozenThawWithTheNextStart) {
  const std::string id = MustCreate(Request("v"));
  MustUse(id);
  {
    const UniqueFd held(
        ::open(Target("t").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(0, ::ioctl(held.get(), FIFREEZE, 0));
    plugin_.KillAndWait();
    Start();
    // csi-local has thawed the file system.
    EXPECT_EQ(-1, ::ioctl(held.get(), FITHAW, 0));
  }
  MustEnd(id);
}

TEST_P(CsiLocalImages, SayWhenTheyRefuseWritesOrAreGone) {
  const std::string id = MustCreate(Request("v"));
  MustUse(id);
  EXPECT_EQ(0, Health(id).response.volume_health().health_statuses_size());
  ASSERT_EQ(0, ::mount(nullptr, Staging(id).c_str(), nullptr,
                       MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, nullptr));
  auto health = Health(id).response.volume_health();
  ASSERT_EQ(1, health.health_statuses_size());
  EXPECT_EQ(pb::DEGRADED, health.health_statuses(0).status());
  EXPECT_EQ("FilesystemReadOnly", health.health_statuses(0).reason());
  EXPECT_TRUE(Stats(id, Target("t")).response.volume_condition().abnormal());
  fs::remove(Data() + "/volumes/" + id);
  health = Health(id).response.volume_health();
  ASSERT_EQ(2, health.health_statuses_size());
  EXPECT_EQ(pb::DATA_LOSS, health.health_statuses(0).status());
  const auto list = List();
  EXPECT_TRUE(list.response.entries(0).status().volume_condition().abnormal());
  // The volume can be removed all the same.
  MustEnd(id);
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

INSTANTIATE_TEST_SUITE_P(, CsiLocalImages, ::testing::Values("ext4", "xfs"),
                         [](const auto& fs_type) {
                           return std::string(fs_type.param);
                         });

TEST_F(CsiLocalVolumes, ADeviceIsItsImagesBytes) {
  const std::string id =
      MustCreate(CreateRequest("v", "image", 4 * kMiB, BlockCapability()));
  MustUse(id, BlockCapability());
  struct stat status {};
  ASSERT_EQ(0, ::stat(Target("t").c_str(), &status));
  ASSERT_TRUE(S_ISBLK(status.st_mode));
  EXPECT_EQ(4 * kMiB, DeviceBytes(Target("t")));
  {
    const UniqueFd device(::open(Target("t").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(5, ::pwrite(device.get(), "bytes", 5, 4096));
    ASSERT_EQ(0, ::fsync(device.get()));
  }
  EXPECT_EQ("bytes", Read(Data() + "/volumes/" + id).substr(4096, 5));
  EXPECT_EQ(4 * kMiB, Stats(id, Target("t")).response.usage(0).total());
  // The device exists because the volume is staged, for no other reason.
  plugin_.KillAndWait();
  Start();
  MustUse(id, BlockCapability());
  EXPECT_EQ(1U, Loops().size());
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Unstage(id));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Delete(id));
  ASSERT_EQ(StatusCode::OK, Expand(id, 8 * kMiB).code);
  ASSERT_EQ(StatusCode::OK, NodeExpand(id, Target("t")).code);
  EXPECT_EQ(8 * kMiB, DeviceBytes(Target("t")));
  MustEnd(id);
  EXPECT_TRUE(Eventually([this] { return Loops().empty(); }));
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

TEST_F(CsiLocalVolumes, AReadersDeviceTakesNoWrites) {
  const std::string id =
      MustCreate(CreateRequest("v", "image", 4 * kMiB, BlockCapability()));
  const auto reader = BlockCapability(Mode::SINGLE_NODE_READER_ONLY);
  ASSERT_EQ(StatusCode::OK, Stage(id, BlockCapability()));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Stage(id, reader));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Publish(id, "t", reader));
  ASSERT_EQ(StatusCode::OK, Unstage(id));
  MustUse(id, reader);
  {
    const UniqueFd device(::open(Target("t").c_str(), O_RDWR | O_CLOEXEC));
    EXPECT_EQ(-1, ::pwrite(device.get(), "bytes", 5, 0));
  }
  MustEnd(id);
}

TEST_F(CsiLocalVolumes, AnImageWithoutAFileSystemIsNotMounted) {
  const std::string id =
      MustCreate(CreateRequest("v", "image", 4 * kMiB, BlockCapability()));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(id));
  EXPECT_EQ(StatusCode::OK, Stage(id, BlockCapability()));
  EXPECT_EQ(StatusCode::OK, Unstage(id));
}

TEST_F(CsiLocalVolumes, MemoryIsAsLargeAsWasAskedForAndGrows) {
  const std::string id = MustCreate(CreateRequest("v", "tmpfs", 4 * kMiB));
  MustUse(id);
  EXPECT_EQ(4 * kMiB, TotalBytes(Target("t")));
  EXPECT_EQ(ENOSPC, Fill(Target("t") + "/full", 8 * kMiB));
  plugin_.KillAndWait();
  Start();
  MustUse(id);
  EXPECT_EQ(1, MountsAt(Target("t")));
  ASSERT_EQ(StatusCode::OK, Expand(id, 16 * kMiB).code);
  ASSERT_EQ(StatusCode::OK, NodeExpand(id, Target("t")).code);
  EXPECT_EQ(16 * kMiB, TotalBytes(Target("t")));
  EXPECT_EQ(0, Fill(Target("t") + "/more", 8 * kMiB));
  MustEnd(id);
}

TEST_F(CsiLocalVolumes, NobodyElsesMemoryIsTakenForTheVolumes) {
  const std::string id = MustCreate(CreateRequest("v", "tmpfs", 4 * kMiB));
  fs::create_directory(Staging(id));
  ASSERT_EQ(0, ::mount("csi-local", Staging(id).c_str(), "tmpfs", 0, nullptr));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Stage(id));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Unstage(id));
  ASSERT_EQ(0, ::umount(Staging(id).c_str()));
}

TEST_F(CsiLocalVolumes, TheMountGroupMayWriteAndOwnsWhatIsMade) {
  for (const char* kind : {"directory", "tmpfs", "image"}) {
    const std::string id = MustCreate(CreateRequest(kind, kind, 16 * kMiB));
    auto capability = MountCapability();
    capability.mutable_mount()->set_volume_mount_group("1234");
    MustUse(id, capability);
    Write(Target("t") + "/file", "x");
    struct stat status {};
    ASSERT_EQ(0, ::stat((Target("t") + "/file").c_str(), &status));
    EXPECT_EQ(1234U, status.st_gid) << kind;
    ASSERT_EQ(0, ::stat(Target("t").c_str(), &status));
    EXPECT_EQ(02070U, status.st_mode & 02070U) << kind;
    MustEnd(id);
  }
}

TEST_F(CsiLocalVolumes, APathWhereTheVolumeIsNotIsNotFound) {
  const std::string id = MustCreate(CreateRequest("v", "directory", kMiB));
  const std::string other = MustCreate(CreateRequest("w", "directory", kMiB));
  MustUse(id);
  EXPECT_EQ(StatusCode::OK, Stats(id, Staging(id)).code);
  EXPECT_EQ(StatusCode::NOT_FOUND, Stats(other, Target("t")).code);
  EXPECT_EQ(StatusCode::NOT_FOUND, Stats(id, "/proc").code);
  EXPECT_EQ(StatusCode::NOT_FOUND, NodeExpand(id, Data()).code);
  MustEnd(id);
}

TEST_F(CsiLocalVolumes, AnotherFileInATargetsPlaceStays) {
  const std::string id =
      MustCreate(CreateRequest("v", "image", 4 * kMiB, BlockCapability()));
  Write(Target("t"), "precious");
  EXPECT_NE(StatusCode::OK, Unpublish(id, "t"));
  EXPECT_EQ("precious", Read(Target("t")));
  fs::remove(Target("t"));
  fs::create_symlink("/etc/passwd", Target("t"));
  EXPECT_EQ(StatusCode::OK, Stage(id, BlockCapability()));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Publish(id, "t", BlockCapability()));
  EXPECT_NE(StatusCode::OK, Unpublish(id, "t"));
  EXPECT_TRUE(fs::is_symlink(Target("t")));
  EXPECT_EQ(StatusCode::OK, Unstage(id));
}

TEST_F(CsiLocalVolumes, ADeletedDirectorysMountsGoAllTheSame) {
  const std::string id = MustCreate(CreateRequest("v", "directory", kMiB));
  MustUse(id);
  fs::remove_all(Data() + "/volumes/" + id);
  const auto health = Health(id).response.volume_health();
  ASSERT_EQ(1, health.health_statuses_size());
  EXPECT_EQ("ContentMissing", health.health_statuses(0).reason());
  MustEnd(id);
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

}  // namespace
}  // namespace mountd::testing
