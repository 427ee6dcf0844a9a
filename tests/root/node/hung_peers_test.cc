// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Any client may send mountd open files of its own FUSE server that does not
// answer. The last close(2) of such a file waits unkillably. mountd must go on,
// end when it has to, and start again.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/fd_message.h"
#include "mountd/base/paths.h"
#include "tests/support/eventually.h"
#include "tests/support/kernel_release.h"
#include "tests/support/naive.h"
#include "tests/support/node/node.h"
#include "tests/support/node/stopped.h"
#include "tests/support/outcome.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/raw_socket.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kConfigOfPeers[] = R"(
[[rule]]
users = ["agent"]
)";
constexpr char kServed[] = "/run/host/fuse";

// Returns a connected pair of sockets; the second one's queue holds `fd`.
std::array<UniqueFd, 2> Queued(UniqueFd fd) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
            0);
  const int number = fd.get();
  const std::array<std::byte, 1> byte{};
  EXPECT_TRUE(SendWithFds(ends[0], byte, std::span(&number, 1)));
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Returns a connected pair; the second one's queue holds the socket, sent out
// of band, and bytes after it.
std::array<UniqueFd, 2> SendOutOfBand(std::array<UniqueFd, 2> pair) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
            0);
  const int number = pair[1].get();
  const std::array<std::byte, 1> byte{};
  EXPECT_TRUE(SendWithFds(ends[0], byte, std::span(&number, 1), MSG_OOB));
  EXPECT_EQ(::send(ends[0], "more", 4, 0), 4);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

class HungPeers : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    fs::create_directories(kServed);
    server_ =
        std::make_unique<FuseServer>(kServed, FuseServer::Writes::kWriteback);
    ASSERT_TRUE(server_->valid());
    writer_.reset(::open(File().c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(writer_.valid());
    auto node = Node::Start(kConfigOfPeers);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    ASSERT_EQ(Call(), "Ok");
  }
  // The server's death wakes the processes that wait for it.
  void TearDown() override {
    if (server_ != nullptr) {
      server_->Die();
    }
    for (const pid_t naive : naive_) {
      ::kill(naive, SIGKILL);
      ::waitpid(naive, nullptr, 0);
    }
    writer_.reset();
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    PrivateNamespaces::TearDown();
  }

  static std::string File() { return std::string(kServed) + "/file"; }
  static UniqueFd Open() {
    return UniqueFd(::open(File().c_str(), O_RDWR | O_CLOEXEC));
  }
  // From now on the last close of an open file waits until the server has taken
  // the written bytes.
  void DirtyAndHang() {
    ASSERT_EQ(::pwrite(writer_.get(), "dirty", 5, 0), 5);
    server_->Hang();
  }
  // Calls mountd on another connection.
  std::string Call() {
    auto client = node_->Connect();
    return client ? Outcome(client->PrepareAllocation("web"))
                  : client.error().Message();
  }
  static std::unique_ptr<test::RawSocket> Connect() {
    EXPECT_EQ(::seteuid(kAgentUid), 0);
    auto raw =
        std::make_unique<test::RawSocket>(std::string(paths::kBusSocket));
    EXPECT_EQ(::seteuid(0), 0);
    return raw;
  }
  static std::unique_ptr<test::RawSocket> ConnectAndGreet() {
    auto raw = Connect();
    EXPECT_TRUE(raw->Write(test::kHandshake));
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(raw->ReadLine());
    }
    return raw;
  }

  // Sends the second of each pair, and closes all of them before mountd reads,
  // because the last close would wait, and must not happen in this process.
  static bool SendAndLetGo(test::RawSocket& raw, const std::string& bytes,
                           std::array<UniqueFd, 2> pair) {
    const std::vector<UniqueFd> mountd = Node::Processes("mountd");
    Signal(mountd, SIGSTOP);
    const bool sent = raw.WriteWithFd(bytes, pair[1].get());
    pair[0].reset();
    if (sent) {
      pair[1].reset();
    }
    Signal(mountd, SIGCONT);
    return sent;
  }
  static void Signal(const std::vector<UniqueFd>& processes, int signal) {
    for (const UniqueFd& one : processes) {
      ::syscall(SYS_pidfd_send_signal, one.get(), signal, nullptr, 0);
    }
    // A process that is seen as stopped runs no more.
    for (const UniqueFd& one : processes) {
      EXPECT_TRUE(signal != SIGSTOP ||
                  Eventually([&] { return StateOf(PidOf(one)) == 'T'; }));
    }
  }
  void ExpectMountdToGoOnAndToStartAgain() {
    EXPECT_EQ(Call(), "Ok");
    // Kill returns when mountd has ended.
    Node::Kill(Node::Processes("mountd"));
    EXPECT_EQ(Call(), "Ok");
    Node::Kill(Node::Processes("mountd"));
    EXPECT_EQ(Call(), "Ok");
  }

  enum class Naive { kCloses, kReads };
  // Forks a naive server without mountd-closer. It has the last references of
  // the pair and of `next`, and closes them in this order when SIGCONT comes,
  // or at its death.
  pid_t HoldNaively(std::array<UniqueFd, 2> pair, UniqueFd next = UniqueFd(),
                    Naive way = Naive::kCloses) {
    const pid_t naive = ::fork();
    if (naive == 0) {
      // The other fds of this process could make the close wait, too.
      const std::array<int, 3> kept{pair[0].get(), pair[1].get(), next.get()};
      for (int fd = 3; fd < 1024; ++fd) {
        if (std::find(kept.begin(), kept.end(), fd) == kept.end()) {
          ::close(fd);
        }
      }
      ::raise(SIGSTOP);
      std::array<char, 8> bytes{};
      if (way == Naive::kReads) {
        // A peek for fds before the read finds none.
        (void)!::recv(pair[1].get(), bytes.data(), bytes.size(), MSG_PEEK);
        (void)!::recv(pair[1].get(), bytes.data(), bytes.size(), 0);
        ::raise(SIGSTOP);  // the test expects not to see this stop
      }
      pair[0].reset();
      pair[1].reset();
      next.reset();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(naive, &status, WUNTRACED), naive);
    naive_.push_back(naive);
    return naive;
  }
  // True if the server then waits where no signal reaches it. Before Linux 6.16
  // FUSE copies the pages that it writes back, so a close waits only for the
  // answer that tells the file's times. SIGKILL ends that wait, and the next
  // close does not wait at all, so this function lets the server wait.
  static bool SticksWhenItCloses(pid_t naive) {
    if (KernelIsBefore(6, 16)) {
      ::kill(naive, SIGCONT);
      return AwaitWaiting(naive);
    }
    return SticksAfter(naive, SIGCONT);
  }
  static bool SticksWhenItIsKilled(pid_t naive) {
    return SticksAfter(naive, SIGKILL);
  }
  static bool SticksAfter(pid_t naive, int signal) {
    ::kill(naive, signal);
    const bool sticks = AwaitUnkillable(naive);
    ::kill(naive, SIGKILL);
    return sticks && ::waitpid(naive, nullptr, WNOHANG) == 0;
  }

  std::vector<pid_t> naive_;
  std::unique_ptr<FuseServer> server_;
  UniqueFd writer_;
  std::unique_ptr<Node> node_;
};

TEST_F(HungPeers, AFileInTheQueueOfASocketThatIsSent) {
  const pid_t naive = HoldNaively(Queued(Open()));
  std::array<UniqueFd, 2> pair = Queued(Open());
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItCloses(naive));
  const auto raw = ConnectAndGreet();
  ASSERT_TRUE(
      SendAndLetGo(*raw, test::MarshalIntrospectWithFd(1), std::move(pair)));
  ASSERT_TRUE(raw->ReadMessage());
  ExpectMountdToGoOnAndToStartAgain();
}

TEST_F(HungPeers, AFileThatIsSentItself) {
  const pid_t naive = HoldNaively({Open(), UniqueFd()});
  UniqueFd file = Open();
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItCloses(naive));
  const auto raw = ConnectAndGreet();
  ASSERT_TRUE(raw->WriteWithFd(test::MarshalIntrospectWithFd(1), file.get()));
  // A close(2) in this process would wait, too, so a child closes the file, as
  // if the sender died.
  const pid_t sender = ::fork();
  if (sender == 0) {
    ::close(file.get());
    ::_exit(0);
  }
  EXPECT_TRUE(AwaitWaiting(sender) || AwaitUnkillable(sender));
  ASSERT_TRUE(raw->ReadMessage());
  ExpectMountdToGoOnAndToStartAgain();
  server_->Die();
  ::waitpid(sender, nullptr, 0);
}

TEST_F(HungPeers, AFileInAConnectionThatIsClosedUnread) {
  const pid_t naive = HoldNaively(Queued(std::move(Queued(Open())[1])));
  std::array<UniqueFd, 2> pair = Queued(Open());
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItCloses(naive));
  auto raw = Connect();
  // The kernel may refuse fds to a connection that is not yet accepted, so the
  // test waits until mountd has accepted this one.
  ASSERT_EQ(Call(), "Ok");
  ASSERT_TRUE(SendAndLetGo(*raw, std::string(1, '\0'), std::move(pair)));
  raw.reset();
  EXPECT_EQ(Call(), "Ok");
  ExpectMountdToGoOnAndToStartAgain();
}

// sd-bus closes the fd number of a connection that it finds broken. The next
// connection may have that number before mountd has handled the first one's
// end.
TEST_F(HungPeers, AFileInAConnectionThatHasTheNumberOfAnother) {
  constexpr int kMany = 12;
  const pid_t naive = HoldNaively(Queued(std::move(Queued(Open())[1])));
  std::vector<std::array<UniqueFd, 2>> pairs;
  for (int i = 0; i < kMany; ++i) {
    pairs.push_back(Queued(Open()));
  }
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItCloses(naive));
  std::vector<std::unique_ptr<test::RawSocket>> first;
  for (int i = 0; i < kMany; ++i) {
    first.push_back(ConnectAndGreet());
  }
  const std::vector<UniqueFd> mountd = Node::Processes("mountd");
  Signal(mountd, SIGSTOP);
  first.clear();
  std::vector<std::unique_ptr<test::RawSocket>> second;
  for (int i = 0; i < kMany; ++i) {
    second.push_back(Connect());
  }
  Signal(mountd, SIGCONT);
  ASSERT_EQ(Call(), "Ok");  // mountd has accepted all connections
  for (int i = 0; i < kMany; ++i) {
    ASSERT_TRUE(SendAndLetGo(*second[static_cast<std::size_t>(i)],
                             std::string(1, '\0'),
                             std::move(pairs[static_cast<std::size_t>(i)])));
  }
  second.clear();
  EXPECT_EQ(Call(), "Ok");
  ExpectMountdToGoOnAndToStartAgain();
}

// A read of other bytes discards what was sent out of band.
TEST_F(HungPeers, AFileThatIsSentOutOfBand) {
  const pid_t naive =
      HoldNaively(SendOutOfBand(Queued(Open())), UniqueFd(), Naive::kReads);
  std::array<UniqueFd, 2> pair = Queued(Open());
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItCloses(naive));
  const auto raw = ConnectAndGreet();
  const std::vector<UniqueFd> mountd = Node::Processes("mountd");
  Signal(mountd, SIGSTOP);
  ASSERT_TRUE(raw->WriteWithFds("x", {pair[1].get()}, MSG_OOB));
  pair = {};
  ASSERT_TRUE(raw->Write(test::MarshalIntrospect(1)));
  Signal(mountd, SIGCONT);
  EXPECT_TRUE(raw->AwaitClosed());
  ExpectMountdToGoOnAndToStartAgain();
}

TEST_F(HungPeers, AFileInTheMiddleOfAMessageWhenMountdIsKilled) {
  const pid_t naive = HoldNaively(Queued(Open()));
  std::array<UniqueFd, 2> pair = Queued(Open());
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItIsKilled(naive));
  const auto raw = ConnectAndGreet();
  ASSERT_TRUE(SendAndLetGo(*raw, test::MarshalIntrospectWithFd(1).substr(0, 20),
                           std::move(pair)));
  EXPECT_EQ(Call(), "Ok");
  ExpectMountdToGoOnAndToStartAgain();
}

// mountd refuses the connections of a user that leaves more stuck files than it
// may, and accepts those of others.
TEST_F(HungPeers, AUserWhoseFilesStickIsRefusedUntilTheyAreGone) {
  constexpr int kMore = 70;
  // A naive mountd-closer has one thread for all users, so another user's files
  // wait for this user's file.
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd others_end(pipe[0]);
  const pid_t naive = HoldNaively(Queued(Open()), UniqueFd(pipe[1]));
  std::vector<std::array<UniqueFd, 2>> pairs;
  for (int i = 0; i < kMore; ++i) {
    pairs.push_back(Queued(Open()));
  }
  DirtyAndHang();
  pollfd others = {others_end.get(), POLLIN, 0};
  EXPECT_NAIVE(SticksWhenItCloses(naive) && ::poll(&others, 1, 0) == 0);
  {
    const auto raw = ConnectAndGreet();
    for (std::uint32_t i = 0; i < kMore; ++i) {
      ASSERT_TRUE(SendAndLetGo(*raw, test::MarshalIntrospectWithFd(i + 1),
                               std::move(pairs[i])));
      ASSERT_TRUE(raw->ReadMessage());
    }
  }
  pairs.clear();
  EXPECT_TRUE(Eventually([&] {
    const auto refused = Connect();
    return refused->Write(test::kHandshake) && refused->AwaitClosed();
  }));
  test::RawSocket root{std::string(paths::kBusSocket)};
  ASSERT_TRUE(root.Write(test::kHandshake));
  EXPECT_TRUE(root.ReadLine());
  server_->GoOn();
  EXPECT_TRUE(Eventually([&] { return Call() == "Ok"; }));
}

// A connection that goes on to send such files is dropped.
TEST_F(HungPeers, AConnectionThatSendsOnWhatSticksIsDropped) {
  constexpr std::size_t kOfABatch = 95;
  const pid_t naive = HoldNaively(Queued(Open()));
  std::vector<std::array<UniqueFd, 2>> pairs;
  for (std::size_t i = 0; i < 3 * kOfABatch; ++i) {
    pairs.push_back(Queued(Open()));
    pairs.back()[0].reset();
  }
  DirtyAndHang();
  EXPECT_NAIVE(SticksWhenItCloses(naive));
  const auto raw = ConnectAndGreet();
  const std::vector<UniqueFd> mountd = Node::Processes("mountd");
  std::uint32_t sent = 0;
  bool is_served = true;
  for (auto pair = pairs.begin(); is_served && pair != pairs.end();) {
    Signal(mountd, SIGSTOP);
    for (std::size_t i = 0; i < kOfABatch; ++i, ++pair) {
      ASSERT_TRUE(raw->WriteWithFd(test::MarshalIntrospectWithFd(++sent),
                                   (*pair)[1].get()));
      (*pair)[1].reset();
    }
    Signal(mountd, SIGCONT);
    for (std::size_t i = 0; is_served && i < kOfABatch; ++i) {
      is_served = raw->ReadMessage().has_value();
    }
  }
  EXPECT_FALSE(is_served);
  test::RawSocket root{std::string(paths::kBusSocket)};
  ASSERT_TRUE(root.Write(test::kHandshake));
  EXPECT_TRUE(root.ReadLine());
  server_->GoOn();  // the pairs that were not sent are closed here
}

// Returns the MiB that memfds and tmpfs have on the machine.
std::size_t SharedMemoryMiB() {
  std::ifstream memory("/proc/meminfo");
  std::size_t kib = 0;
  for (std::string name, unit; memory >> name;) {
    if (name == "Shmem:") {
      memory >> kib;
    }
    std::getline(memory, unit);
  }
  return kib / 1024;
}

std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

UniqueFd MemfdOf(std::size_t mib) {
  UniqueFd memfd(::memfd_create("large", MFD_CLOEXEC));
  EXPECT_EQ(
      ::fallocate(memfd.get(), 0, 0, static_cast<off_t>(mib) * 1024 * 1024), 0);
  return memfd;
}

// Returns the processor time of all threads of the processes.
std::chrono::nanoseconds ProcessorTimeOf(
    const std::vector<UniqueFd>& processes) {
  std::chrono::nanoseconds sum(0);
  for (const UniqueFd& one : processes) {
    for (const auto& thread :
         fs::directory_iterator("/proc/" + PidOf(one) + "/task")) {
      std::int64_t time = 0;
      std::ifstream(thread.path() / "schedstat") >> time;
      sum += std::chrono::nanoseconds(time);
    }
  }
  return sum;
}

// The kernel frees a memfd at its last close, and takes some 0.2 s for 1 GiB.
// mountd leaves that close to mountd-closer.
TEST_F(HungPeers, ALargeMemfdIsFreedByMountdCloser) {
  constexpr std::size_t kMiB = 512;
  // Other tests have less than that meanwhile.
  constexpr std::size_t kOthersMiB = 200;
  const std::size_t before = SharedMemoryMiB();
  UniqueFd naive = MemfdOf(kMiB);
  const auto started = ThreadTime();
  naive.reset();
  const std::chrono::nanoseconds naive_time = ThreadTime() - started;

  const std::vector<UniqueFd> mountd = Node::Processes("mountd");
  const auto raw = ConnectAndGreet();
  UniqueFd memfd = MemfdOf(kMiB);
  const auto had = ProcessorTimeOf(mountd);
  Signal(mountd, SIGSTOP);
  ASSERT_TRUE(raw->WriteWithFd(test::MarshalIntrospectWithFd(1), memfd.get()));
  memfd.reset();
  EXPECT_GT(SharedMemoryMiB() + kOthersMiB, before + kMiB);
  Signal(mountd, SIGCONT);
  ASSERT_TRUE(raw->ReadMessage());
  EXPECT_EQ(Call(), "Ok");
  EXPECT_TRUE(
      Eventually([&] { return SharedMemoryMiB() < before + kOthersMiB; }));
  const auto took = ProcessorTimeOf(mountd) - had;
  // A naive mountd would take as long for the close as this process did.
  EXPECT_NAIVE(naive_time > 4 * took);
  EXPECT_LT(took, naive_time / 4);
}

// mountd-closer is killed while it holds stuck files. mountd starts another
// one, and loses no connection.
TEST_F(HungPeers, AKilledMountdCloserIsReplaced) {
  std::array<UniqueFd, 2> pair = Queued(Open());
  DirtyAndHang();
  const auto raw = ConnectAndGreet();
  ASSERT_TRUE(
      SendAndLetGo(*raw, test::MarshalIntrospectWithFd(1), std::move(pair)));
  ASSERT_TRUE(raw->ReadMessage());
  // The killed process is stuck, so it ends only after the server.
  Signal(Node::Processes("mountd-closer"), SIGKILL);
  EXPECT_EQ(Call(), "Ok");
  ASSERT_TRUE(raw->Write(test::MarshalIntrospect(2)));
  EXPECT_TRUE(raw->ReadMessage());
  ExpectMountdToGoOnAndToStartAgain();
}

}  // namespace
}  // namespace mountd::testing
