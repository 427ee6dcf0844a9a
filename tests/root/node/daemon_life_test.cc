// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The end of a mountd without work, seen from outside: mountd notifies systemd,
// then gives up its name on the bus, and answers the calls that came before. A
// daemon on models is stopped while it notifies systemd, so that calls come at
// just that moment.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "mountd/base/paths.h"
#include "mountd/daemon/daemon.h"
#include "tests/support/bus_client.h"
#include "tests/support/eventually.h"
#include "tests/support/fakes/fake_csi_client.h"
#include "tests/support/fakes/fake_executor.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/raw_socket.h"
#include "tests/support/servers/closer_thread.h"
#include "tests/support/servers/private_bus.h"
#include "tests/support/temp_directory.h"
#include "tests/support/unix_socket.h"

namespace mountd::test {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;

constexpr char kConfigText[] = R"(
[[rule]]
users = ["root"]
)";

// systemd's end of $NOTIFY_SOCKET. While it is full, a daemon that notifies
// waits.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : path_(path) {
    const sockaddr_un address = Address();
    fd_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address),
               sizeof(address)) != 0) {
      std::abort();
    }
  }

  // Returns the next notification; "" if none comes.
  std::string Read() {
    pollfd entry{fd_.get(), POLLIN, 0};
    char text[512];
    if (::poll(&entry, 1, 60'000) <= 0) {
      return "";
    }
    const ssize_t size = ::recv(fd_.get(), text, sizeof(text), 0);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "";
  }
  void Fill() {
    const sockaddr_un address = Address();
    const UniqueFd other(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    while (::sendto(other.get(), "full", 4, MSG_DONTWAIT,
                    reinterpret_cast<const sockaddr*>(&address),
                    sizeof(address)) == 4) {
    }
  }
  // Returns the first notification of the daemon behind the filling ones.
  std::string ReadAfterFilling() {
    std::string text = Read();
    while (text == "full") {
      text = Read();
    }
    return text;
  }

 private:
  sockaddr_un Address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }

  const std::string path_;
  UniqueFd fd_;
};

class DaemonLife : public mountd::testing::PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    ASSERT_EQ(::mount("state", "/var/lib", "tmpfs", 0, "mode=0755"), 0);
    fs::create_directories("/run/mountd/state");
    fs::create_directories("/var/lib/mountd");
    std::ofstream(kConfig) << kConfigText;
    fs::permissions(kConfig, fs::perms(0644));
    listening_ = ListenAt(paths::kBusSocket);
    bus_ = std::make_unique<PrivateBus>(directory_.File(""));
    Start();
  }
  void TearDown() override {
    if (daemon_ > 0) {
      ::kill(daemon_, SIGKILL);
      ::waitpid(daemon_, nullptr, 0);
    }
    bus_.reset();
    PrivateNamespaces::TearDown();
  }

  // Starts the daemon as systemd does, with a socket that systemd keeps.
  void Start() {
    std::fflush(nullptr);  // the child must not print it again
    daemon_ = ::fork();
    ASSERT_GE(daemon_, 0);
    if (daemon_ == 0) {
      ::setenv("NOTIFY_SOCKET", notify_path_.c_str(), 1);
      RunDaemon(UniqueFd(::dup(listening_.get())));
    }
    // The daemon before this one may have sent STOPPING twice.
    std::string told = notify_.Read();
    while (told == "STOPPING=1") {
      told = notify_.Read();
    }
    ASSERT_EQ(told, "READY=1");
  }
  [[noreturn]] static void RunDaemon(UniqueFd listening) {
    exec::FakeExecutor executor;
    csi::FakeCsiClient client(executor);
    Seams seams;
    seams.executor = [&](exec::Executor&) -> exec::Executor& {
      return executor;
    };
    seams.csi = [&](csi::CsiClient&) -> csi::CsiClient& { return client; };
    seams.tidy_up_pause = std::chrono::milliseconds(20);
    seams.closer = CloserInThread();
    const auto daemon = Daemon::Start({kConfig, true, std::chrono::seconds(1)},
                                      std::move(listening), seams);
    if (!daemon) {
      std::cerr << daemon.error().Message() << std::endl;
    }
    if (!daemon || !(*daemon)->Run()) {
      std::_Exit(EX_SOFTWARE);
    }
    std::_Exit((*daemon)->restart() ? EX_TEMPFAIL : EXIT_SUCCESS);
  }
  int Wait() {
    int status = 0;
    ::waitpid(std::exchange(daemon_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  // The daemon stays in the same sendmsg for a while, which no other part of
  // its loop does.
  bool AwaitHeldInSend() const {
    constexpr int kTimes = 5;
    const std::string begin = std::to_string(SYS_sendmsg) + " ";
    std::string before;
    int same = 0;
    return Eventually([&] {
      std::ifstream file("/proc/" + std::to_string(daemon_) + "/syscall");
      std::string now;
      std::getline(file, now);
      same = now.starts_with(begin) && now == before ? same + 1 : 0;
      before = now;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return same >= kTimes;
    });
  }
  // The bus's answer also means that it has forwarded all earlier messages to
  // the daemon.
  static bool NameHasOwner(BusClient& client) {
    sd_bus_message* raw = nullptr;
    int owned = 0;
    const int status =
        sd_bus_call_method(client.raw(), "org.freedesktop.DBus",
                           "/org/freedesktop/DBus", "org.freedesktop.DBus",
                           "NameHasOwner", nullptr, &raw, "s", "org.mountd1");
    if (status >= 0) {
      sd_bus_message_read(raw, "b", &owned);
    }
    sd_bus_message_unref(raw);
    return owned != 0;
  }
  std::unique_ptr<BusClient> ConnectBus() const {
    return BusClient::Connect({bus_->address(), true});
  }

  static constexpr char kConfig[] = "/run/mountd/mountd.toml";
  TempDirectory directory_;
  const std::string notify_path_ = directory_.File("notify");
  NotifySocket notify_{notify_path_};
  UniqueFd listening_;
  std::unique_ptr<PrivateBus> bus_;
  pid_t daemon_ = -1;
};

TEST_F(DaemonLife, WithNothingToDoItEndsAndSaysSoFirst) {
  const auto client = ConnectBus();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(Eventually([&] { return NameHasOwner(*client); }));
  notify_.Fill();
  ASSERT_TRUE(AwaitHeldInSend());
  EXPECT_TRUE(NameHasOwner(*client));
  EXPECT_EQ(notify_.ReadAfterFilling(), "STOPPING=1");
  EXPECT_EQ(Wait(), EXIT_SUCCESS);
  EXPECT_FALSE(NameHasOwner(*client));
}

TEST_F(DaemonLife, ACallOfTheBusThatCameBeforeIsAnswered) {
  const auto client = ConnectBus();
  ASSERT_NE(client, nullptr);
  ASSERT_TRUE(Eventually([&] { return NameHasOwner(*client); }));
  notify_.Fill();
  ASSERT_TRUE(AwaitHeldInSend());
  const std::uint64_t call =
      client->Send("PrepareAllocation", "sa{sv}", "web", 0);
  ASSERT_TRUE(NameHasOwner(*client));
  EXPECT_EQ(notify_.ReadAfterFilling(), "STOPPING=1");
  const Answer answer = client->Await(call);
  EXPECT_TRUE(answer.ok()) << answer.message;
  // The daemon may now have something to look after, so it exits with a status
  // that makes systemd start it again without a call.
  EXPECT_EQ(Wait(), EX_TEMPFAIL);
  Start();
  ASSERT_TRUE(Eventually([&] { return NameHasOwner(*client); }));
  EXPECT_TRUE(client->Call("GetAllocation", "sa{sv}", "web", 0).ok());
}

// mountd accepts no connection any more at that moment; the next mountd does.
TEST_F(DaemonLife, WhoConnectsMeanwhileIsServedByTheNext) {
  notify_.Fill();
  ASSERT_TRUE(AwaitHeldInSend());
  RawSocket early(paths::kBusSocket);
  ASSERT_TRUE(early.Write(kHandshake));
  EXPECT_EQ(notify_.ReadAfterFilling(), "STOPPING=1");
  EXPECT_EQ(Wait(), EXIT_SUCCESS);
  Start();
  const std::optional<std::string> answer = early.ReadLine();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->starts_with("DATA") || answer->starts_with("OK"))
      << *answer;
}

// A connection keeps mountd alive, even if its client sends nothing.
TEST_F(DaemonLife, WhoIsConnectedKeepsItUntilHeGoes) {
  {
    const auto client = BusClient::Connect(
        {"unix:path=" + std::string(paths::kBusSocket), false});
    ASSERT_NE(client, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    EXPECT_TRUE(client->Call("ListOwed", "a{sv}", 0).ok());
    EXPECT_EQ(::waitpid(daemon_, nullptr, WNOHANG), 0);
  }
  EXPECT_EQ(notify_.Read(), "STOPPING=1");
  EXPECT_EQ(Wait(), EXIT_SUCCESS);
}

}  // namespace
}  // namespace mountd::test
