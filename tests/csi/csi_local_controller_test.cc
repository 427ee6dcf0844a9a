// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes and snapshots are made, found again and deleted; a kill leaves none
// half made.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>

#include "tests/csi/csi_local.h"

namespace mountd::testing {
namespace {

namespace pb = ::csi::v1;
namespace fs = std::filesystem;
using grpc::StatusCode;

class CsiLocalController : public CsiLocalPlugin {
 protected:
  // Returns the files of all volumes or snapshots on the disk.
  std::set<std::string> Entries(const std::string& directory) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(Data() + "/" + directory)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
};

TEST_F(CsiLocalController, TheSameNameIsTheSameVolume) {
  const auto request = CreateRequest("a b/c", "directory", 4 * kMiB);
  const std::string id = MustCreate(request);
  EXPECT_EQ(id, MustCreate(request));
  EXPECT_EQ(1U, Entries("volumes").size());
  // The volume's name is no part of a path.
  EXPECT_EQ(std::string::npos, id.find_first_of("/ "));
  EXPECT_EQ(StatusCode::OK, Delete(id));
  EXPECT_EQ(StatusCode::OK, Delete(id));
  EXPECT_TRUE(Entries("volumes").empty());
  EXPECT_TRUE(Entries("records").empty());
}

TEST_F(CsiLocalController, TheSameNameForSomethingElseIsAlreadyExists) {
  const std::string id = MustCreate(CreateRequest("v", "directory", 4 * kMiB));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS,
            Create(CreateRequest("v", "directory", 8 * kMiB)).code);
  EXPECT_EQ(StatusCode::ALREADY_EXISTS,
            Create(CreateRequest("v", "image", 4 * kMiB)).code);
  auto limited = CreateRequest("v", "directory", 1 * kMiB);
  limited.mutable_capacity_range()->set_limit_bytes(2 * kMiB);
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Create(limited).code);
  // A smaller volume without a limit is the one that is there.
  EXPECT_EQ(id, MustCreate(CreateRequest("v", "directory", 1 * kMiB)));
  EXPECT_EQ(StatusCode::OK, Delete(id));
}

TEST_F(CsiLocalController, SizesThatCannotBeAreOutOfRange) {
  EXPECT_EQ(StatusCode::OUT_OF_RANGE,
            Create(CreateRequest("v", "image", 1LL << 50)).code);
  auto narrow = CreateRequest("v", "image", 0, MountCapability("xfs"));
  narrow.mutable_capacity_range()->set_limit_bytes(1 * kMiB);
  EXPECT_EQ(StatusCode::OUT_OF_RANGE, Create(narrow).code);
  auto crossed = CreateRequest("v", "directory", 2 * kMiB);
  crossed.mutable_capacity_range()->set_limit_bytes(1 * kMiB);
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Create(crossed).code);
  EXPECT_TRUE(Entries("records").empty());
}

TEST_F(CsiLocalController, WhatIsPromisedIsNotPromisedTwice) {
  Start({"--capacity", "64M"});
  const auto big = CreateRequest("big", "image", 48 * kMiB, BlockCapability());
  const std::string id = MustCreate(big);
  const auto more =
      CreateRequest("more", "image", 32 * kMiB, BlockCapability());
  EXPECT_EQ(StatusCode::RESOURCE_EXHAUSTED, Create(more).code);
  EXPECT_EQ(StatusCode::OUT_OF_RANGE,
            Create(CreateRequest("huge", "directory", 65 * kMiB)).code);
  EXPECT_EQ(StatusCode::RESOURCE_EXHAUSTED,
            Expand(id, 65 * kMiB - kMiB + 4096).code);
  EXPECT_EQ(StatusCode::OK, Delete(id));
  EXPECT_EQ(StatusCode::OK, Delete(MustCreate(more)));
}

TEST_F(CsiLocalController, RequestsThatMakeNoSenseAreInvalid) {
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT,
            Create(CreateRequest("v", "floppy", kMiB)).code);
  EXPECT_EQ(
      StatusCode::INVALID_ARGUMENT,
      Create(CreateRequest("v", "directory", kMiB, BlockCapability())).code);
  EXPECT_EQ(
      StatusCode::INVALID_ARGUMENT,
      Create(CreateRequest("v", "image", kMiB, MountCapability("btrfs"))).code);
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT,
            Create(CreateRequest(std::string("a\nb"), "directory", kMiB)).code);
  EXPECT_EQ(
      StatusCode::INVALID_ARGUMENT,
      Create(CreateRequest(std::string(129, 'a'), "directory", kMiB)).code);
  auto unknown = CreateRequest("v", "directory", kMiB);
  (*unknown.mutable_parameters())["path"] = "/etc";
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Create(unknown).code);
  auto elsewhere = CreateRequest("v", "directory", kMiB);
  (*elsewhere.mutable_accessibility_requirements()
        ->add_requisite()
        ->mutable_segments())["csi-local.mountd.org/node"] = "node-2";
  EXPECT_EQ(StatusCode::RESOURCE_EXHAUSTED, Create(elsewhere).code);
  EXPECT_TRUE(Entries("records").empty());
}

TEST_F(CsiLocalController, PagesShowEverythingOnce) {
  std::set<std::string> made;
  for (int i = 0; i < 5; ++i) {
    made.insert(
        MustCreate(CreateRequest("v" + std::to_string(i), "directory", kMiB)));
  }
  std::multiset<std::string> seen;
  std::string token;
  do {
    const auto page = List(2, token);
    ASSERT_EQ(StatusCode::OK, page.code);
    for (const auto& entry : page.response.entries()) {
      seen.insert(entry.volume().volume_id());
      // A token stays valid after the deletion of the volume that it names.
      EXPECT_EQ(StatusCode::OK, Delete(entry.volume().volume_id()));
    }
    token = page.response.next_token();
  } while (!token.empty());
  EXPECT_EQ((std::multiset<std::string>(made.begin(), made.end())), seen);
  EXPECT_EQ(StatusCode::ABORTED, List(2, "elsewhere").code);
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, List(-1).code);
}

TEST_F(CsiLocalController, NoMoreVolumesArePublishedThanTheNodeTakes) {
  Start({"--max-volumes", "1"});
  const std::string one = MustCreate(CreateRequest("1", "directory", kMiB));
  const std::string two = MustCreate(CreateRequest("2", "directory", kMiB));
  const auto publish = [this](const std::string& volume, bool read_only) {
    pb::ControllerPublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_node_id("node-1");
    request.set_readonly(read_only);
    *request.mutable_volume_capability() = MountCapability();
    pb::ControllerPublishVolumeResponse response;
    grpc::ClientContext context;
    return controller_->ControllerPublishVolume(&context, request, &response)
        .error_code();
  };
  EXPECT_EQ(StatusCode::OK, publish(one, false));
  EXPECT_EQ(StatusCode::OK, publish(one, false));
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, publish(one, true));
  EXPECT_EQ(StatusCode::RESOURCE_EXHAUSTED, publish(two, false));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Delete(one));
  pb::ControllerUnpublishVolumeRequest request;
  request.set_volume_id(one);
  pb::ControllerUnpublishVolumeResponse response;
  grpc::ClientContext context;
  EXPECT_TRUE(
      controller_->ControllerUnpublishVolume(&context, request, &response)
          .ok());
  EXPECT_EQ(StatusCode::OK, publish(two, false));
}

TEST_F(CsiLocalController, ADirectorysSnapshotIsAllOfItAndFollowsNoLink) {
  const std::string id = MustCreate(CreateRequest("v", "directory", kMiB));
  const std::string tree = Data() + "/volumes/" + id;
  std::ofstream(tree + "/file") << "old";
  fs::create_hard_link(tree + "/file", tree + "/again");
  fs::create_directories(tree + "/a/b");
  ASSERT_EQ(0, ::chmod((tree + "/a").c_str(), 02750));
  ASSERT_EQ(0, ::lchown((tree + "/a").c_str(), 1000, 1001));
  fs::create_symlink("/etc", tree + "/a/link");
  ASSERT_EQ(0, ::mkfifo((tree + "/pipe").c_str(), 0600));
  ASSERT_EQ(0, ::truncate((tree + "/file").c_str(), 64 * kMiB));

  const auto snapshot = Snapshot("s", id);
  ASSERT_EQ(StatusCode::OK, snapshot.code) << snapshot.message;
  std::ofstream(tree + "/file") << "new";
  EXPECT_EQ(StatusCode::OK, Delete(id));
  auto request = CreateRequest("w", "directory", kMiB);
  request.mutable_volume_content_source()->mutable_snapshot()->set_snapshot_id(
      snapshot.response.snapshot().snapshot_id());
  const std::string copy = Data() + "/volumes/" + MustCreate(request);

  std::string text(3, '\0');
  std::ifstream(copy + "/file").read(text.data(), 3);
  EXPECT_EQ("old", text);
  EXPECT_TRUE(fs::equivalent(copy + "/file", copy + "/again"));
  EXPECT_EQ("/etc", fs::read_symlink(copy + "/a/link"));
  EXPECT_TRUE(fs::is_fifo(copy + "/pipe"));
  struct stat status {};
  ASSERT_EQ(0, ::stat((copy + "/a").c_str(), &status));
  EXPECT_EQ(02750U, status.st_mode & 07777U);
  EXPECT_EQ(1001U, status.st_gid);
  ASSERT_EQ(0, ::stat((copy + "/file").c_str(), &status));
  EXPECT_EQ(64 * kMiB, status.st_size);
  EXPECT_LT(status.st_blocks, 1000) << "holes were filled";
}

TEST_F(CsiLocalController, SnapshotsAreIdempotentToo) {
  const std::string one = MustCreate(CreateRequest("1", "directory", kMiB));
  const std::string two = MustCreate(CreateRequest("2", "directory", kMiB));
  const auto snapshot = Snapshot("s", one);
  ASSERT_EQ(StatusCode::OK, snapshot.code);
  const std::string id = snapshot.response.snapshot().snapshot_id();
  const auto again = Snapshot("s", one);
  EXPECT_EQ(id, again.response.snapshot().snapshot_id());
  EXPECT_EQ(snapshot.response.snapshot().creation_time().nanos(),
            again.response.snapshot().creation_time().nanos());
  EXPECT_EQ(StatusCode::ALREADY_EXISTS, Snapshot("s", two).code);
  EXPECT_EQ(StatusCode::NOT_FOUND, Snapshot("t", "none").code);
  EXPECT_EQ(StatusCode::OK, DeleteSnapshot(id));
  EXPECT_EQ(StatusCode::OK, DeleteSnapshot(id));
  EXPECT_TRUE(Entries("snapshots").empty());
}

// A record that cannot be read may be that of a snapshot, which the new one
// would overwrite.
TEST_F(CsiLocalController, ASnapshotWithAnUnreadableRecordStays) {
  const std::string one = MustCreate(CreateRequest("1", "directory", kMiB));
  const auto made = Snapshot("s", one);
  ASSERT_EQ(StatusCode::OK, made.code);
  const std::string record =
      Data() + "/snapshot-records/" + made.response.snapshot().snapshot_id();
  std::ofstream(record) << "state: REA";
  EXPECT_EQ(StatusCode::INTERNAL, Snapshot("s", one).code);
  EXPECT_EQ(10U, fs::file_size(record));
  EXPECT_EQ(1U, Entries("snapshots").size());
}

// The second snapshot finds no room, although the first is still being made.
TEST_F(CsiLocalController, ASnapshotInTheMakingTakesItsRoom) {
  Start({"--capacity", "64M"});
  const std::string id =
      MustCreate(CreateRequest("1", "image", 24 * kMiB, BlockCapability()));
  std::ofstream(Data() + "/volumes/" + id, std::ios::in)
      << std::string(24 * kMiB, 'x');
  const auto first = Snapshot("first", id);
  ASSERT_EQ(StatusCode::OK, first.code);
  const std::string name = first.response.snapshot().snapshot_id();
  EXPECT_EQ(StatusCode::RESOURCE_EXHAUSTED, Snapshot("second", id).code);
  // The disk now looks as if csi-local had just begun the first snapshot.
  const std::string record = Data() + "/snapshot-records/" + name;
  std::ifstream file(record);
  std::string text(std::istreambuf_iterator<char>(file), {});
  text.replace(text.find("READY"), 5, "MAKING");
  std::ofstream(record) << text;
  fs::resize_file(Data() + "/snapshots/" + name, 0);
  EXPECT_EQ(StatusCode::RESOURCE_EXHAUSTED, Snapshot("second", id).code);
}

// A task's lease makes an open of the file wait for
// /proc/sys/fs/lease-break-time, and then succeed.
TEST_F(CsiLocalController, ASnapshotDoesNotWaitForALease) {
  const std::string id = MustCreate(CreateRequest("v", "directory", kMiB));
  const std::string path = Data() + "/volumes/" + id + "/file";
  std::ofstream(path) << "text";
  ::signal(SIGIO, SIG_IGN);  // tells the holder that somebody waits
  UniqueFd lease(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::fcntl(lease.get(), F_SETLEASE, F_WRLCK), 0);
  EXPECT_NE(Snapshot("s", id).code, StatusCode::OK);
  lease.reset();
  EXPECT_EQ(Snapshot("s", id).code, StatusCode::OK);
}

TEST_F(CsiLocalController, NothingInMemoryIsCopied) {
  const std::string id = MustCreate(CreateRequest("v", "tmpfs", kMiB));
  EXPECT_EQ(StatusCode::INVALID_ARGUMENT, Snapshot("s", id).code);
  EXPECT_TRUE(Entries("snapshot-records").empty());
}

TEST_F(CsiLocalController, WhatIsNotReadyIsTakenAwayAtTheStart) {
  const std::string kept = MustCreate(CreateRequest("kept", "directory", kMiB));
  Kill();
  for (const char* state : {"MAKING", "DELETING"}) {
    const std::string id = std::string("vol-") + state;
    fs::create_directories(Data() + "/volumes/" + id + "/inside");
    fs::create_directories(Data() + "/publications/" + id);
    std::ofstream(Data() + "/records/" + id)
        << "state: " << state << " id: \"" << id << "\" content { }";
    std::ofstream(Data() + "/snapshots/" + id) << "half";
    std::ofstream(Data() + "/snapshot-records/" + id)
        << "state: " << state << " id: \"" << id
        << "\" content { kind: IMAGE }";
  }
  // One record was being written, and one is of a release with more fields.
  std::ofstream(Data() + "/records/vol-x~") << "state: REA";
  std::ofstream(Data() + "/records/" + kept, std::ios::app) << "shade: 3\n";
  Start();
  EXPECT_EQ((std::set<std::string>{kept}), Entries("volumes"));
  EXPECT_EQ(0U, Entries("snapshots").size());
  EXPECT_EQ(0U, Entries("publications").size());
  EXPECT_EQ(1, List().response.entries_size());
}

TEST_F(CsiLocalController, ADirectoryWithoutARecordIsAdoptedWhenItIsStaged) {
  Start({"--create-on-stage"});
  fs::create_directory(Data() + "/volumes/old");
  std::ofstream(Data() + "/volumes/old/file") << "x";
  Start({"--create-on-stage"});
  ASSERT_EQ(StatusCode::OK, Stage("old"));
  EXPECT_TRUE(fs::exists(Staging("old") + "/file"));
  EXPECT_EQ(StatusCode::FAILED_PRECONDITION, Delete("old"));
  EXPECT_EQ(StatusCode::OK, Unstage("old"));
  Start();
  EXPECT_EQ(StatusCode::NOT_FOUND, Stage("new"));
  EXPECT_EQ(StatusCode::OK, Stage("old"));
  EXPECT_EQ(StatusCode::OK, Unstage("old"));
  EXPECT_EQ(StatusCode::OK, Delete("old"));
}

TEST_F(CsiLocalController, OneDataDirectoryHasOnePlugin) {
  Process second(
      {CSI_LOCAL, "--endpoint", root() + "/other.sock", "--data-dir", Data()});
  EXPECT_EQ(1, second.Wait());
}

// csi-local is killed at random moments, while volumes and snapshots are made
// and deleted. Afterwards each of them is there as a whole, or not at all.
TEST_F(CsiLocalController, KillsLeaveNothingHalfMade) {
  for (int round = 0; round < 12; ++round) {
    std::atomic<int> calls{0};
    std::thread caller([this, &calls] {
      for (int i = 0; i < 100; ++i) {
        const auto volume = Create(
            CreateRequest("v" + std::to_string(i % 3), "image", 8 * kMiB));
        if (volume.code == StatusCode::UNAVAILABLE) {
          return;
        }
        const std::string& id = volume.response.volume().volume_id();
        const auto snapshot = Snapshot("s" + std::to_string(i % 2), id);
        DeleteSnapshot(snapshot.response.snapshot().snapshot_id());
        Delete(id);
        ++calls;
      }
    });
    while (calls < round % 3) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * (round % 5)));
    plugin_.KillAndWait();
    caller.join();
    Start();
    const auto list = List();
    ASSERT_EQ(StatusCode::OK, list.code);
    std::set<std::string> listed;
    for (const auto& entry : list.response.entries()) {
      listed.insert(entry.volume().volume_id());
      EXPECT_FALSE(entry.status().volume_condition().abnormal());
    }
    EXPECT_EQ(listed, Entries("volumes"));
    EXPECT_EQ(Entries("snapshot-records"), Entries("snapshots"));
  }
}

}  // namespace
}  // namespace mountd::testing
