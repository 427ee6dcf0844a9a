// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The executor finds copies of a mount that survive its unmount in processes.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/root/cgroup_fixture.h"
#include "tests/support/copying_task.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

using exec::HolderKind;
using exec::HolderScope;
using exec::HoldersState;
using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;

constexpr char kMount[] = "/run/mountd/base/a/web/app/data";

bool BindPrivately() {
  ::mkdir(CopyingTask::kPlace, 0755);
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
         ::mount(kMount, CopyingTask::kPlace, nullptr, MS_BIND, nullptr) == 0 &&
         ::umount2("/run/mountd/base", MNT_DETACH) == 0;
}

class Copies : public CgroupFixture {
 protected:
  void SetUp() override {
    CgroupFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    cgroup_ = MakeCgroup("web");
    PrepareBase();
    const Reply attached = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(attached), "");
    mount_id_ = attached.body.mount.mount_id;
  }
  Reply Find(HolderScope scope = HolderScope::kCgroup,
             std::uint32_t budget_ms = 10'000) {
    return Call(PlanKind::kFindCopies, [&](PlanBody* body) {
      body->copies = exec::CopiesPlan{};
      body->copies.scope = scope;
      body->copies.budget_ms = budget_ms;
      body->copies.cgroup = cgroup_;
      body->copies.count = 1;
      body->copies.mount_ids[0] = mount_id_;
    });
  }
  HoldersState Found(HolderScope scope = HolderScope::kCgroup) {
    const Reply reply = Find(scope);
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.copies.holders;
  }
  // Looks for copies of a volume that was once mounted from `source`.
  HoldersState FoundOfVolume(dev_t device, const std::string& source,
                             HolderScope scope = HolderScope::kCgroup) {
    const Reply reply = Call(PlanKind::kFindCopies, [&](PlanBody* body) {
      exec::CopiesPlan plan;
      plan.scope = scope;
      plan.budget_ms = 10'000;
      plan.cgroup = cgroup_;
      plan.has_volume = 1;
      plan.volume.plugin = exec::ToWire("p");
      plan.volume.area = exec::VolumeArea::kPublish;
      plan.volume.allocation = exec::ToWire("web");
      plan.volume.volume.fill('0');
      plan.before.device = device;
      plan.before.type = {"tmpfs"};
      plan.before.root = {"/"};
      source.copy(plan.before.source.data(), source.size());
      body->copies = plan;
    });
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.copies.holders;
  }

  std::uint64_t cgroup_ = 0;
  std::uint64_t mount_id_ = 0;
};

TEST_F(Copies, OfAPrivateBindAreTold) {
  const Child& task = Spawn("web", BindPrivately);
  const HoldersState found = Found();
  ASSERT_EQ(found.count, 1U);
  EXPECT_EQ(found.incomplete, 0U);
  EXPECT_EQ(found.holders[0].pid, static_cast<std::uint32_t>(task.pid));
  EXPECT_EQ(found.holders[0].kind, HolderKind::kMount);
  EXPECT_EQ(found.holders[0].is_copy, 1);
  EXPECT_EQ(found.holders[0].in_cgroup, 1);
}

TEST_F(Copies, AreTheCgroupsOwnWhereOthersMayHaveThemToo) {
  SpawnOutside(BindPrivately);
  EXPECT_EQ(Found().count, 0U);
  // Host volumes belong to everybody, so a stranger's bind is the stranger's
  // own.
  EXPECT_EQ(Found(HolderScope::kNode).count, 0U);
}

// Two tasks have mounts of the same source, so nothing tells whose copy it is.
TEST_F(Copies, AreNobodysWhileAnotherTaskHasAMountOfTheSame) {
  Spawn("web", BindPrivately);
  ASSERT_EQ(Found().count, 1U);
  exec::Request other = AttachRequest("data", Propagation::kPrivate);
  other.body.attach.target.task = exec::ToWire("another");
  ASSERT_EQ(ErrorOf(Send(other)), "");
  EXPECT_EQ(Found().count, 0U);
}

TEST_F(Copies, AreNoneInANamespaceThatFollows) {
  Spawn("web", [] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0;
  });
  EXPECT_EQ(Found().count, 0U);
}

TEST_F(Copies, AreThoseOfAPartToo) {
  Spawn("web", [] {
    ::mkdir(CopyingTask::kPlace, 0755);
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0 &&
           ::mount((std::string(kMount) + "/sub").c_str(), CopyingTask::kPlace,
                   nullptr, MS_BIND, nullptr) == 0;
  });
  EXPECT_EQ(Found().count, 1U);
}

// A copy that follows ours is still another mount, because its parent does not
// follow ours' parent.
TEST_F(Copies, AreThoseThatFollowOursToo) {
  Spawn("web", [] {
    ::mkdir(CopyingTask::kPlace, 0755);
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0 &&
           ::mount(kMount, CopyingTask::kPlace, nullptr, MS_BIND | MS_REC,
                   nullptr) == 0 &&
           ::mount(nullptr, CopyingTask::kPlace, nullptr, MS_SLAVE | MS_REC,
                   nullptr) == 0;
  });
  EXPECT_EQ(Found().count, 1U);
}

// Before Linux 6.11 mountinfo is read through a process, and a process with
// another root directory shows only a part of the namespace.
TEST_F(Copies, AreOfTheWholeNamespaceWhateverAProcessSees) {
  Spawn("web", [] {
    if (!BindPrivately()) {
      return false;
    }
    const pid_t parent = ::getpid();
    if (::fork() == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      // The parent may have been killed before the signal was set.
      while (::getppid() == parent) {
        ::pause();
      }
      ::_exit(0);
    }
    return ::chroot("/proc/self/task") == 0 && ::chdir("/") == 0;
  });
  EXPECT_EQ(Found().count, 2U);
  kernel_.HideMountNamespaces();
  EXPECT_EQ(Found().count, 2U);
}

// Mounts a file system named "next" that is in no other mount namespace.
bool MountNext() {
  ::mkdir(CopyingTask::kPlace, 0755);
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_SLAVE | MS_REC, nullptr) == 0 &&
         ::mount("next", CopyingTask::kPlace, "tmpfs", 0, nullptr) == 0;
}

dev_t DeviceAtPlace(const Child& task) {
  struct stat st = {};
  const std::string place =
      "/proc/" + std::to_string(task.pid) + "/root" + CopyingTask::kPlace;
  EXPECT_EQ(::stat(place.c_str(), &st), 0);
  return st.st_dev;
}

// The kernel gives the device number of a removed file system to the next one.
TEST_F(Copies, AreNoneOfAnotherFileSystemThatGotItsNumber) {
  const dev_t device = DeviceAtPlace(Spawn("web", MountNext));
  EXPECT_EQ(FoundOfVolume(device, "next").count, 1U);
  EXPECT_EQ(FoundOfVolume(device, "").count, 1U);
  EXPECT_EQ(FoundOfVolume(device, "gone").count, 0U);
}

// Another search on the node, or lsns(8), holds a descriptor of each namespace
// while it looks at that namespace.
TEST_F(Copies, AreNoneInANamespaceThatOnlyALookKeeps) {
  Child& task = SpawnOutside(MountNext);
  const std::string process = "/proc/" + std::to_string(task.pid);
  const UniqueFd directory(::open(process.c_str(), O_PATH | O_CLOEXEC));
  const auto id = real_.MountNamespaceOf(directory.get());
  if (!id || !real_.MountNamespaces()) {
    return;  // the kernel lists no namespaces without a process
  }
  UniqueFd look(::open((process + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(look.valid());
  const dev_t device = DeviceAtPlace(task);
  End(task);
  const HoldersState held = FoundOfVolume(device, "next", HolderScope::kNode);
  ASSERT_EQ(held.count, 1U);
  EXPECT_EQ(held.holders[0].kind, HolderKind::kNamespace);
  kernel_.AfterListing(*id, [&] { look.reset(); });
  EXPECT_EQ(FoundOfVolume(device, "next", HolderScope::kNode).count, 0U);
  EXPECT_FALSE(look.valid());
}

// Owns a copy of MountNext in a namespace without a process.
class LoneCopy {
 public:
  explicit LoneCopy(const Child& task) {
    Hold("/proc/" + std::to_string(task.pid));
  }
  std::uint64_t id() const { return id_; }
  // Moves the copy to a new namespace, so that the old one is gone.
  void Hop() {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    const UniqueFd reading(ready[0]);
    UniqueFd writing(ready[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const bool is_made = ::setns(space_.get(), CLONE_NEWNS) == 0 &&
                           ::unshare(CLONE_NEWNS) == 0 &&
                           ::write(writing.get(), "x", 1) == 1;
      if (is_made) {
        ::pause();  // until the SIGKILL below
      }
      ::_exit(1);
    }
    writing.reset();
    char made = 0;
    EXPECT_EQ(::read(reading.get(), &made, 1), 1);
    Hold("/proc/" + std::to_string(pid));
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

 private:
  void Hold(const std::string& process) {
    const UniqueFd directory(::open(process.c_str(), O_PATH | O_CLOEXEC));
    const auto id = exec::RealKernel().MountNamespaceOf(directory.get());
    id_ = id ? *id : 0;
    space_.reset(::open((process + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(space_.valid());
  }

  UniqueFd space_;
  std::uint64_t id_ = 0;
};

// A task moves its copy from namespace to namespace while the executor looks:
// after each list of namespaces, or after the executor has seen the copy.
TEST_F(Copies, InANamespaceThatIsAlwaysAnotherAreTold) {
  if (!real_.MountNamespaces()) {
    return;  // the kernel lists no namespaces without a process
  }
  for (const bool is_seen : {false, true}) {
    SCOPED_TRACE(is_seen);
    Child& task = SpawnOutside(MountNext);
    const dev_t device = DeviceAtPlace(task);
    LoneCopy copy(task);
    End(task);
    int hops = 0;
    bool is_listed = false;
    std::function<void()> hop = [&] {
      ++hops;
      copy.Hop();
      kernel_.AfterListing(copy.id(), hop);
    };
    if (is_seen) {
      kernel_.AfterListing(copy.id(), hop);
    } else {
      kernel_.Before([&](const std::string& call) {
        if (call == "MountsOfNamespace" && is_listed && hops < 3) {
          ++hops;
          copy.Hop();
        }
        is_listed = call == "MountNamespaces";
      });
    }
    const HoldersState found =
        FoundOfVolume(device, "next", HolderScope::kNode);
    kernel_.Before(nullptr);
    kernel_.AfterListing(0, nullptr);
    EXPECT_GT(hops, 0);
    EXPECT_TRUE(found.count == 1U || found.incomplete != 0);
  }
}

// A namespace that is made on another CPU may be missing in a list.
TEST_F(Copies, InANamespaceThatAListMissesAreTold) {
  if (!real_.MountNamespaces()) {
    return;  // the kernel lists no namespaces without a process
  }
  Child& task = SpawnOutside(MountNext);
  const dev_t device = DeviceAtPlace(task);
  const LoneCopy copy(task);
  End(task);
  for (int lists = 0; lists <= 2; ++lists) {
    kernel_.LeaveOut(copy.id(), lists);
    EXPECT_EQ(FoundOfVolume(device, "next", HolderScope::kNode).count, 1U);
  }
}

// Moves a copy of MountNext from namespace to namespace, in a child that is in
// the test's own namespace for most of the time. Writes the copy's device.
bool HopForEver(dev_t* device) {
  const int clean = ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  struct stat st = {};
  if (clean < 0 || !MountNext() || ::stat(CopyingTask::kPlace, &st) != 0) {
    return false;
  }
  *device = st.st_dev;
  int space = ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  const pid_t parent = ::getpid();
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::getppid() == parent) {
      ::setns(space, CLONE_NEWNS);
      ::unshare(CLONE_NEWNS);
      const int next = ::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
      ::setns(clean, CLONE_NEWNS);
      ::close(space);
      space = next;
      ::usleep(100);
    }
    ::_exit(0);
  }
  ::close(space);
  return ::setns(clean, CLONE_NEWNS) == 0;
}

// The kernel gives the number of a namespace that is gone to the next one, so
// the number alone does not tell that a namespace was read.
TEST_F(Copies, InANamespaceThatIsSoonAnotherAreTold) {
  if (!real_.MountNamespaces()) {
    return;  // the kernel lists no namespaces without a process
  }
  void* const shared = ::mmap(nullptr, sizeof(dev_t), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const device = static_cast<dev_t*>(shared);
  SpawnOutside([device] { return HopForEver(device); });
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    const HoldersState found =
        FoundOfVolume(*device, "next", HolderScope::kNode);
    EXPECT_TRUE(found.count > 0 || found.incomplete != 0);
  }
  ::munmap(shared, sizeof(dev_t));
}

// A task with a copy and a second thread, which ends when the test says so.
class CopyWithAThread {
 public:
  CopyWithAThread() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  bool Start() const {
    if (!BindPrivately()) {
      return false;
    }
    const int end = read_.get();
    std::thread([end] {
      char byte = 0;
      while (::read(end, &byte, 1) < 0 && errno == EINTR) {
      }
    }).detach();
    return true;
  }
  void EndThread(pid_t pid) const {
    EXPECT_EQ(::write(write_.get(), "", 1), 1);
    const std::string threads = "/proc/" + std::to_string(pid) + "/task";
    EXPECT_TRUE(Eventually([&] {
      return std::distance(std::filesystem::directory_iterator(threads), {}) ==
             1;
    }));
  }

 private:
  UniqueFd read_;
  UniqueFd write_;
};

// A task whose copy is in the mount namespace of one thread alone, which goes
// on as a new thread when the test says so.
class HoppingThread {
 public:
  HoppingThread() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
  }
  bool Start() const {
    std::promise<bool> bound;
    std::thread([&bound, end = read_.get()] {
      bound.set_value(BindPrivately());
      Live(end);
    }).detach();
    return bound.get_future().get();
  }
  void Hop(pid_t pid) const {
    const auto before = ThreadsOf(pid);
    EXPECT_EQ(::write(write_.get(), "", 1), 1);
    EXPECT_TRUE(Eventually([&] {
      const auto now = ThreadsOf(pid);
      return now != before && now.size() == before.size();
    }));
  }

 private:
  static void Live(int end) {
    char byte = 0;
    while (::read(end, &byte, 1) < 0 && errno == EINTR) {
    }
    // A new thread is in the mount namespace of the thread that starts it.
    std::thread(Live, end).detach();
  }
  static std::set<std::string> ThreadsOf(pid_t pid) {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(pid) + "/task")) {
      all.insert(entry.path().filename());
    }
    return all;
  }

  UniqueFd read_;
  UniqueFd write_;
};

// A thread with the copy ends each time before its turn, and another one goes
// on.
TEST_F(Copies, OfAThreadThatIsSoonAnotherAreTold) {
  for (const int most : {2, 1000}) {
    SCOPED_TRACE(most);
    const HoppingThread thread;
    Child& task = Spawn("web", [&thread] { return thread.Start(); });
    int hops = 0;
    std::string last;
    kernel_.Before([&](const std::string& call) {
      if (last == "List" && call == "Open" && hops < most) {
        ++hops;
        thread.Hop(task.pid);
      }
      last = call;
    });
    const HoldersState found = Found();
    kernel_.Before(nullptr);
    EXPECT_GE(hops, 2);
    EXPECT_TRUE(found.count == 1U || found.incomplete != 0);
    EXPECT_EQ(found.count, most == 2 ? 1U : found.count);
    End(task);
  }
}

// Ends the main thread. Another thread goes on.
void GoOnAsAThread(int /*signal*/) {
  std::thread([] {
    for (;;) {
      ::pause();
    }
  }).detach();
  ::syscall(SYS_exit, 0);
}

bool IsZombie(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  const std::string text(std::istreambuf_iterator<char>(stat), {});
  const std::size_t name = text.rfind(')');  // proc_pid_stat(5)
  return name != std::string::npos && text.substr(name, 3) == ") Z";
}

// The only thread ends when the executor has counted the threads.
TEST_F(Copies, OfAMainThreadThatGoesOnAsAnotherAreTold) {
  const Child& task = Spawn("web", [] {
    return ::signal(SIGUSR1, GoOnAsAThread) != SIG_ERR && BindPrivately();
  });
  bool has_ended = false;
  std::string last;
  kernel_.Before([&](const std::string& call) {
    if (last == "Stat" && call == "StatLinked" && !has_ended) {
      EXPECT_EQ(::kill(task.pid, SIGUSR1), 0);
      has_ended = Eventually([&] { return IsZombie(task.pid); });
    }
    last = call;
  });
  const HoldersState found = Found();
  kernel_.Before(nullptr);
  EXPECT_TRUE(has_ended);
  EXPECT_EQ(found.count, 1U);
}

// The kernel answers EACCES for a thread that ends while the executor follows
// one of the thread's links in /proc.
TEST_F(Copies, AThreadThatEndsMeanwhileIsNoMiss) {
  const CopyWithAThread copy;
  const Child& task = Spawn("web", [&copy] { return copy.Start(); });
  kernel_.FailAt(0, 0);
  ASSERT_EQ(Found().count, 1U);
  const std::vector<std::string> calls = kernel_.calls();
  const auto last = std::find(calls.rbegin(), calls.rend(), "MountNamespaceOf");
  ASSERT_NE(last, calls.rend());
  ASSERT_EQ(std::count(calls.begin(), calls.end(), "MountNamespaceOf"), 2);
  const auto second = static_cast<std::size_t>(calls.rend() - last);
  kernel_.FailAt(second, EACCES);
  EXPECT_EQ(Found().incomplete, 1U);

  kernel_.FailAt(second, EACCES);
  kernel_.Before([&](const std::string&) {
    if (kernel_.calls().size() == second) {
      copy.EndThread(task.pid);
    }
  });
  const HoldersState found = Found();
  kernel_.Before(nullptr);
  EXPECT_EQ(found.incomplete, 0U);
  EXPECT_EQ(found.count, 1U);
}

TEST_F(Copies, AreNotLookedForLongerThanAsked) {
  Spawn("web", BindPrivately);
  const Reply reply = Find(HolderScope::kNode, 1);
  EXPECT_EQ(ErrorOf(reply), "");
  // Either the search ran out of time, or it has seen all.
  EXPECT_TRUE(reply.body.copies.holders.incomplete != 0 ||
              reply.body.copies.holders.count == 1U);
}

TEST_F(Copies, OfACgroupThatIsGoneAreNone) {
  cgroup_ = 0x7fffffff;
  EXPECT_EQ(Found().count, 0U);
}

TEST_F(Copies, OfCgroupsThatAreNotGrantedAreNotTold) {
  config_.rules.back().cgroups = {top() + "/other"};
  EXPECT_EQ(CodeOf(Find()), "PermissionDenied");
  EXPECT_EQ(CodeOf(Find(HolderScope::kNode)), "PermissionDenied");
}

// A threaded cgroup does not list its processes.
TEST_F(Copies, OfAThreadedCgroupMayBeMissed) {
  WriteFile("/sys/fs/cgroup" + top() + "/web/cgroup.type", "threaded");
  EXPECT_EQ(Found().incomplete, 0U);
  Spawn("web", BindPrivately);
  EXPECT_NE(Found().incomplete, 0U);
}

// A call that fails must not make the executor report that no copy exists, also
// not of a process in a cgroup beneath the allocation's.
TEST_F(Copies, ACallThatFailsNeverHidesOne) {
  MakeCgroup("web/pod");
  Spawn("web/pod", BindPrivately);
  kernel_.FailAt(0, 0);
  ASSERT_EQ(Found().count, 1U);
  const std::vector<std::string> calls = kernel_.calls();
  for (const int error : exec::kErrorsOfAnyCall) {
    for (std::size_t k = 1; k <= calls.size(); ++k) {
      SCOPED_TRACE(std::to_string(k) + " " + calls[k - 1] + ", errno " +
                   std::to_string(error));
      kernel_.FailAt(k, error);
      const Reply reply = Find();
      kernel_.FailAt(0, 0);
      const HoldersState& found = reply.body.copies.holders;
      EXPECT_TRUE(!ErrorOf(reply).empty() || found.count == 1U ||
                  found.incomplete != 0);
    }
  }
}

}  // namespace
}  // namespace mountd::testing
