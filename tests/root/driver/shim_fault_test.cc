// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Somebody kills the runtime of mountd-task-shim at some moment of each of its
// verbs. The same request is then right.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <latch>
#include <sstream>
#include <thread>

#include "mountd/base/memory_file.h"
#include "tests/root/driver/shim_fixture.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using shim::Kind;
using shim::Message;
using shim::Tag;

// A verb of crun takes 5 to 15 ms.
constexpr std::array<useconds_t, 12> kMoments = {
    0, 500, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 8000, 10'000, 14'000};

// Returns what read(2) gives at once. A stream would throw if the process of a
// file in /proc has ended.
std::string ContentOf(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer{};
  const ssize_t got =
      file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

// Returns the child of the shim that runs the verb; -1 without one.
pid_t RuntimeOf(pid_t shim, const std::string& verb) {
  const std::string process = std::to_string(shim);
  std::istringstream children(
      ContentOf("/proc/" + process + "/task/" + process + "/children"));
  const std::string word = std::string(1, '\0') + verb + std::string(1, '\0');
  for (pid_t pid = 0; children >> pid;) {
    const std::string line =
        ContentOf("/proc/" + std::to_string(pid) + "/cmdline");
    // The first process of the task has the words of crun's create, too, until
    // the task starts. It has a session of its own.
    if (line.find(word) != std::string::npos && ::getsid(pid) != pid) {
      return pid;
    }
  }
  return -1;
}

// Owns a thread that kills the next runtime of the shim with that verb,
// `moment` microseconds after it is there.
class RuntimeKiller {
 public:
  RuntimeKiller(pid_t shim, std::string verb, useconds_t moment)
      : thread_([this, shim, verb = std::move(verb),
                 moment](const std::stop_token& stop) {
          pid_t runtime = -1;
          looks_.count_down();
          while (runtime < 0 && !stop.stop_requested()) {
            runtime = RuntimeOf(shim, verb);
          }
          ::usleep(moment);
          if (runtime > 0) {
            ::kill(runtime, SIGKILL);
          }
        }) {
    looks_.wait();
  }

 private:
  std::latch looks_{1};
  std::jthread thread_;
};

class TaskShimFault : public ShimFixture {
 protected:
  int ProcessesIn(const std::string& name) const {
    std::istringstream procs(ContentOf(CgroupOf(name) + "/cgroup.procs"));
    int count = 0;
    for (pid_t pid = 0; procs >> pid;) {
      ++count;
    }
    return count;
  }

  static bool HasState(const Task& task) {
    return fs::exists("/run/tasks/runtime/" + task.name);
  }
};

TEST_F(TaskShimFault, LeavesNothingOfACreateThatWasKilled) {
  int killed = 0;
  for (const useconds_t moment : kMoments) {
    Task task = MakeTask("create-" + std::to_string(moment));
    auto shim = shim::LaunchShim(MakeLaunch(task, "exit 7"));
    ASSERT_TRUE(shim) << shim.error().Message();
    Result<shim::Answer> created = Error{};
    {
      ASSERT_TRUE(Eventually([&] {
        return fs::exists(task.directory + "/shim.sock") ||
               fs::exists(task.directory + "/exit");
      }));
      const auto connection =
          shim::ShimConnection::Open(task.directory_fd.get());
      const RuntimeKiller killer(connection ? PeerOf(*connection) : -1,
                                 "create", moment);
      created = shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
    }
    if (created) {
      task.shim.emplace(*std::move(shim));
      Start(task);
      EXPECT_EQ(WaitFor(task), "code 7");
      EXPECT_EQ(Delete(task, false), "Ok");
    } else {
      ++killed;
      EXPECT_EQ(created.error().code, Code::kAborted)
          << created.error().Message();
    }
    EXPECT_TRUE(Eventually([&] { return !IsPopulated(task.name); })) << moment;
    EXPECT_FALSE(HasState(task)) << moment;
  }
  EXPECT_GT(killed, 0);
}

// A naive shim runs `crun start`, and the runtime here ends at once.
TEST_F(TaskShimFault, StartsATaskOfCrunByItself) {
  runtime_ = "/run/killed-start";
  std::ofstream(runtime_)
      << "#!/bin/sh\ncase \"$*\" in *' start '*) kill -9 $$;; esac\n"
         "exec crun \"$@\"\n"
      << std::flush;
  ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
  Task task = Create("web", "exit 7");
  const std::string fifo = "/run/tasks/runtime/web/exec.fifo";
  EXPECT_TRUE(fs::exists(fifo));
  Start(task);
  EXPECT_FALSE(fs::exists(fifo));
  const auto again = Connect(task).Call(Message(Kind::kStart), {}, kSoon);
  EXPECT_TRUE(again || again.error().code == Code::kFailedPrecondition)
      << again.error().Message();
  EXPECT_EQ(WaitFor(task), "code 7");
  EXPECT_EQ(Delete(task, false), "Ok");
}

TEST_F(TaskShimFault, LeavesNoProcessOfAnExecThatWasKilled) {
  Task task = Run("web", "exec sleep 1000");
  const pid_t shim = ShimOf(task);
  auto json = MemoryWith("process.json", R"({"user": {"uid": 0, "gid": 0},
      "cwd": "/", "env": ["PATH=/bin"], "args": ["/bin/sleep", "1000"]})");
  ASSERT_TRUE(json);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::array fds = {json->get(), null.get(), null.get(), null.get()};
  int killed = 0;
  for (const useconds_t moment : kMoments) {
    auto connection = Connect(task);
    const RuntimeKiller killer(shim, "exec", moment);
    const auto started = connection.Call(Message(Kind::kExec), fds, kSoon);
    killed += started ? 0 : 1;
    if (!started) {
      EXPECT_EQ(started.error().code, Code::kAborted)
          << started.error().Message();
      EXPECT_TRUE(Eventually([&] { return ProcessesIn("web") == 1; }))
          << moment;
    }
  }
  EXPECT_GT(killed, 0);
  auto connection = Connect(task);
  EXPECT_TRUE(connection.Call(Message(Kind::kExec), fds, kSoon));
}

TEST_F(TaskShimFault, DeletesAfterADeleteThatWasKilled) {
  int killed = 0;
  // This verb is the shortest.
  for (useconds_t moment = 0; moment < 6000; moment += 250) {
    Task task = Run("delete-" + std::to_string(moment), "exit 0");
    EXPECT_EQ(WaitFor(task), "code 0");
    std::string deleted;
    {
      const RuntimeKiller killer(ShimOf(task), "delete", moment);
      deleted = Delete(task, false);
    }
    if (deleted != "Ok") {
      ++killed;
      EXPECT_EQ(Delete(task, false), "Ok") << moment;
    }
    EXPECT_FALSE(HasState(task)) << moment;
  }
  EXPECT_GT(killed, 0);
}

}  // namespace
}  // namespace mountd::testing
