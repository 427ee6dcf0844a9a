// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A shim that lives and cannot be reached is no killed shim.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "agent/driver/protocol/shim_connection.h"
#include "mountd/base/unique_fd.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using std::chrono::seconds;

constexpr std::size_t kMostConnections = 256;  // of a shim
constexpr rlim_t kUsualFiles = 1024;
constexpr int kMostFreeFds = 12;

void SetFiles(rlim_t soft, rlim_t hard) {
  const rlimit limit{soft, hard};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

// Owns copies of a file, so that no number below the highest fd is free.
class NoFreeFds {
 public:
  NoFreeFds() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int highest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    copies_.emplace_back(highest);
    int last = -1;
    const int above = Highest();
    do {
      last = ::fcntl(copies_.front().get(), F_DUPFD_CLOEXEC, 0);
      copies_.emplace_back(last);
    } while (last <= above);
    last_ = last;
  }
  ~NoFreeFds() { Allow(before_.rlim_cur); }
  NoFreeFds(const NoFreeFds&) = delete;
  NoFreeFds& operator=(const NoFreeFds&) = delete;

  void LeaveFree(int count) const {
    Allow(static_cast<rlim_t>(last_) + 1 + static_cast<rlim_t>(count));
  }
  void LeaveAll() const { Allow(before_.rlim_cur); }

 private:
  static int Highest() {
    int highest = -1;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      highest = std::max(highest, std::atoi(entry.path().filename().c_str()));
    }
    return highest;
  }
  void Allow(rlim_t soft) const { SetFiles(soft, before_.rlim_max); }

  rlimit before_{};
  std::vector<UniqueFd> copies_;
  int last_ = -1;
};

// Owns a process of the same user with more fds in flight than `count`.
class FdsInFlight {
 public:
  explicit FdsInFlight(int count) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::_exit(Send(count) && ::write(ready[1], "x", 1) == 1 ? ::pause() : 1);
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
  }
  ~FdsInFlight() { End(); }
  FdsInFlight(const FdsInFlight&) = delete;
  FdsInFlight& operator=(const FdsInFlight&) = delete;

  void End() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
      child_ = -1;
    }
  }

 private:
  static bool Send(int count) {
    constexpr int kInMessage = 250;
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()) != 0) {
      return false;
    }
    const std::vector<int> fds(kInMessage, STDERR_FILENO);
    std::vector<char> control(CMSG_SPACE(kInMessage * sizeof(int)));
    for (int sent = 0; sent <= count; sent += kInMessage) {
      char byte = 'x';
      iovec bytes{&byte, 1};
      msghdr message{};
      message.msg_iov = &bytes;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(kInMessage * sizeof(int));
      std::memcpy(CMSG_DATA(rights), fds.data(), kInMessage * sizeof(int));
      if (::sendmsg(pair[0], &message, MSG_DONTWAIT) < 0) {
        return false;
      }
    }
    return true;
  }

  pid_t child_ = -1;
};

class OciReach : public OciFixture {
 protected:
  TaskConfig Waiting(const std::string& name) const {
    return Shell(name, "exec -a marked-task sleep 10000");
  }
  TaskConfig StartWaiting(TaskDriver& driver, const std::string& name) const {
    TaskConfig config = Waiting(name);
    config.entrypoint = "/bin/bash";
    EXPECT_THAT(driver.StartTask(config), IsOk());
    EXPECT_TRUE(
        Eventually([] { return !ProcessesWith("marked-task").empty(); }));
    return config;
  }
  static void KillAllWith(const std::string& text) {
    for (const pid_t pid : ProcessesWith(text)) {
      ::kill(pid, SIGKILL);
    }
    EXPECT_TRUE(Eventually([&] { return ProcessesWith(text).empty(); }));
  }
  // The task runs, so each look says so, or is an error.
  static void ExpectNeverEnded(TaskDriver& driver, const std::string& id) {
    const NoFreeFds fds;
    for (int free = 0; free < kMostFreeFds; ++free) {
      fds.LeaveFree(free);
      const auto status = driver.InspectTask(id);
      const auto destroyed = driver.DestroyTask(id, false);
      fds.LeaveAll();
      EXPECT_TRUE(!status || status->state == TaskState::kRunning) << free;
      EXPECT_FALSE(destroyed) << free;
    }
  }
  void ExpectGone(TaskDriver& driver, const TaskConfig& config) const {
    EXPECT_THAT(driver.DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  }
};

TEST_F(OciReach, AShimWithTooManyConnectionsIsNotKilled) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver, "busy");
    const UniqueFd directory(::open(TaskDirectory(config.id).c_str(),
                                    O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::vector<shim::ShimConnection> held;
    for (std::size_t i = 0; i < kMostConnections; ++i) {
      auto connection = shim::ShimConnection::Open(directory.get());
      ASSERT_THAT(connection, IsOk());
      held.push_back(*std::move(connection));
    }
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)),
                IsErr(Code::kResourceExhausted));
    EXPECT_THAT(driver->InspectTask(config.id),
                IsErr(Code::kResourceExhausted));
    EXPECT_THAT(driver->WaitTask(config.id), IsErr(Code::kResourceExhausted));
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kResourceExhausted));
    held.clear();
    EXPECT_TRUE(Eventually([&] {
      return driver->ExecTask(config.id, {"true"}, seconds(1000)).has_value();
    }));
    EXPECT_EQ(ProcessesWith("marked-task").size(), 1U);
    ExpectGone(*driver, config);
  });
}

TEST_F(OciReach, ADriverWithoutAFreeFdTakesNoTaskForEnded) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver, "fds");
    ExpectNeverEnded(*driver, config.id);
    KillAllWith("mountd-task-shim");
    ExpectNeverEnded(*driver, config.id);
    ExpectGone(*driver, config);
  });
}

TEST_F(OciReach, ADriverWithoutAFreeFdAndWithoutCgroups) {
  AsUser([this] {
    OciDriverOptions options = Options();
    options.cgroup = "";
    const auto driver = MakeWith(options);
    const TaskConfig config = StartWaiting(*driver, "fds");
    KillAllWith("mountd-task-shim");
    ExpectNeverEnded(*driver, config.id);
    ExpectGone(*driver, config);
  });
}

TEST_F(OciReach, ASocketThatNobodyListensToYetIsNoKilledShim) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver, "early");
    KillAllWith("mountd-task-shim");
    KillAllWith("marked-task");
    // The directory of a task without processes, whose shim is about to listen.
    ASSERT_EQ(::chdir(TaskDirectory(config.id).c_str()), 0);
    ASSERT_EQ(::unlink("shim.sock"), 0);
    const UniqueFd bound(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::string_view("shim.sock").copy(&address.sun_path[0], 9);
    ASSERT_EQ(
        ::bind(bound.get(),
               static_cast<const sockaddr*>(static_cast<const void*>(&address)),
               sizeof(address)),
        0);
    UniqueFd holder(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(::flock(holder.get(), LOCK_SH), 0);
    EXPECT_THAT(driver->InspectTask(config.id), IsErr(Code::kUnavailable));
    EXPECT_THAT(driver->WaitTask(config.id), IsErr(Code::kUnavailable));
    EXPECT_THAT(driver->DestroyTask(config.id, true),
                IsErr(Code::kUnavailable));
    holder.reset();
    EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kExited);
    ASSERT_EQ(::chdir("/"), 0);
    ExpectGone(*driver, config);
  });
}

TEST_F(OciReach, FdsInFlightHurtNoOtherTask) {
  AsUser([this] {
    // As in a service with these limits. The other process has larger ones.
    FdsInFlight flood(static_cast<int>(2 * kUsualFiles));
    SetFiles(kUsualFiles, kUsualFiles);
    const auto driver = MakeDriver();
    const TaskConfig config = Waiting("flooded");
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kResourceExhausted));
    flood.End();
    StartWaiting(*driver, "flooded");
    FdsInFlight again(static_cast<int>(kUsualFiles / 2));
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)), IsOk());
    ExpectGone(*driver, config);
  });
}

TEST_F(OciReach, AStatusComesWithoutThePidfd) {
  AsUser([this] {
    const pid_t other = ::fork();
    if (other == 0) {
      // The shim has the limits of its driver.
      SetFiles(kUsualFiles, kUsualFiles);
      const auto small = MakeDriver();
      StartWaiting(*small, "status");
      ::_exit(0);
    }
    ASSERT_EQ(::waitpid(other, nullptr, 0), other);
    const TaskConfig config = Waiting("status");
    const auto driver = MakeDriver();
    FdsInFlight flood(static_cast<int>(2 * kUsualFiles));
    const auto status = driver->InspectTask(config.id);
    ASSERT_THAT(status, IsOk());
    EXPECT_EQ(status->attributes.at("phase"), "running");
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)),
                IsErr(Code::kResourceExhausted));
    flood.End();
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)), IsOk());
    ExpectGone(*driver, config);
  });
}

TEST_F(OciReach, ATaskHasHalfOfTheDriversLimitOfFiles) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver, "limits");
    rlimit ours{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &ours), 0);
    EXPECT_EQ(ours.rlim_cur, ours.rlim_max);
    const std::string hard = std::to_string(ours.rlim_max / 2);
    const auto limits = driver->ExecTask(
        config.id, {"/bin/sh", "-c", "ulimit -Hn; ulimit -Sn"}, seconds(1000));
    ASSERT_THAT(limits, IsOk());
    EXPECT_EQ(limits->stdout_text, hard + "\n1024\n");
    const pid_t task = ProcessesWith("marked-task").front();
    rlimit tasks{};
    ASSERT_EQ(::prlimit(task, RLIMIT_NOFILE, nullptr, &tasks), 0);
    EXPECT_EQ(tasks.rlim_max, ours.rlim_max / 2);
    ExpectGone(*driver, config);
  });
}

}  // namespace
}  // namespace mountd::driver::testing
