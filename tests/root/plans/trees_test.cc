// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/capability.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "propagation/files/tree_owner.h"
#include "propagation/files/tree_removal.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

using exec::PlanKind;
using exec::Reply;
using exec::TreeReply;
using propagation::TreeBound;

constexpr uid_t kTreeOwner = 1234;
constexpr uid_t kTask = 100007;       // in the rule's ids
constexpr uid_t kBeyondIds = 200000;  // in no rule's ids
constexpr char kTreesOfWeb[] = "/run/host/alloc/web";

// Limits the thread to an executor's capabilities while this object lives.
class ExecutorsRights {
 public:
  ExecutorsRights() : before_(::cap_get_proc()) {
    constexpr std::array<cap_value_t, 4> kKept = {
        CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_DAC_READ_SEARCH, CAP_CHOWN};
    const cap_t fewer = ::cap_dup(before_);
    ::cap_clear_flag(fewer, CAP_EFFECTIVE);
    ::cap_set_flag(fewer, CAP_EFFECTIVE, kKept.size(), kKept.data(), CAP_SET);
    EXPECT_EQ(::cap_set_proc(fewer), 0);
    ::cap_free(fewer);
  }
  ExecutorsRights(const ExecutorsRights&) = delete;
  ExecutorsRights& operator=(const ExecutorsRights&) = delete;
  ~ExecutorsRights() {
    ::cap_set_proc(before_);
    ::cap_free(before_);
  }

 private:
  const cap_t before_;
};

class Trees : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    RuleConfig rule;
    rule.uids = {kTreeOwner};
    rule.alloc_roots = {"/run/host/alloc"};
    rule.ids = {{kTreeOwner, kTreeOwner}, {100000, 165535}};
    config_.rules = {rule};
    Make("", kTreeOwner);
    ASSERT_EQ(::chown("/run/host/alloc", kTreeOwner, kTreeOwner), 0);
    plan_.caller.uid = kTreeOwner;
    plan_.caller.gid_count = 1;
    plan_.caller.gids[0] = kTreeOwner;
    plan_.uid = kTreeOwner;
    plan_.gid = kTreeOwner;
  }

  static std::string At(const std::string& path) {
    return std::string(kTreesOfWeb) + "/" + path;
  }
  // Makes a directory below kTreesOfWeb.
  static void Make(const std::string& path, uid_t owner, mode_t mode = 0755) {
    MakeDirectories(At(path));
    ASSERT_EQ(::chown(At(path).c_str(), owner, owner), 0);
    ASSERT_EQ(::chmod(At(path).c_str(), mode), 0);
  }
  static void File(const std::string& path, uid_t owner) {
    WriteFile(At(path), path);
    ASSERT_EQ(::lchown(At(path).c_str(), owner, owner), 0);
  }
  static uid_t OwnerOf(const std::string& path) {
    struct stat file = {};
    EXPECT_EQ(::lstat(path.c_str(), &file), 0) << path;
    return file.st_uid;
  }
  static std::size_t CountIn(const std::string& path) {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::recursive_directory_iterator(path)) {
      ++count;
    }
    return count;
  }

  // Makes below kTreesOfWeb directories and files of several users, some closed
  // to all but their owner, links out of it, and a pipe.
  static void Fill() {
    Make("mine", kTreeOwner);
    Make("mine/deep", kTreeOwner);
    Make("theirs", kTask);
    Make("theirs/closed", kTask, 0);
    Make("roots", 0);
    Make("roots/x", 0, 0700);
    File("mine/file", kTreeOwner);
    File("mine/deep/theirs", kTask);
    File("theirs/closed/file", kTask);
    File("roots/x/file", 0);
    MakeDirectories("/run/host/outside");
    WriteFile("/run/host/outside/file", "");
    ASSERT_EQ(::symlink("/run/host/outside", At("mine/link").c_str()), 0);
    ASSERT_EQ(::lchown(At("mine/link").c_str(), kTreeOwner, kTreeOwner), 0);
    ASSERT_EQ(::mkfifo(At("theirs/pipe").c_str(), 0600), 0);
    ASSERT_EQ(::chown(At("theirs/pipe").c_str(), kTask, kTask), 0);
  }
  static constexpr std::size_t kFilled = 12;

  Reply Run(PlanKind kind, const std::string& path = kTreesOfWeb) {
    fds_.clear();
    fds_.emplace_back(::open(path.c_str(), O_PATH | O_CLOEXEC));
    const ExecutorsRights rights;
    Reply reply = Call(kind, [&](exec::PlanBody* body) { body->tree = plan_; });
    fds_.clear();
    return reply;
  }
  Reply Remove(const std::string& path = kTreesOfWeb) {
    return Run(PlanKind::kRemoveTree, path);
  }
  Reply Chown(const std::string& path = kTreesOfWeb) {
    return Run(PlanKind::kChownTree, path);
  }

  // Repeats the work in parts of `entries` until it is finished. Returns the
  // sum.
  template <typename Some>
  TreeReply InParts(const Some& some, std::size_t entries, int* parts) {
    const auto inspector = propagation::MakeMountInspector(kernel_).value();
    const UniqueFd fd(::open(kTreesOfWeb, O_PATH | O_CLOEXEC));
    exec::TreePlan plan = plan_;
    TreeReply sum;
    const ExecutorsRights rights;
    for (*parts = 1; *parts < 10'000; ++*parts) {
      const Result<TreeReply> part =
          some({kernel_, *inspector, config_, id_maps_}, fd.get(), plan,
               TreeBound{entries, std::chrono::hours(1)});
      if (!part) {
        ADD_FAILURE() << part.error().Message();
        return sum;
      }
      sum.done += part->done;
      sum.left += part->left;
      plan.depth = part->depth;
      plan.after = part->after;
      if (part->finished != 0) {
        sum.finished = 1;
        break;
      }
    }
    return sum;
  }

  exec::TreePlan plan_;
};

TEST_F(Trees, RemovalTakesWhatIsInItWhoeverOwnsIt) {
  Fill();
  const Reply reply = Remove();
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.tree.finished, 1U);
  EXPECT_EQ(reply.body.tree.done, kFilled);
  EXPECT_EQ(CountIn(kTreesOfWeb), 0U);
  EXPECT_TRUE(Exists("/run/host/outside/file"));
  EXPECT_EQ(ErrorOf(Remove()), "");
}

TEST_F(Trees, RemovalGivesTheDirectoryBackAsItWas) {
  ASSERT_EQ(::chown(kTreesOfWeb, kTreeOwner, kTask), 0);
  ASSERT_EQ(::chmod(kTreesOfWeb, 02751), 0);
  File("file", kTask);
  ASSERT_EQ(ErrorOf(Remove()), "");
  struct stat file = {};
  ASSERT_EQ(::stat(kTreesOfWeb, &file), 0);
  EXPECT_EQ(file.st_uid, kTreeOwner);
  EXPECT_EQ(file.st_gid, kTask);
  EXPECT_EQ(file.st_mode & 07777U, 02751U);
}

TEST_F(Trees, RemovalInPartsGoesOnWithTheRest) {
  Fill();
  int parts = 0;
  const TreeReply sum = InParts(propagation::RemoveSome, 3, &parts);
  EXPECT_EQ(sum.finished, 1U);
  EXPECT_EQ(sum.done, kFilled);
  EXPECT_GT(parts, 3);
  EXPECT_EQ(CountIn(kTreesOfWeb), 0U);
  EXPECT_EQ(OwnerOf(kTreesOfWeb), kTreeOwner);
}

TEST_F(Trees, RemovalOfADeepTree) {
  UniqueFd dir(::open(kTreesOfWeb, O_PATH | O_CLOEXEC));
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(::mkdirat(dir.get(), "d", 0755), 0);
    ASSERT_EQ(::mkdirat(dir.get(), "lifted-1", 0755), 0);
    dir.reset(::openat(dir.get(), "d", O_PATH | O_CLOEXEC));
  }
  Reply reply = Remove();
  for (int i = 0; i < 100 && reply.body.tree.finished == 0; ++i) {
    ASSERT_EQ(ErrorOf(reply), "");
    reply = Remove();
  }
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(CountIn(kTreesOfWeb), 0U);
}

TEST_F(Trees, RemovalStopsAtAMountAndNamesIt) {
  Make("mine/volume", kTreeOwner);
  MountTmpfs(At("mine/volume"));
  const Reply reply = Remove();
  EXPECT_EQ(CodeOf(reply), "Busy");
  EXPECT_NE(ErrorOf(reply).find("mine/volume"), std::string::npos)
      << ErrorOf(reply);
  EXPECT_TRUE(Exists(At("mine/volume/mark")));
  EXPECT_EQ(OwnerOf(kTreesOfWeb), kTreeOwner);
  Unmount(At("mine/volume"));
  EXPECT_EQ(ErrorOf(Remove()), "");
}

// A recursive command run as root would act on the file that is mounted there,
// which is outside the tree.
TEST_F(Trees, AFileThatIsAMountStopsBoth) {
  File("file", kTreeOwner);
  WriteFile("/run/host/outside", "");
  ASSERT_EQ(::mount("/run/host/outside", At("file").c_str(), nullptr, MS_BIND,
                    nullptr),
            0);
  EXPECT_EQ(CodeOf(Chown()), "Busy");
  EXPECT_EQ(CodeOf(Remove()), "Busy");
  EXPECT_EQ(OwnerOf("/run/host/outside"), 0U);
}

// An executor that was killed between taking the directory and giving it back
// leaves it like this.
TEST_F(Trees, OneThatAnExecutorTookIsAccepted) {
  Make("task/full", kTask);
  ASSERT_EQ(::chown(At("task").c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(At("task").c_str(), 0700), 0);
  EXPECT_EQ(ErrorOf(Remove(At("task"))), "");
  EXPECT_EQ(OwnerOf(At("task")), kTreeOwner);
  EXPECT_EQ(CountIn(At("task")), 0U);
}

TEST_F(Trees, RootsOwnElsewhereIsNot) {
  Make("theirs/roots", 0);
  ASSERT_EQ(::chown(At("theirs").c_str(), kTask, kTask), 0);
  EXPECT_EQ(CodeOf(Remove(At("theirs/roots"))), "PermissionDenied");
  EXPECT_EQ(CodeOf(Remove(At("theirs"))), "PermissionDenied");
  EXPECT_EQ(CodeOf(Chown(At("theirs"))), "PermissionDenied");
  EXPECT_EQ(CodeOf(Remove("/run/host/data")), "PermissionDenied");
}

TEST_F(Trees, ChownGivesWhatIsTheCallersOrInTheRange) {
  Fill();
  plan_.uid = kTask;
  plan_.gid = kTask + 1;
  const Reply reply = Chown();
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.tree.finished, 1U);
  EXPECT_EQ(reply.body.tree.left, 3U);
  EXPECT_EQ(reply.body.tree.done, kFilled - 3);
  for (const char* path : {"mine", "mine/deep/theirs", "mine/file", "mine/link",
                           "theirs/closed/file", "theirs/pipe"}) {
    EXPECT_EQ(OwnerOf(At(path)), kTask) << path;
  }
  EXPECT_EQ(OwnerOf(At("roots/x/file")), 0U);
  EXPECT_EQ(OwnerOf("/run/host/outside"), 0U);
  EXPECT_EQ(OwnerOf("/run/host/outside/file"), 0U);
  EXPECT_EQ(OwnerOf(kTreesOfWeb), kTreeOwner);
}

// A task hard-links the host's files into its tree, and chown -R would give
// them away.
TEST_F(Trees, ChownOfLinkedFilesOfOthersIsTheAttack) {
  WriteFile("/run/host/shadow", "secret");
  WriteFile("/run/host/victims", "secret");
  ASSERT_EQ(::chown("/run/host/victims", kBeyondIds, kBeyondIds), 0);
  ASSERT_EQ(::link("/run/host/shadow", At("shadow").c_str()), 0);
  ASSERT_EQ(::link("/run/host/victims", At("victims").c_str()), 0);
  const Reply reply = Chown();
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.tree.left, 2U);
  EXPECT_EQ(OwnerOf("/run/host/shadow"), 0U);
  EXPECT_EQ(OwnerOf("/run/host/victims"), kBeyondIds);
  // A naive daemon changes the owner of each entry.
  for (const auto& entry : std::filesystem::directory_iterator(kTreesOfWeb)) {
    ASSERT_EQ(::lchown(entry.path().c_str(), kTreeOwner, kTreeOwner), 0);
  }
  EXPECT_NAIVE(OwnerOf("/run/host/shadow") == kTreeOwner);
}

TEST_F(Trees, ChownToOthersIsDenied) {
  Fill();
  for (const auto& [uid, gid] :
       {std::pair(kBeyondIds, kTreeOwner), std::pair(kTreeOwner, kBeyondIds),
        std::pair(uid_t{0}, kTreeOwner), std::pair(kTreeOwner, uid_t{0})}) {
    plan_.uid = uid;
    plan_.gid = gid;
    EXPECT_EQ(CodeOf(Chown()), "PermissionDenied") << uid << ":" << gid;
  }
  plan_.uid = UINT32_MAX;
  EXPECT_EQ(CodeOf(Chown()), "InvalidArgument");
}

TEST_F(Trees, ChownInPartsMissesNothing) {
  Fill();
  for (int i = 0; i < 60; ++i) {
    Make("many/" + std::to_string(i % 7) + "/" + std::to_string(i), kTask);
  }
  constexpr std::size_t kMany = 60 + 7 + 1;
  ASSERT_EQ(::chown(At("many").c_str(), kTreeOwner, kTreeOwner), 0);
  for (int i = 0; i < 7; ++i) {
    const std::string path = At("many/" + std::to_string(i));
    ASSERT_EQ(::chown(path.c_str(), kTreeOwner, kTreeOwner), 0);
  }
  plan_.uid = kTask + 5;
  for (const std::size_t entries : {1U, 3U, 1000U}) {
    SCOPED_TRACE(entries);
    ++plan_.uid;
    int parts = 0;
    const TreeReply sum = InParts(propagation::ChownSome, entries, &parts);
    EXPECT_EQ(sum.finished, 1U);
    EXPECT_EQ(sum.left, 3U);
    EXPECT_EQ(sum.done, kFilled - 3 + kMany);
    EXPECT_GE(static_cast<std::size_t>(parts), (kFilled + kMany) / entries);
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(At("many"))) {
      EXPECT_EQ(OwnerOf(entry.path()), plan_.uid) << entry.path();
    }
  }
}

// The directory in which the last part ended has been removed meanwhile.
TEST_F(Trees, ChownGoesOnInATreeThatChanged) {
  for (int i = 0; i < 20; ++i) {
    Make(std::to_string(i), kTreeOwner);
    Make(std::to_string(i) + "/x", kTreeOwner);
  }
  plan_.uid = kTask;
  const auto inspector = propagation::MakeMountInspector(kernel_).value();
  const UniqueFd fd(::open(kTreesOfWeb, O_PATH | O_CLOEXEC));
  std::uint32_t finished = 0;
  int parts = 0;
  while (finished == 0 && ++parts < 1000) {
    const auto part = propagation::ChownSome(
        {kernel_, *inspector, config_, id_maps_}, fd.get(), plan_,
        TreeBound{1, std::chrono::hours(1)});
    ASSERT_TRUE(part.has_value());
    finished = part->finished;
    plan_.depth = part->depth;
    plan_.after = part->after;
    for (const auto& entry : std::filesystem::directory_iterator(kTreesOfWeb)) {
      if (OwnerOf(entry.path()) == kTask && CountIn(kTreesOfWeb) > 2) {
        std::filesystem::remove_all(entry.path());
      }
    }
  }
  EXPECT_EQ(finished, 1U);
  for (const auto& entry : std::filesystem::directory_iterator(kTreesOfWeb)) {
    EXPECT_EQ(OwnerOf(entry.path()), kTask);
  }
}

TEST_F(Trees, ChownStopsAtAMountAndNamesIt) {
  Make("mine/volume", kTreeOwner);
  MountTmpfs(At("mine/volume"));
  const Reply reply = Chown();
  EXPECT_EQ(CodeOf(reply), "Busy");
  EXPECT_NE(ErrorOf(reply).find("mine/volume"), std::string::npos)
      << ErrorOf(reply);
}

// The executor moves a directory that lies too deep to the top.
TEST_F(Trees, ADirectoryThatCannotBeMovedIsRemovedByTheNextTry) {
  std::string path;
  for (std::size_t i = 0; i < exec::kMaxTreeDepth + 2; ++i) {
    path += "d/";
  }
  for (const int error : exec::kErrorsOfAnyCall) {
    Make(path, kTreeOwner);
    kernel_.FailAt(0, 0);
    ASSERT_EQ(ErrorOf(Remove()), "");
    const auto& calls = kernel_.calls();
    const auto moved = std::find(calls.begin(), calls.end(), "Rename");
    ASSERT_NE(moved, calls.end());
    const auto at = static_cast<std::size_t>(moved - calls.begin()) + 1;
    Reply reply = Remove();
    for (int i = 0; i < 9 && reply.body.tree.finished == 0; ++i) {
      reply = Remove();
    }
    Make(path, kTreeOwner);
    kernel_.FailAt(at, error);
    EXPECT_NE(CodeOf(Remove()), "") << error;
    kernel_.FailAt(0, 0);
    reply = Remove();
    for (int i = 0; i < 9 && reply.body.tree.finished == 0; ++i) {
      reply = Remove();
    }
    EXPECT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(CountIn(kTreesOfWeb), 0U);
  }
  ExpectFailed({"Rename"});
}

TEST_F(Trees, ChownOfATreeThatIsTooDeepSaysSo) {
  std::string path;
  for (std::size_t i = 0; i <= exec::kMaxTreeDepth; ++i) {
    path += "d/";
  }
  Make(path, kTreeOwner);
  EXPECT_EQ(CodeOf(Chown()), "ResourceExhausted");
}

TEST_F(Trees, NamesInErrorsArePlain) {
  Make("a\nb\xff", kTreeOwner);
  MountTmpfs(At("a\nb\xff"));
  EXPECT_NE(ErrorOf(Remove()).find("a?b?"), std::string::npos);
  Unmount(At("a\nb\xff"));
  File("a\nb\xff/c\td", kTreeOwner);
  for (const PlanKind kind : {PlanKind::kChownTree, PlanKind::kRemoveTree}) {
    bool reached = true;
    for (std::size_t k = 1; reached; ++k) {
      kernel_.FailAt(k, EIO);
      const std::string error = ErrorOf(Run(kind));
      reached = kernel_.calls().size() >= k;
      EXPECT_TRUE(std::all_of(error.begin(), error.end(), [](char c) {
        return c >= 0x20 && c <= 0x7e;
      })) << error;
    }
  }
  kernel_.FailAt(0, 0);
}

TEST_F(Trees, TheFdMustBeADirectoryAndBeThere) {
  File("file", kTreeOwner);
  EXPECT_EQ(CodeOf(Remove(At("file"))), "InvalidArgument");
  fds_.clear();
  EXPECT_EQ(CodeOf(Call(PlanKind::kRemoveTree,
                        [&](exec::PlanBody* body) { body->tree = plan_; })),
            "InvalidArgument");
}

// Each kernel call fails in turn. Then the directory belongs to its owner
// again, or the next try can remove it, and nothing outside has changed.
TEST_F(Trees, EveryKernelCallMayFail) {
  for (const int error : exec::kErrorsOfAnyCall) {
    for (const PlanKind kind : {PlanKind::kRemoveTree, PlanKind::kChownTree}) {
      bool reached = true;
      for (std::size_t k = 1; reached; ++k) {
        SCOPED_TRACE("call " + std::to_string(k) + ", errno " +
                     std::to_string(error));
        Fill();
        kernel_.FailAt(k, error);
        const Reply reply = Run(kind);
        reached = kernel_.calls().size() >= k;
        kernel_.FailAt(0, 0);
        if (reply.code != 0) {
          ASSERT_EQ(ErrorOf(Run(kind)), "");
        }
        ASSERT_EQ(OwnerOf(kTreesOfWeb), kTreeOwner);
        ASSERT_EQ(ErrorOf(Remove()), "");
        ASSERT_TRUE(Exists("/run/host/outside/file"));
        ASSERT_EQ(::unlink("/run/host/outside/file"), 0);
      }
    }
  }
  ExpectFailed({"ListAfter"});
}

TEST_F(Trees, AKillAnywhereIsFinishedByTheNextTry) {
  bool reached = true;
  for (std::size_t k = 1; reached; ++k) {
    Make("task", kTreeOwner, 0751);
    Make("task/full", kTask);
    kernel_.DieAt(k);
    Remove(At("task"));
    reached = kernel_.calls().size() >= k;
    kernel_.FailAt(0, 0);
    ASSERT_EQ(ErrorOf(Remove(At("task"))), "") << k;
    ASSERT_EQ(OwnerOf(At("task")), kTreeOwner) << k;
    ASSERT_EQ(CountIn(At("task")), 0U) << k;
  }
}

}  // namespace
}  // namespace mountd::testing
