// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Compares the source's mount on the host and the requested propagation with
// what really propagates. Each row mounts at the source, at the target, and at
// the source's peer or master, and looks where the mount shows
// (mount_namespaces(7)).
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using exec::MountState;
using exec::Propagation;
using exec::Reply;

constexpr char kSource[] = "/run/host/data";
// Another mount of the source's file system: a peer of a shared source, the
// master of a slave.
constexpr char kFar[] = "/run/far";

enum class Is { kPrivate, kShared, kSlave, kSharedSlave };

enum class Lies {
  kOwnMount,       // the source is a mount's root
  kDirectory,      // a plain directory, which gets an anchor
  kDirectoryOver,  // a directory with mounts below, which gets none
};

struct Row {
  Is is = Is::kPrivate;
  Lies lies = Lies::kOwnMount;
  Propagation asked = Propagation::kPrivate;
  // Where a later mount shows, "by>at": S the source, T the target, F the far
  // mount.
  const char* travels = "";
  const char* refused = "";
  // The same for later mounts in the mount below the source.
  const char* below = "";
};

constexpr char kIsPrivate[] =
    "FailedPrecondition: open source web/app/data: the source's mount is "
    "private, but must be shared; run mount --make-shared";
constexpr char kIsSlave[] =
    "FailedPrecondition: open source web/app/data: the source's mount is a "
    "slave, but must be shared; run mount --make-shared";

constexpr auto kPrivate = Propagation::kPrivate;
constexpr auto kHostToTask = Propagation::kHostToTask;
constexpr auto kBidirectional = Propagation::kBidirectional;

const std::vector<Row> kRows = {
    {Is::kPrivate, Lies::kOwnMount, kPrivate, ""},
    {Is::kPrivate, Lies::kOwnMount, kHostToTask, "", kIsPrivate},
    {Is::kPrivate, Lies::kOwnMount, kBidirectional, "", kIsPrivate},
    {Is::kShared, Lies::kOwnMount, kPrivate, ""},
    {Is::kShared, Lies::kOwnMount, kHostToTask, "S>T F>T "},
    {Is::kShared, Lies::kOwnMount, kBidirectional, "S>T F>T T>S T>F "},
    {Is::kSlave, Lies::kOwnMount, kPrivate, ""},
    {Is::kSlave, Lies::kOwnMount, kHostToTask, "F>T "},
    {Is::kSlave, Lies::kOwnMount, kBidirectional, "", kIsSlave},
    {Is::kSharedSlave, Lies::kOwnMount, kPrivate, ""},
    {Is::kSharedSlave, Lies::kOwnMount, kHostToTask, "S>T F>T "},
    {Is::kSharedSlave, Lies::kOwnMount, kBidirectional, "S>T F>T T>S "},
    // The anchor is a mount of its own, and so no slave of the far mount.
    {Is::kPrivate, Lies::kDirectory, kPrivate, ""},
    {Is::kPrivate, Lies::kDirectory, kHostToTask, "S>T "},
    {Is::kPrivate, Lies::kDirectory, kBidirectional, "S>T T>S "},
    {Is::kShared, Lies::kDirectory, kPrivate, ""},
    {Is::kShared, Lies::kDirectory, kHostToTask, "S>T F>T "},
    {Is::kShared, Lies::kDirectory, kBidirectional, "S>T F>T T>S T>F "},
    {Is::kSlave, Lies::kDirectory, kPrivate, ""},
    {Is::kSlave, Lies::kDirectory, kHostToTask, "S>T "},
    {Is::kSlave, Lies::kDirectory, kBidirectional, "S>T T>S "},
    {Is::kSharedSlave, Lies::kDirectory, kPrivate, ""},
    {Is::kSharedSlave, Lies::kDirectory, kHostToTask, "S>T "},
    {Is::kSharedSlave, Lies::kDirectory, kBidirectional, "S>T T>S "},
    {Is::kPrivate, Lies::kDirectoryOver, kPrivate, ""},
    {Is::kPrivate, Lies::kDirectoryOver, kHostToTask, "", kIsPrivate},
    {Is::kPrivate, Lies::kDirectoryOver, kBidirectional, "", kIsPrivate},
    {Is::kShared, Lies::kDirectoryOver, kPrivate, ""},
    {Is::kShared, Lies::kDirectoryOver, kHostToTask, "S>T F>T ", "",
     "S>T F>T "},
    {Is::kShared, Lies::kDirectoryOver, kBidirectional, "S>T F>T T>S T>F ", "",
     "S>T F>T T>S T>F "},
    {Is::kSlave, Lies::kDirectoryOver, kPrivate, ""},
    {Is::kSlave, Lies::kDirectoryOver, kHostToTask, "F>T "},
    {Is::kSlave, Lies::kDirectoryOver, kBidirectional, "", kIsSlave},
    {Is::kSharedSlave, Lies::kDirectoryOver, kPrivate, ""},
    {Is::kSharedSlave, Lies::kDirectoryOver, kHostToTask, "S>T F>T ", "",
     "S>T "},
    {Is::kSharedSlave, Lies::kDirectoryOver, kBidirectional, "S>T F>T T>S ", "",
     "S>T T>S "},
};

std::string NameOf(const Row& row) {
  constexpr std::array<const char*, 4> kIs = {"Private", "Shared", "Slave",
                                              "SharedSlave"};
  constexpr std::array<const char*, 3> kLies = {"Mount", "Directory",
                                                "DirectoryOverMounts"};
  constexpr std::array<const char*, 4> kAsked = {"", "Private", "HostToTask",
                                                 "Bidirectional"};
  return std::string(kIs.at(static_cast<std::size_t>(row.is))) +
         kLies.at(static_cast<std::size_t>(row.lies)) + "Asked" +
         kAsked.at(static_cast<std::size_t>(row.asked));
}

// Returns the last mount at `path` in mountinfo (proc(5)).
MountState MountinfoOf(const std::string& path) {
  MountState state;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string id;
    std::string point;
    std::string field;
    words >> id >> id >> id >> id >> point >> field;
    if (point != path) {
      continue;
    }
    state = {};
    while (words >> field && field != "-") {
      const std::size_t colon = field.find(':');
      const std::uint64_t number = std::stoull(field.substr(colon + 1));
      (field.starts_with("shared") ? state.peer_group : state.master) = number;
    }
  }
  return state;
}

// Owns a copy of the host's mount namespace that another program made without
// changing its propagation.
class CopiedNamespace {
 public:
  CopiedNamespace() : home_(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC)) {
    EXPECT_EQ(::unshare(CLONE_NEWNS), 0);
    copy_.reset(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
    Leave();
  }
  void Enter() const { EXPECT_EQ(::setns(copy_.get(), CLONE_NEWNS), 0); }
  void Leave() const { EXPECT_EQ(::setns(home_.get(), CLONE_NEWNS), 0); }

 private:
  UniqueFd home_;
  UniqueFd copy_;
};

class PropagationTable
    : public ExecutorFixture,
      public ::testing::WithParamInterface<std::tuple<Row, bool>> {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    PrepareBase();
    row_ = std::get<0>(GetParam());
    const bool own = row_.lies == Lies::kOwnMount;
    holder_ = own ? kSource : "/run/host";
    in_far_ = std::string(kFar) + (own ? "" : "/data");
    MountSource(own ? "" : "/data");
    if (row_.lies == Lies::kDirectoryOver) {
      MountTmpfs(std::string(kSource) + "/below");
      MakeDirectories(std::string(kSource) + "/below/sub");
    }
    if (std::get<1>(GetParam())) {
      copied_.emplace();
    }
  }
  void TearDown() override {
    copied_.reset();
    ExecutorFixture::TearDown();
  }

  void MountSource(const std::string& data) {
    MountTmpfs(kFar);
    MakeDirectories(kFar + data + "/sub");
    if (row_.is != Is::kPrivate) {
      Become(kFar, MS_SHARED);
    }
    ASSERT_EQ(::mount(kFar, holder_.c_str(), nullptr, MS_BIND, nullptr), 0);
    if (row_.is == Is::kSlave || row_.is == Is::kSharedSlave) {
      Become(holder_, MS_SLAVE);
    }
    if (row_.is == Is::kSharedSlave) {
      Become(holder_, MS_SHARED);
    }
  }
  static void Become(const std::string& path, unsigned long propagation) {
    ASSERT_EQ(::mount(nullptr, path.c_str(), nullptr, propagation, nullptr), 0);
  }

  // Mounts on this directory of each of the three in turn. Returns where the
  // mounts show.
  std::string Travels(const std::string& directory) const {
    struct Place {
      char name;
      std::string path;
    };
    const std::vector<Place> places = {{'S', kSource + directory},
                                       {'F', in_far_ + directory},
                                       {'T', kTarget + directory}};
    std::string seen;
    for (const Place& by : places) {
      if (!Exists(by.path)) {
        continue;
      }
      MountTmpfs(by.path);
      for (const Place& at : places) {
        const bool between_these = by.name == 'T' || at.name == 'T';
        if (by.name != at.name && between_these && Exists(at.path + "/mark")) {
          seen += std::string{by.name, '>', at.name, ' '};
        }
      }
      Unmount(by.path);
    }
    return seen;
  }

  // True if a mount at the target's copy in the other namespace shows at the
  // host's source or target.
  bool CopyReachesHost() const {
    copied_->Enter();
    MountTmpfs(std::string(kTarget) + "/sub");
    copied_->Leave();
    const bool seen = Exists(std::string(kSource) + "/sub/mark") ||
                      Exists(std::string(kTarget) + "/sub/mark");
    copied_->Enter();
    Unmount(std::string(kTarget) + "/sub");
    copied_->Leave();
    return seen;
  }

  void ExpectAnswered(const MountState& answer) const {
    const MountState target = MountinfoOf(kTarget);
    const MountState source =
        MountinfoOf(row_.lies == Lies::kDirectoryOver ? holder_ : kSource);
    EXPECT_EQ(answer.peer_group, target.peer_group);
    EXPECT_EQ(answer.master, target.master);
    EXPECT_EQ(answer.source_peer_group, source.peer_group);
    EXPECT_EQ(answer.anchor_id != 0, row_.lies == Lies::kDirectory);
    switch (row_.asked) {
      case Propagation::kPrivate:
        EXPECT_EQ(target.peer_group, 0U);
        EXPECT_EQ(target.master, 0U);
        break;
      case Propagation::kHostToTask:
        EXPECT_EQ(target.peer_group, 0U);
        EXPECT_EQ(target.master,
                  source.peer_group != 0 ? source.peer_group : source.master);
        break;
      case Propagation::kBidirectional:
        EXPECT_NE(target.peer_group, 0U);
        EXPECT_EQ(target.peer_group, source.peer_group);
        break;
    }
  }

  Row row_;
  std::string holder_;  // the mount that holds the source
  std::string in_far_;  // the source's directory in the far mount
  std::optional<CopiedNamespace> copied_;
};

TEST_P(PropagationTable, IsAsAsked) {
  const Inventory before = Inventory::Take();
  const Reply reply = Attach("data", row_.asked);
  ASSERT_EQ(ErrorOf(reply), row_.refused);
  if (reply.code == 0) {
    ExpectAnswered(reply.body.mount);
    EXPECT_EQ(Travels("/sub"), row_.travels);
    EXPECT_EQ(Travels("/below/sub"), row_.below);
    EXPECT_TRUE(!copied_ ||
                CopyReachesHost() == (row_.asked == kBidirectional));
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)),
              "");
  }
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

std::string NameOfParameters(
    const ::testing::TestParamInfo<PropagationTable::ParamType>& info) {
  return NameOf(std::get<0>(info.param)) +
         (std::get<1>(info.param) ? "BesideACopyOfTheHost" : "");
}

INSTANTIATE_TEST_SUITE_P(Source, PropagationTable,
                         ::testing::Combine(::testing::ValuesIn(kRows),
                                            ::testing::Bool()),
                         NameOfParameters);

}  // namespace
}  // namespace mountd::testing
