// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-nomad-volume: requests as Nomad's client and as hostile jobs make
// them, and the calls of a fake mountd.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/nomad/host_volume_calls.h"
#include "agent/nomad/volume_place.h"
#include "agent/nomad/volume_request.h"
#include "tests/agent/fake_manager.h"
#include "tests/support/matchers.h"
#include "tests/support/program.h"
#include "tests/support/temp_directory.h"

namespace mountd::nomad {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Texts = std::map<std::string, std::string>;

constexpr char kId[] = "02eb1d8e-945e-50ee-7640-68b92f622870";

Texts Environment(const Texts& more = {}) {
  Texts all = {{"DHV_OPERATION", "create"},
               {"DHV_VOLUMES_DIR", "/var/lib/nomad/host_volumes"},
               {"DHV_PLUGIN_DIR", "/opt/nomad/host_volume_plugins"},
               {"DHV_NAMESPACE", "default"},
               {"DHV_VOLUME_NAME", "data"},
               {"DHV_VOLUME_ID", kId},
               {"DHV_NODE_ID", "d87c86d7-d22b-f811-c329-09e263995e86"},
               {"DHV_NODE_POOL", "default"},
               {"DHV_CAPACITY_MIN_BYTES", "0"},
               {"DHV_CAPACITY_MAX_BYTES", "0"},
               {"DHV_PARAMETERS", "null"}};
  for (const auto& [name, value] : more) {
    all[name] = value;
  }
  return all;
}

Result<HostVolumeRequest> Read(const Texts& more = {},
                               const std::string& operation = "create") {
  const Texts all = Environment(more);
  return ReadHostVolumeRequest(operation, [&all](const char* name) {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.c_str();
  });
}

TEST(HostVolumeRequests, AreReadFromTheEnvironment) {
  const auto request = Read(
      {{"DHV_CAPACITY_MIN_BYTES", "1000"},
       {"DHV_CAPACITY_MAX_BYTES", "2000"},
       {"DHV_PARAMETERS",
        R"({"plugin": "disks", "uid": "200000", "mode": "0750", "tier": "a"})"}});
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->id, kId);
  EXPECT_EQ(request->least_bytes, 1000);
  EXPECT_EQ(request->most_bytes, 2000);
  EXPECT_EQ(request->plugin, "disks");
  EXPECT_EQ(request->uid, 200000U);
  EXPECT_FALSE(request->gid);
  EXPECT_EQ(request->mode, 0750U);
  EXPECT_EQ(request->parameters, (Texts{{"tier", "a"}}));
}

TEST(HostVolumeRequests, AskForAnImageOfCsiLocalUnlessTheySayMore) {
  EXPECT_EQ(Read()->plugin, "csi-local");
  EXPECT_EQ(Read()->parameters, (Texts{{"kind", "image"}}));
  EXPECT_EQ(Read({{"DHV_PARAMETERS", R"({"kind": "tmpfs"})"}})->parameters,
            (Texts{{"kind", "tmpfs"}}));
  EXPECT_EQ(Read({{"DHV_PARAMETERS", R"({"plugin": "p"})"}})->parameters,
            Texts());
  EXPECT_EQ(
      Read({{"DHV_PARAMETERS", R"({"host_volume": "shared"})"}})->parameters,
      Texts());
}

TEST(HostVolumeRequests, OfAFingerprintNeedNothing) {
  EXPECT_THAT(
      ReadHostVolumeRequest("fingerprint", [](const char*) { return nullptr; }),
      IsOk());
}

TEST(HostVolumeRequests, ThatAreHostileAreRefusedInWords) {
  const auto parameters = [](const std::string& json) {
    return Texts{{"DHV_PARAMETERS", json}};
  };
  const std::string deep(40'000, '[');
  const std::string large =
      R"({"a": ")" + std::string(64 * 1024, 'x') + R"("})";
  const struct {
    Texts more;
    const char* why;
  } kTable[] = {
      {{{"DHV_VOLUME_ID", "../../etc"}}, "must be a UUID"},
      {{{"DHV_VOLUME_ID", ""}}, "must be a UUID"},
      {{{"DHV_VOLUME_ID", std::string(kId) + "\n"}}, "must be a UUID"},
      {{{"DHV_VOLUME_ID", "02EB1D8E-945E-50EE-7640-68B92F622870"}},
       "must be a UUID"},
      {{{"DHV_VOLUMES_DIR", "volumes"}}, "must be an absolute path"},
      {{{"DHV_OPERATION", "delete"}}, "another operation than the argument"},
      {{{"DHV_CAPACITY_MIN_BYTES", "-1"}}, "must be a number of bytes"},
      {{{"DHV_CAPACITY_MAX_BYTES", "1G"}}, "must be a number of bytes"},
      {{{"DHV_CAPACITY_MAX_BYTES", "99999999999999999999"}},
       "must be a number of bytes"},
      {{{"DHV_CAPACITY_MIN_BYTES", "2"}, {"DHV_CAPACITY_MAX_BYTES", "1"}},
       "is more than DHV_CAPACITY_MAX_BYTES"},
      {parameters("{"), "must be a JSON object"},
      {parameters("[]"), "must be a JSON object"},
      {parameters(deep), "must be a JSON object"},
      {parameters(large), "at most 64 KiB"},
      {parameters(R"({"a": {"b": "c"}})"), "must have texts alone"},
      {parameters(R"({"uid": "-1"})"), "must be the id of a user"},
      {parameters(R"({"uid": "4294967295"})"), "must be the id of a user"},
      {parameters(R"({"gid": "root"})"), "must be the id of a group"},
      {parameters(R"({"mode": "4755"})"), "must be octal"},
      {parameters(R"({"mode": "rwx"})"), "must be octal"},
      {parameters(R"({"plugin": "../p"})"), "plugin"},
      {parameters(R"({"plugin": "a\nb"})"), "plugin"},
      {parameters(R"({"host_volume": ".."})"), "host_volume"},
      {parameters(R"({"host_volume": "a", "uid": "1"})"), "stands alone"},
      {{{"DHV_PARAMETERS", R"({"host_volume": "a"})"},
        {"DHV_CAPACITY_MIN_BYTES", "1"}},
       "has no size of its own"},
      {{{"DHV_PARAMETERS", R"({"kind": "directory"})"},
        {"DHV_CAPACITY_MAX_BYTES", "1"}},
       "a directory has no bound"},
  };
  for (const auto& row : kTable) {
    EXPECT_THAT(Read(row.more), IsErrOf(Code::kInvalidArgument, row.why));
  }
  EXPECT_THAT(Read({}, "resize"), IsErr(Code::kInvalidArgument));
}

class HostVolumePlugin : public ::testing::Test {
 protected:
  agent::test::Script& script() { return manager_.script(); }

  HostVolumeRequest Request(const Texts& more = {}) {
    Texts all = more;
    all["DHV_VOLUMES_DIR"] = directory_.File("");
    return *Read(all);
  }
  agent::Client Connect() {
    return *agent::Client::Connect({.address = manager_.address()});
  }
  Result<CreatedVolume> Create(const HostVolumeRequest& request) {
    agent::Client client = Connect();
    return HostVolumeCalls(client, request).Create();
  }
  Result<void> Delete(const HostVolumeRequest& request) {
    agent::Client client = Connect();
    return HostVolumeCalls(client, request).Delete();
  }
  bool HasCall(const std::string& line) {
    for (const std::string& call : script().calls()) {
      if (call.starts_with(line)) {
        return true;
      }
    }
    return false;
  }
  std::string Allocation() const { return std::string("dhv-") + kId; }

  TempDirectory directory_;
  agent::test::FakeServer manager_;
};

TEST_F(HostVolumePlugin, AsksForTheSizeAndPublishes) {
  script().Fail("GetReceipt", {"org.mountd1.Error.NotFound", "none"});
  // The fake mounts nothing, and the plugin looks.
  EXPECT_THAT(Create(Request({{"DHV_CAPACITY_MIN_BYTES", "4096"}})),
              IsErrOf(Code::kFailedPrecondition, "nothing is mounted there"));
  EXPECT_TRUE(HasCall("CreateVolume csi-local " + Allocation() +
                      " {parameters={kind=image;};required_bytes=x4096;"));
  EXPECT_TRUE(
      HasCall("PrepareAllocation " + Allocation() + " {scope=nomad-volumes;}"));
  EXPECT_TRUE(HasCall("PublishVolume " + Allocation() + " volume id-of-" +
                      Allocation() + " csi-local "));
  EXPECT_TRUE(HasCall("BindMount " + Allocation() + " nomad volume "));
  struct stat seen {};
  const std::string own = directory_.File(kId);
  ASSERT_EQ(::stat(own.c_str(), &seen), 0);
  EXPECT_EQ(seen.st_mode & 0777U, 0700U);
}

TEST_F(HostVolumePlugin, ASizeThatThePluginDoesNotKeepIsRefused) {
  EXPECT_THAT(Create(Request({{"DHV_CAPACITY_MAX_BYTES", "4096"}})),
              IsErrOf(Code::kFailedPrecondition, "out of the range"));
  EXPECT_FALSE(HasCall("PublishVolume"));
}

// The publication may be uncertain, as after a reboot.
TEST_F(HostVolumePlugin, AnotherSizeIsPublishedBeforeItGrows) {
  script().Fail("CreateVolume", {"org.mountd1.Error.AlreadyExists", "size"});
  script().Fail("GetReceipt", {"org.mountd1.Error.NotFound", "none"});
  EXPECT_FALSE(Create(Request({{"DHV_CAPACITY_MIN_BYTES", "4096"}})));
  std::vector<std::string> order;
  for (const std::string& call : script().calls()) {
    const std::string method = call.substr(0, call.find(' '));
    if (method == "CreateVolume" || method == "PublishVolume" ||
        method == "BindMount" || method == "ControllerExpandVolume") {
      order.push_back(method);
    }
  }
  EXPECT_THAT(order,
              ElementsAre("CreateVolume", "CreateVolume", "PublishVolume",
                          "BindMount", "ControllerExpandVolume"));
  EXPECT_TRUE(HasCall("CreateVolume csi-local " + Allocation() +
                      " {parameters={kind=image;};usages"));
}

TEST_F(HostVolumePlugin, ALinkInItsPlaceIsNotFollowed) {
  script().Fail("GetReceipt", {"org.mountd1.Error.NotFound", "none"});
  ASSERT_EQ(::symlink("/etc", directory_.File(kId).c_str()), 0);
  EXPECT_FALSE(Create(Request()));
  EXPECT_FALSE(HasCall("BindMount"));
}

TEST_F(HostVolumePlugin, ADeclaredVolumeIsThePathOfItsGrant) {
  agent::Client client = Connect();
  const auto granted = client.ListHostVolumes();
  ASSERT_THAT(granted, IsOk());
  ASSERT_FALSE(granted->empty());
  const auto request =
      Request({{"DHV_PARAMETERS", R"({"host_volume": ")" +
                                      granted->front().source.name + R"("})"}});
  const auto created = Create(request);
  ASSERT_THAT(created, IsOk());
  EXPECT_EQ(created->path, granted->front().path);
  const std::size_t calls = script().calls().size();
  EXPECT_THAT(Delete(request), IsOk());
  EXPECT_EQ(script().calls().size(), calls) << "it is the administrator's";
  EXPECT_THAT(
      Create(Request({{"DHV_PARAMETERS", R"({"host_volume": "none"})"}})),
      IsErrOf(Code::kFailedPrecondition, "mountd.toml has no such volume"));
}

TEST_F(HostVolumePlugin, ADeletionReleasesAndThenDeletes) {
  script().Fail("ListHolders", {"org.mountd1.Error.NotFound", "no mount"});
  EXPECT_THAT(Delete(Request()), IsOk());
  EXPECT_TRUE(HasCall("ReleaseAllocation " + Allocation() + " {}"));
  EXPECT_THAT(script().last_call(), StartsWith("DeleteVolume csi-local "));
}

// The fake lists a holder of each mount.
TEST_F(HostVolumePlugin, AVolumeInUseIsNotReleased) {
  EXPECT_THAT(Delete(Request()), IsErrOf(Code::kBusy, "is used by process"));
  EXPECT_FALSE(HasCall("ReleaseAllocation"));
}

TEST_F(HostVolumePlugin, AVolumeThatComesIntoUseIsNotDeleted) {
  script().Fail("ListHolders", {"org.mountd1.Error.NotFound", "no mount"});
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.Busy", "pid 7"});
  EXPECT_THAT(Delete(Request()), IsErrOf(Code::kBusy, "pid 7"));
  EXPECT_FALSE(HasCall("DeleteVolume"));
}

TEST_F(HostVolumePlugin, DeletesNothingElsewhere) {
  HostVolumeRequest request = Request();
  request.created_path = "/etc";
  EXPECT_THAT(Delete(request),
              IsErrOf(Code::kFailedPrecondition, "has made no volume at /etc"));
  EXPECT_TRUE(script().calls().empty());
}

// A call was killed between CreateVolume and PublishVolume.
TEST_F(HostVolumePlugin, AVolumeThatWasNeverPublishedIsFoundByItsName) {
  for (const char* method :
       {"GetAllocation", "GetReceipt", "ListHolders", "ReleaseAllocation"}) {
    script().Fail(method, {"org.mountd1.Error.NotFound", "none"});
  }
  EXPECT_THAT(Delete(Request()), IsOk());
  EXPECT_EQ(script().count("CreateVolume"), 1U);
  EXPECT_THAT(script().last_call(),
              StartsWith("DeleteVolume csi-local id-of-" + Allocation()));
}

// The tree of a volume, which a hostile file server or a snapshot may have
// made.
class HostVolumeData : public ::testing::Test {
 protected:
  Result<void> Make() {
    const UniqueFd root(::open(tree_.File("").c_str(), O_PATH | O_DIRECTORY));
    HostVolumeRequest request;
    request.mode = 0751;
    return VolumePlace::MakeDataIn(root.get(), request, "volume");
  }
  void MakeDirectory(const std::string& name) {
    ASSERT_EQ(::mkdir(tree_.File(name).c_str(), 0700), 0);
  }
  void LinkOut(const std::string& name) {
    ASSERT_EQ(::chmod(outside_.File("").c_str(), 0700), 0);
    ASSERT_EQ(::symlink(outside_.File("").c_str(), tree_.File(name).c_str()),
              0);
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat seen {};
    return ::stat(path.c_str(), &seen) == 0 ? seen.st_mode & 07777U : 0;
  }

  TempDirectory tree_;
  TempDirectory outside_;
};

TEST_F(HostVolumeData, IsMadeOnceWithItsMode) {
  ASSERT_THAT(Make(), IsOk());
  EXPECT_EQ(ModeOf(tree_.File("nomad")), 0700U);
  EXPECT_EQ(ModeOf(tree_.File("nomad/data")), 0751U);
  ASSERT_EQ(::chmod(tree_.File("nomad/data").c_str(), 0), 0);
  EXPECT_THAT(Make(), IsOk());
  EXPECT_EQ(ModeOf(tree_.File("nomad/data")), 0U) << "is the task's";
}

TEST_F(HostVolumeData, ThatLeadsElsewhereIsRefusedAtEachCreate) {
  ASSERT_THAT(Make(), IsOk());
  ASSERT_EQ(::rmdir(tree_.File("nomad/data").c_str()), 0);
  EXPECT_THAT(Make(), IsErrOf(Code::kFailedPrecondition, "nomad/data"));
  LinkOut("nomad/data");
  EXPECT_THAT(Make(), IsErrOf(Code::kFailedPrecondition, "nomad/data"));
}

TEST_F(HostVolumeData, OfATreeThatIsALinkIsRefused) {
  LinkOut("nomad");
  EXPECT_THAT(Make(), IsErr(Code::kFailedPrecondition));
}

TEST_F(HostVolumeData, ALinkInAHalfMadeTreeIsNotFollowed) {
  MakeDirectory("making");
  LinkOut("making/data");
  EXPECT_FALSE(Make());
  EXPECT_EQ(ModeOf(outside_.File("")), 0700U);
  EXPECT_NE(::access(tree_.File("nomad").c_str(), F_OK), 0);
}

// The program itself, as Nomad starts it.
mountd::test::ProgramOutcome RunPlugin(const std::string& operation,
                                       const Texts& environment) {
  std::vector<std::string> command = {"/usr/bin/env", "-i"};
  for (const auto& [name, value] : environment) {
    command.push_back(name + "=" + value);
  }
  command.push_back(MOUNTD_NOMAD_VOLUME);
  command.push_back(operation);
  return mountd::test::RunProgram(command);
}

TEST_F(HostVolumePlugin, FingerprintsWithoutMountd) {
  const auto outcome =
      RunPlugin("fingerprint", {{"DHV_OPERATION", "fingerprint"}});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, StartsWith(R"({"version":")"));
}

TEST_F(HostVolumePlugin, FailsWithAReasonOnStderrAlone) {
  Texts environment = Environment({{"DHV_PARAMETERS", "{\n"}});
  const auto refused = RunPlugin("create", environment);
  EXPECT_NE(refused.status, 0);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("mountd-nomad-volume: "));
  EXPECT_THAT(refused.err, HasSubstr("must be a JSON object"));
  environment = Environment({{"MOUNTD_ADDRESS", "unix:path=/nowhere/bus"}});
  const auto away = RunPlugin("create", environment);
  EXPECT_NE(away.status, 0);
  EXPECT_EQ(away.out, "");
}

}  // namespace
}  // namespace mountd::nomad
