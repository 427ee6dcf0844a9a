// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Tasks attack by the device of their volume. Each attack succeeds against a
// plugin that only asks for a loop device and for its end.
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include "mountd/base/unique_fd.h"
#include "tests/csi/csi_local.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

namespace pb = ::csi::v1;
namespace fs = std::filesystem;
using grpc::StatusCode;

constexpr std::size_t kBlock = 4096;

std::string Bytes(const std::string& path, std::size_t size) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(file.get(), bytes.data(), size, 0);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

bool WriteThrough(const UniqueFd& device, const std::string& text) {
  return ::pwrite(device.get(), text.data(), text.size(), 0) ==
             static_cast<ssize_t>(text.size()) &&
         ::fsync(device.get()) == 0;
}

std::string LabelOf(const UniqueFd& device) {
  loop_info64 info{};
  return ::ioctl(device.get(), LOOP_GET_STATUS64, &info) == 0
             ? static_cast<const char*>(static_cast<void*>(info.lo_file_name))
             : "";
}

// Makes a change that any task may make that can open its device for writing.
bool SetLoop(const UniqueFd& device, const std::string& label,
             std::uint32_t flags) {
  loop_info64 info{};
  std::strncpy(static_cast<char*>(static_cast<void*>(info.lo_file_name)),
               label.c_str(), sizeof(info.lo_file_name) - 1);
  info.lo_flags = flags;
  return ::ioctl(device.get(), LOOP_SET_STATUS64, &info) == 0;
}

UniqueFd OpenDevice(const std::string& path, int mode = O_RDWR) {
  return UniqueFd(::open(path.c_str(), mode | O_CLOEXEC));
}

// Owns a loop device in the simplest way: takes a free one, and unbinds it by
// LOOP_CLR_FD.
class NaiveLoop {
 public:
  explicit NaiveLoop(const std::string& image) {
    const UniqueFd control = OpenDevice("/dev/loop-control");
    const UniqueFd file = OpenDevice(image);
    // Other programs may take the free device between the two calls.
    for (int tries = 0; tries < 32 && number_ < 0; ++tries) {
      const int free = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
      const UniqueFd device = OpenDevice("/dev/loop" + std::to_string(free));
      loop_config config{};
      config.fd = static_cast<__u32>(file.get());
      if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) {
        number_ = free;
      }
    }
  }
  ~NaiveLoop() { Detach(); }
  NaiveLoop(const NaiveLoop&) = delete;
  NaiveLoop& operator=(const NaiveLoop&) = delete;

  std::string Path() const { return "/dev/loop" + std::to_string(number_); }
  bool Detach() {
    const UniqueFd device = OpenDevice(Path());
    return ::ioctl(device.get(), LOOP_CLR_FD) == 0;
  }

 private:
  int number_ = -1;
};

class CsiLocalDevices : public CsiLocalPlugin {
 protected:
  void SetUp() override {
    CsiLocalPlugin::SetUp();
    if (!IsSkipped() && ::access("/dev/loop-control", F_OK) != 0) {
      GTEST_SKIP() << "there are no loop devices";
    }
  }

  std::string MustCreateDevice(const std::string& name) {
    return MustCreate(
        CreateRequest(name, "image", 16 * kMiB, BlockCapability()));
  }
  void MustUse(const std::string& volume) {
    ASSERT_EQ(StatusCode::OK, Stage(volume, BlockCapability()));
    ASSERT_EQ(StatusCode::OK, Publish(volume, "t", BlockCapability()));
  }
  void MustEnd(const std::string& volume) {
    EXPECT_EQ(StatusCode::OK, Unpublish(volume, "t"));
    const auto ended = TryUnstage(volume);
    EXPECT_EQ(StatusCode::OK, ended.code) << ended.message;
  }
  std::string ImageOf(const std::string& volume) const {
    return Data() + "/volumes/" + volume;
  }
  std::string NewFile(const std::string& name) const {
    const std::string path = root() + "/" + name;
    std::ofstream file(path);
    fs::resize_file(path, 16 * kMiB);
    return path;
  }
  // Makes a file system on a task's device, as root in the task's container
  // can.
  void MakeFilesystem(const std::string& path) {
    Process mkfs({"/usr/sbin/mkfs.ext4", "-q", "-F", "-L", "evil", path});
    ASSERT_EQ(0, mkfs.Wait());
  }
  // Returns the device by another mount, as a task has it in its container,
  // because that keeps no mount busy that csi-local unmounts.
  std::string DeviceAt(const std::string& target) const {
    return "/dev/loop" + std::to_string(minor(NumberAt(target)));
  }
  // Returns the device's number, which a container's node leads to for ever.
  dev_t NumberAt(const std::string& target) const {
    struct stat status {};
    return ::stat(Target(target).c_str(), &status) == 0 ? status.st_rdev : 0;
  }
  std::string RecordOf(const std::string& volume) const {
    return Data() + "/records/" + volume;
  }
  // Rewrites the record as the previous version wrote it.
  void MakeOld(const std::string& path, const std::string& fs_type) {
    std::ifstream file(path);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    text = std::regex_replace(text, std::regex("  access: \\w+\n"), "");
    text = std::regex_replace(text, std::regex("loop_number: \\d+\n"), "");
    if (text.find("fs_type") == std::string::npos && !fs_type.empty()) {
      text =
          std::regex_replace(text, std::regex("  kind: IMAGE\n"),
                             "  kind: IMAGE\n  fs_type: \"" + fs_type + "\"\n");
    }
    std::ofstream(path) << text;
  }
  StatusCode PublishToNode(const std::string& volume,
                           const pb::VolumeCapability& capability) {
    pb::ControllerPublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_node_id("node-1");
    *request.mutable_volume_capability() = capability;
    pb::ControllerPublishVolumeResponse response;
    grpc::ClientContext context;
    return controller_->ControllerPublishVolume(&context, request, &response)
        .error_code();
  }
  bool Confirms(const std::string& volume,
                const pb::VolumeCapability& capability) {
    pb::ValidateVolumeCapabilitiesRequest request;
    request.set_volume_id(volume);
    *request.add_volume_capabilities() = capability;
    pb::ValidateVolumeCapabilitiesResponse response;
    grpc::ClientContext context;
    return controller_->ValidateVolumeCapabilities(&context, request, &response)
               .ok() &&
           response.has_confirmed();
  }
  pb::CreateVolumeRequest CopyOf(const std::string& volume,
                                 const std::string& snapshot,
                                 const pb::VolumeCapability& capability) {
    auto request = CreateRequest("copy", "image", 16 * kMiB, capability);
    auto* source = request.mutable_volume_content_source();
    if (snapshot.empty()) {
      source->mutable_volume()->set_volume_id(volume);
    } else {
      source->mutable_snapshot()->set_snapshot_id(snapshot);
    }
    return request;
  }
};

TEST_F(CsiLocalDevices, WhatATaskWroteToItsDeviceIsNeverMounted) {
  const std::string id = MustCreateDevice("v");
  MustUse(id);
  MakeFilesystem(Target("t"));
  const auto snapshot = Snapshot("s", id);
  ASSERT_EQ(StatusCode::OK, snapshot.code) << snapshot.message;
  const std::string snapshot_id = snapshot.response.snapshot().snapshot_id();
  MustEnd(id);
  // The kernel would mount the task's bytes.
  {
    NaiveLoop naive(ImageOf(id));
    const std::string point = root() + "/naive";
    fs::create_directory(point);
    ASSERT_EQ(0,
              ::mount(naive.Path().c_str(), point.c_str(), "ext4", 0, nullptr))
        << std::strerror(errno);
    EXPECT_NAIVE(fs::exists(point + "/lost+found"));
    ASSERT_EQ(0, ::umount(point.c_str()));
  }
  for (const char* fs_type : {"", "ext4"}) {
    const auto mount = MountCapability(fs_type);
    EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(id, mount));
    EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Publish(id, "t", mount));
    EXPECT_EQ(StatusCode::INVALID_ARGUMENT, PublishToNode(id, mount));
    EXPECT_FALSE(Confirms(id, mount));
    EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Create(CopyOf(id, "", mount)).code);
    EXPECT_EQ(StatusCode::INVALID_ARGUMENT,
              Create(CopyOf(id, snapshot_id, mount)).code);
    EXPECT_EQ(StatusCode::ALREADY_EXISTS,
              Create(CreateRequest("v", "image", 16 * kMiB, mount)).code);
  }
  EXPECT_TRUE(Confirms(id, BlockCapability()));
  const std::string copy =
      MustCreate(CopyOf(id, snapshot_id, BlockCapability()));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(copy));
  EXPECT_EQ(StatusCode::OK, Stage(copy, BlockCapability()));
  EXPECT_EQ(StatusCode::OK, Unstage(copy));
}

TEST_F(CsiLocalDevices, WhatIsMountedIsNeverADevice) {
  const auto request =
      CreateRequest("v", "image", 16 * kMiB, MountCapability("ext4"));
  const std::string id = MustCreate(request);
  const auto snapshot = Snapshot("s", id);
  ASSERT_EQ(StatusCode::OK, snapshot.code) << snapshot.message;
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(id, BlockCapability()));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, PublishToNode(id, BlockCapability()));
  EXPECT_FALSE(Confirms(id, BlockCapability()));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT,
            Create(CopyOf(id, snapshot.response.snapshot().snapshot_id(),
                          BlockCapability()))
                .code);
  auto both = CreateRequest("both", "image", 16 * kMiB);
  *both.add_volume_capabilities() = BlockCapability();
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Create(both).code);
  EXPECT_TRUE(Loops().empty());
  const NaiveLoop naive(ImageOf(id));
  EXPECT_NAIVE(Bytes(naive.Path(), kBlock).size() == kBlock);
}

TEST_F(CsiLocalDevices, AnUnstageIsDoneWhenNobodyCanWriteToTheImage) {
  // LOOP_CLR_FD succeeds, and the task goes on.
  {
    const std::string file = NewFile("naive");
    NaiveLoop naive(file);
    const UniqueFd task = OpenDevice(naive.Path());
    ASSERT_TRUE(naive.Detach());
    ASSERT_TRUE(WriteThrough(task, "written after the end"));
    EXPECT_NAIVE(Bytes(file, 21) == "written after the end");
  }
  const std::string id = MustCreateDevice("v");
  MustUse(id);
  UniqueFd task = OpenDevice(DeviceAt("t"));
  ASSERT_TRUE(task.valid());
  ASSERT_EQ(StatusCode::OK, Unpublish(id, "t"));
  const auto held = TryUnstage(id);
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, held.code);
  EXPECT_NE(std::string::npos,
            held.message.find("process " + std::to_string(::getpid())))
      << held.message;
  // A task can undo the kernel's note that the device ends, but not
  // csi-local's.
  ASSERT_TRUE(SetLoop(task, "mine", 0));
  plugin_.KillAndWait();
  Start();
  for (const auto& capability : {BlockCapability(), MountCapability()}) {
    EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(id, capability));
  }
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION,
            Publish(id, "t", BlockCapability()));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Delete(id));
  task.reset();
  EXPECT_EQ(StatusCode::OK, Unstage(id));
  EXPECT_TRUE(Loops().empty());
  MustUse(id);
  MustEnd(id);
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

TEST_F(CsiLocalDevices, AMappingOrADeviceOnTopHoldsUpTheUnstage) {
  const std::string id = MustCreateDevice("v");
  MustUse(id);
  void* mapping = MAP_FAILED;
  std::optional<NaiveLoop> on_top(DeviceAt("t"));
  {
    const UniqueFd task = OpenDevice(DeviceAt("t"));
    mapping = ::mmap(nullptr, kBlock, PROT_READ | PROT_WRITE, MAP_SHARED,
                     task.get(), 0);
  }
  ASSERT_NE(MAP_FAILED, mapping);
  ASSERT_EQ(StatusCode::OK, Unpublish(id, "t"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Unstage(id));
  // No descriptor is left, and the mapping still writes to the image.
  std::strcpy(static_cast<char*>(mapping), "mapped");
  ASSERT_EQ(0, ::msync(mapping, kBlock, MS_SYNC));
  EXPECT_NAIVE(Bytes(ImageOf(id), 6) == "mapped");
  ASSERT_EQ(0, ::munmap(mapping, kBlock));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Unstage(id));
  on_top.reset();
  EXPECT_EQ(StatusCode::OK, Unstage(id));
  EXPECT_TRUE(Loops().empty());
}

TEST_F(CsiLocalDevices, ANodeThatATaskKeptLeadsToNoOtherVolume) {
  const std::string kept = root() + "/kept";
  const std::string copied = root() + "/copied";
  const std::string secret(16, 'S');
  std::ofstream(kept).close();
  // The next volume gets the number that has become free.
  {
    const std::string first = NewFile("first");
    const std::string second = NewFile("second");
    std::fstream(second) << secret;
    std::optional<NaiveLoop> naive(first);
    ASSERT_EQ(0, ::mount(naive->Path().c_str(), kept.c_str(), nullptr, MS_BIND,
                         nullptr));
    const std::string path = naive->Path();
    naive.reset();
    // Other programs also take devices and give them back.
    EXPECT_TRUE(Eventually([&] {
      naive.emplace(second);
      return naive->Path() == path;
    }));
    EXPECT_NAIVE(Bytes(kept, secret.size()) == secret);
    ASSERT_EQ(0, ::umount(kept.c_str()));
  }
  const std::string mine = MustCreateDevice("mine");
  MustUse(mine);
  const dev_t number = NumberAt("t");
  ASSERT_EQ(kLoopMajor, major(number));
  // In its container the task has a bind of its own, and a node that it has
  // made.
  ASSERT_EQ(
      0, ::mount(Target("t").c_str(), kept.c_str(), nullptr, MS_BIND, nullptr));
  ASSERT_EQ(0, ::mknod(copied.c_str(), S_IFBLK | 0600, number));
  // Any task may ask the kernel to unbind its device.
  UniqueFd own = OpenDevice(Target("t"));
  ASSERT_EQ(0, ::ioctl(own.get(), LOOP_CLR_FD));
  const std::string other = MustCreateDevice("other");
  ASSERT_EQ(StatusCode::OK, Stage(other, BlockCapability()));
  ASSERT_EQ(StatusCode::OK, Publish(other, "other", BlockCapability()));
  EXPECT_TRUE(WriteThrough(OpenDevice(Target("other")), secret));
  EXPECT_NE(number, NumberAt("other"));
  for (const std::string& node : {kept, copied}) {
    EXPECT_EQ(std::string(secret.size(), '\0'), Bytes(node, secret.size()));
  }
  EXPECT_EQ(StatusCode::OK, Unpublish(other, "other"));
  EXPECT_EQ(StatusCode::OK, Unstage(other));
  own.reset();
  MustEnd(mine);
  // The task's own device is gone, and no volume has its number.
  ASSERT_EQ(StatusCode::OK, Stage(other, BlockCapability()));
  ASSERT_EQ(StatusCode::OK, Publish(other, "other", BlockCapability()));
  EXPECT_NE(number, NumberAt("other"));
  for (const std::string& node : {kept, copied}) {
    EXPECT_EQ("", Bytes(node, secret.size()));
  }
  EXPECT_EQ(StatusCode::OK, Unpublish(other, "other"));
  EXPECT_EQ(StatusCode::OK, Unstage(other));
  ASSERT_EQ(0, ::umount(kept.c_str()));
  // Opening the node makes the device again where the kernel has autoloading.
  const UniqueFd control = OpenDevice("/dev/loop-control");
  ::ioctl(control.get(), LOOP_CTL_REMOVE, static_cast<int>(minor(number)));
}

TEST_F(CsiLocalDevices, ALabelThatATaskForgesIsBelievedByNobody) {
  const std::string victim =
      MustCreate(CreateRequest("victim", "image", 16 * kMiB));
  ASSERT_EQ(StatusCode::OK, Stage(victim));
  std::ofstream(Staging(victim) + "/file") << "the victim's";
  ASSERT_EQ(1U, Loops().size());
  const std::string label =
      LabelOf(OpenDevice("/dev/loop" + std::to_string(Loops()[0]), O_RDONLY));
  ASSERT_FALSE(label.empty());
  ASSERT_EQ(StatusCode::OK, Unstage(victim));
  const std::string evil = MustCreateDevice("evil");
  MustUse(evil);
  MakeFilesystem(Target("t"));
  ASSERT_TRUE(SetLoop(OpenDevice(Target("t")), label, LO_FLAGS_AUTOCLEAR));
  // A plugin that goes by labels takes this device for the victim's.
  EXPECT_NAIVE(LabelOf(OpenDevice(Target("t"), O_RDONLY)) == label);
  ASSERT_EQ(StatusCode::OK, Stage(victim));
  std::ifstream file(Staging(victim) + "/file");
  std::string text;
  std::getline(file, text);
  EXPECT_EQ("the victim's", text);
  file.close();
  EXPECT_EQ(2U, Loops().size());
  EXPECT_EQ(StatusCode::OK, Unstage(victim));
  // The forged label has not hidden the task's own device either.
  MustEnd(evil);
  EXPECT_TRUE(Loops().empty());
}

TEST_F(CsiLocalDevices, AFileThatATaskBindsInsteadIsNotTheVolume) {
  const std::string id = MustCreateDevice("v");
  MustUse(id);
  const std::string file = NewFile("tasks");
  const std::string kept = root() + "/kept";
  std::ofstream(kept).close();
  ASSERT_EQ(
      0, ::mount(Target("t").c_str(), kept.c_str(), nullptr, MS_BIND, nullptr));
  // csi-local is killed, so that the task is the last to have the device open.
  plugin_.KillAndWait();
  // A plugin that goes by the device's number then takes the file for the
  // volume. udev may have the device open for a moment as well.
  EXPECT_NAIVE(Eventually([&] {
    ::ioctl(OpenDevice(kept).get(), LOOP_CLR_FD);
    const UniqueFd task = OpenDevice(kept);
    const UniqueFd own = OpenDevice(file);
    loop_config config{};
    config.fd = static_cast<__u32>(own.get());
    return ::ioctl(task.get(), LOOP_CONFIGURE, &config) == 0;
  }));
  Start();
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION,
            Publish(id, "u", BlockCapability()));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Unstage(id));
  MustEnd(id);
  MustUse(id);
  EXPECT_EQ(1U, Loops().size());
  MustEnd(id);
  ASSERT_EQ(0, ::umount(kept.c_str()));
}

TEST_F(CsiLocalDevices, AMountThatSomebodyKeepsHoldsUpTheUnstage) {
  const std::string id = MustCreate(CreateRequest("v", "image", 16 * kMiB));
  ASSERT_EQ(StatusCode::OK, Stage(id));
  ASSERT_EQ(StatusCode::OK, Publish(id, "t"));
  Process task({"/usr/bin/unshare", "--mount", "--propagation", "private",
                "/bin/sleep", "1000"});
  const std::string process = "/proc/" + std::to_string(task.pid());
  EXPECT_TRUE(Eventually([&process] {
    std::ifstream file(process + "/comm");
    std::string name;
    return std::getline(file, name) && name == "sleep";
  }));
  EXPECT_EQ(StatusCode::OK, Unpublish(id, "t"));
  const auto held = TryUnstage(id);
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, held.code);
  EXPECT_NE(std::string::npos, held.message.find("(sleep)")) << held.message;
  EXPECT_EQ(0, MountsAt(Staging(id)));
  // Unmounting alone has achieved nothing, because the task still writes.
  EXPECT_NAIVE(static_cast<bool>(
      std::ofstream(process + "/root" + Staging(id) + "/late") << "x"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(id));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Delete(id));
  task.KillAndWait();
  EXPECT_EQ(StatusCode::OK, Unstage(id));
  EXPECT_TRUE(Loops().empty());
  ASSERT_EQ(StatusCode::OK, Stage(id));
  EXPECT_TRUE(fs::exists(Staging(id) + "/late"));
  EXPECT_EQ(StatusCode::OK, Unstage(id));
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

TEST_F(CsiLocalDevices, RecordsOfTheVersionBeforeGetOneAccess) {
  const std::string mounted =
      MustCreate(CreateRequest("mounted", "image", 16 * kMiB));
  const std::string raw = MustCreateDevice("raw");
  const std::string used = MustCreateDevice("used");
  const auto snapshot = Snapshot("s", used);
  ASSERT_EQ(StatusCode::OK, snapshot.code) << snapshot.message;
  const std::string snapshot_id = snapshot.response.snapshot().snapshot_id();
  MustUse(used);
  plugin_.KillAndWait();
  MakeOld(RecordOf(mounted), "");
  MakeOld(RecordOf(raw), "");
  MakeOld(RecordOf(used), "ext4");
  MakeOld(Data() + "/snapshot-records/" + snapshot_id, "ext4");
  Start();
  EXPECT_TRUE(Confirms(mounted, MountCapability()));
  EXPECT_FALSE(Confirms(mounted, BlockCapability()));
  EXPECT_TRUE(Confirms(raw, BlockCapability()));
  EXPECT_FALSE(Confirms(raw, MountCapability()));
  // The image has a file system, but is used as a device now.
  EXPECT_TRUE(Confirms(used, BlockCapability()));
  EXPECT_FALSE(Confirms(used, MountCapability("ext4")));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT,
            Create(CopyOf(used, snapshot_id, MountCapability("ext4"))).code);
  EXPECT_EQ(StatusCode::OK, Stage(used, BlockCapability()));
  EXPECT_EQ(1U, Loops().size());
  MustEnd(used);
  EXPECT_TRUE(Loops().empty());
  // The decision stays.
  plugin_.KillAndWait();
  Start();
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Stage(used));
  EXPECT_EQ(StatusCode::OK, Stage(mounted));
  EXPECT_EQ(StatusCode::OK, Unstage(mounted));
}

}  // namespace
}  // namespace mountd::testing
