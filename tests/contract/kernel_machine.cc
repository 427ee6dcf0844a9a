// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "mountd/executors/executor_pool.h"
#include "tests/contract/machine.h"
#include "tests/support/private_namespaces.h"

namespace mountd::testing {
namespace {

constexpr char kConfigPath[] = "/run/mountd.toml";
constexpr char kConfig[] = R"([host_volume.data]
path = "/run/host/data"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.logs]
path = "/run/host/logs"
[network.default]
ipv4 = "10.88.0.0/16"
ipv6 = "fd88::/64"
[[rule]]
users = ["root"]
host_ports = ["18080-18090"]
alloc_roots = ["/run/host/alloc"]
ids = ["100000-165535"]
)";

std::string PathOf(const std::string& name) {
  return "/run/mountd/base/a/web/app/" + name;
}

// The namespaces of a test, entered and left by an object in place of a test.
class Namespaces : public PrivateNamespaces {
 public:
  Namespaces() { PrivateNamespaces::SetUp(); }
  ~Namespaces() override { PrivateNamespaces::TearDown(); }
  void TestBody() override {}
};

// Starts mountd-exec on sockets, as systemd does for mountd, and waits for the
// ends of these processes.
class Executors {
 public:
  ~Executors() {
    for (const pid_t pid : pids_) {
      ::waitpid(pid, nullptr, 0);
    }
  }
  Executors() = default;
  Executors(const Executors&) = delete;
  Executors& operator=(const Executors&) = delete;

  Result<UniqueFd> Connect() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
        0) {
      return ErrnoError(errno, "socketpair", "executor");
    }
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
      Run(theirs.get());
    }
    if (pid < 0) {
      return ForkError(errno, "fork", "executor");
    }
    pids_.push_back(pid);
    return ours;
  }

 private:
  [[noreturn]] static void Run(int socket) {
    constexpr int kPassed = 3;  // SD_LISTEN_FDS_START
    if (socket == kPassed) {
      ::fcntl(kPassed, F_SETFD, 0);
    } else {
      ::dup2(socket, kPassed);
    }
    ::setenv("LISTEN_FDS", "1", 1);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::execl(MOUNTD_EXEC, MOUNTD_EXEC, "--config", kConfigPath, "--peer-user",
            "0", nullptr);
    ::_exit(127);
  }

  std::vector<pid_t> pids_;
};

class KernelMachine final : public Machine {
 public:
  // False if the namespaces could not be made.
  bool Start() {
    if (::testing::Test::IsSkipped() || ::testing::Test::HasFatalFailure()) {
      return false;
    }
    for (const char* path : {"/run/mountd", "/run/host/data", "/run/host/logs",
                             "/run/host/alloc/tree"}) {
      MakeDirectory(path);
    }
    std::ofstream("/run/host/data/file") << "content";
    std::ofstream(kConfigPath) << kConfig;
    ::chmod(kConfigPath, 0644);
    pool_.emplace([this] { return executors_.Connect(); },
                  exec::ExecutorPool::Options{});
    return true;
  }

  exec::Executor& executor() override { return *pool_; }

  // Leaves out what other plans than the one in question change: the pool's
  // sockets, and connections that the kernel still tracks.
  std::set<std::string> Made() override {
    std::set<std::string> made;
    for (const std::string& item : Inventory::Take().items) {
      if (!item.starts_with("fd ") && !item.starts_with("connection ")) {
        made.insert(item);
      }
    }
    return made;
  }

  Held UseTarget(const std::string& name) override {
    return Opened(PathOf(name) + "/file");
  }
  Held UseVolume(const std::string& volume) override {
    return Opened("/run/host/" + volume + "/file");
  }
  Held Listen(std::uint16_t port) override {
    auto socket = std::make_shared<UniqueFd>(
        ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    const void* generic = &address;
    EXPECT_EQ(::bind(socket->get(), static_cast<const sockaddr*>(generic),
                     sizeof(address)),
              0);
    EXPECT_EQ(::listen(socket->get(), 1), 0);
    return socket;
  }

  void LoseTarget(const std::string& name) override {
    EXPECT_EQ(::umount2(PathOf(name).c_str(), MNT_DETACH), 0);
  }
  void CoverTarget(const std::string& name) override {
    EXPECT_EQ(::mount("tmpfs", PathOf(name).c_str(), "tmpfs", 0, nullptr), 0);
  }
  void LoseNamespace(const std::string& allocation) override {
    const std::string path = "/run/netns/" + allocation;
    EXPECT_EQ(::umount2(path.c_str(), MNT_DETACH), 0);
    EXPECT_EQ(::unlink(path.c_str()), 0);
  }

  UniqueFd Tree(std::uint64_t files) override {
    for (std::uint64_t i = 0; i < files; ++i) {
      std::ofstream("/run/host/alloc/tree/" + std::to_string(i)) << "content";
    }
    return UniqueFd(
        ::open("/run/host/alloc/tree", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }

 private:
  static void MakeDirectory(const char* path) {
    const mode_t before = ::umask(022);
    std::filesystem::create_directories(path);
    ::umask(before);
  }
  static Held Opened(const std::string& path) {
    auto file =
        std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(file->valid()) << path;
    return file;
  }

  // In this order, because the pool ends first, then the processes, and the
  // namespaces last.
  Namespaces namespaces_;
  Executors executors_;
  std::optional<exec::ExecutorPool> pool_;
};

}  // namespace

std::unique_ptr<Machine> MakeMachine() {
  auto machine = std::make_unique<KernelMachine>();
  if (!machine->Start()) {
    return nullptr;
  }
  return machine;
}

}  // namespace mountd::testing
