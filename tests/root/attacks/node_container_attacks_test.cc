// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The whole way by which an agent became root through `containers = true`, on a
// whole mountd. attacks_containers_test.cc has the executor's part of it.
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/base/fd_message.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/program.h"

namespace mountd::testing {
namespace {

constexpr char kCgroups[] = "/sys/fs/cgroup";
constexpr char kEtc[] = "/etc";
constexpr char kBecameRoot[] = "Ok; another /etc; uid 0";
constexpr char kRefusedItself[] =
    "FailedPrecondition: BindMount web/app/etc: open container pidfd: the "
    "process is the caller itself, not a container; the same /etc; pam.d/su: "
    "EACCES";
constexpr char kRefusedAnother[] =
    "FailedPrecondition: BindMount web/app/etc: open container pidfd: the "
    "process has the host's pid namespace, so it is in no container; the same "
    "/etc; pam.d/su: EACCES";

// Has a tmpfs mounted on /etc of the process. Returns the outcome.
using Ask = std::function<std::string(const UniqueFd& pidfd)>;

struct Heard {
  std::string text;
  UniqueFd fd;
};

void Say(const UniqueFd& socket, const std::string& text,
         std::span<const int> fds = {}) {
  IgnoreBecauseBestEffort(
      SendWithFds(socket.get(), std::as_bytes(std::span(text)), fds));
}

Heard Hear(const UniqueFd& socket) {
  std::array<char, 1024> text{};
  auto received =
      ReceiveWithFds(socket.get(), std::as_writable_bytes(std::span(text)), 1);
  if (!received) {
    return {};
  }
  return {std::string(text.data(), received->size),
          received->fds.empty() ? UniqueFd() : std::move(received->fds[0])};
}

std::string Mounts() {
  std::ifstream file("/proc/self/mountinfo");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Makes a service of the agent in the cgroup, with PrivateTmp= as systemd makes
// it: the host's mounts in a mount namespace of its own. Leaves no_new_privs
// unset, so setuid programs work.
bool BecomeService(const std::string& cgroup) {
  const UniqueFd join(
      ::open((cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  return ::write(join.get(), "0", 1) == 1 && ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_PRIVATE | MS_REC, nullptr) == 0 &&
         ::mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777") ==
             0 &&
         ::setgroups(0, nullptr) == 0 &&
         ::setresgid(kAgentUid, kAgentUid, kAgentUid) == 0 &&
         ::setresuid(kAgentUid, kAgentUid, kAgentUid) == 0 &&
         // After the change of user, which clears it.
         ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

// Writes the files that su trusts, and runs su. Returns the uid that su's shell
// has, or the errno of the first file.
std::string BecomeRoot() {
  constexpr std::array<std::pair<const char*, std::string_view>, 2> kFiles = {
      {{"pam.d/su",
        "auth sufficient pam_permit.so\n"
        "account sufficient pam_permit.so\n"
        "session sufficient pam_permit.so\n"},
       {"passwd", "root::0:0::/:/bin/sh\n"}}};
  ::mkdir("/etc/pam.d", 0755);
  for (const auto& [name, text] : kFiles) {
    const std::string path = std::string(kEtc) + "/" + name;
    const UniqueFd file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) {
      return std::string(name) + ": " + ::strerrorname_np(errno);
    }
    if (::write(file.get(), text.data(), text.size()) !=
        static_cast<ssize_t>(text.size())) {
      return std::string(name) + ": no room";
    }
  }
  const test::ProgramOutcome su =
      test::RunProgram({"/bin/su", "-c", "/usr/bin/id -u"});
  return "uid " + su.out.substr(0, su.out.find('\n')) + su.err;
}

// Mounts as a naive daemon does, which takes each process with a mount
// namespace of its own for a container.
std::string MountNaively(const UniqueFd& pidfd) {
  std::error_code gone;
  const std::string theirs = "/proc/" + std::to_string(Node::PidOf(pidfd));
  if (std::filesystem::read_symlink(theirs + "/ns/mnt", gone) ==
      std::filesystem::read_symlink("/proc/self/ns/mnt")) {
    return "no container";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string options = "mode=700,uid=" + std::to_string(kAgentUid);
    ::_exit(::setns(pidfd.get(), CLONE_NEWNS) == 0 &&
                    ::mount("tmpfs", kEtc, "tmpfs", MS_NOSUID | MS_NODEV,
                            options.c_str()) == 0
                ? 0
                : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return status == 0 ? "Ok" : "not mounted";
}

class NodeContainerAttacks : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    while (::umount2(kCgroups, MNT_DETACH) == 0) {
    }
    ASSERT_EQ(::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr), 0);
    const std::string cgroup = "/mountd-test-" + std::to_string(::getpid());
    cgroup_ = kCgroups + cgroup;
    ASSERT_EQ(::mkdir(cgroup_.c_str(), 0755), 0);
    ASSERT_NO_FATAL_FAILURE(StartNode(R"(
[[rule]]
users = ["agent"]
containers = true
container_tmpfs = true
cgroups = [")" + cgroup + R"("]
)"));
  }
  void TearDown() override {
    // A process that has just ended may stay in the cgroup for a moment.
    EXPECT_TRUE(cgroup_.empty() || Eventually([&] {
                  return ::rmdir(cgroup_.c_str()) == 0 || errno == ENOENT;
                }));
    NodeFixture::TearDown();
  }

  // Asks mountd, as the agent, for an allocation and a tmpfs on /etc.
  std::string AskMountd(agent::Client* client, const UniqueFd& pidfd) const {
    const UniqueFd cgroup(
        ::open(cgroup_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto prepared =
        client->PrepareAllocation("web", {.cgroup = cgroup.get()});
    if (!prepared) {
      return MessageOf(prepared);
    }
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = "etc";
    spec.source_type = agent::SourceType::kTmpfs;
    spec.tmpfs.emplace().size = 1U << 20U;
    spec.container = pidfd.get();
    spec.task_path = kEtc;
    const auto mounted = client->BindMount("web", spec);
    return mounted ? "Ok" : Outcome(mounted) + ": " + MessageOf(mounted);
  }

  // Starts the attacker, a service of the agent, and returns what came of the
  // attack. The service sends its pidfd to this process, which calls `ask`, as
  // a daemon or another process of the agent would.
  std::string AttackBy(const Ask& ask) const {
    return Attack(ask, [](const UniqueFd& test, const UniqueFd& pidfd) {
      const int fd = pidfd.get();
      Say(test, "etc", std::span(&fd, 1));
      return Hear(test).text;
    });
  }
  // The same, but the service itself calls `ask`.
  std::string AttackByItself(const Ask& ask) const {
    return Attack(ask, [&ask](const UniqueFd&, const UniqueFd& pidfd) {
      return ask(pidfd);
    });
  }

  std::string cgroup_;

 private:
  using Request =
      std::function<std::string(const UniqueFd& test, const UniqueFd& pidfd)>;

  std::string Attack(const Ask& ask, const Request& request) const {
    std::array<int, 2> ends{};
    EXPECT_EQ(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
        0);
    const UniqueFd service(ends[0]);
    UniqueFd test(ends[1]);
    const pid_t pid = ::fork();
    if (pid == 0) {
      Say(test, BecomeService(cgroup_) ? RunService(test, request)
                                       : "it became no service");
      ::_exit(0);
    }
    test.reset();
    Heard heard = Hear(service);
    if (heard.fd.valid()) {
      Say(service, ask(heard.fd));
      heard = Hear(service);
    }
    ::waitpid(pid, nullptr, 0);
    return heard.text;
  }
  static std::string RunService(const UniqueFd& test, const Request& request) {
    const UniqueFd own(
        static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U)));
    const std::string before = Mounts();
    const std::string answer = request(test, own);
    const char* etc = Mounts() == before ? "the same /etc" : "another /etc";
    return answer + "; " + etc + "; " + BecomeRoot();
  }
};

// The agent asks for a tmpfs on its own /etc, and a setuid program then trusts
// the agent's files there.
TEST_F(NodeContainerAttacks, AnAgentDoesNotBecomeRootByAnEtcOfItsOwn) {
  const std::string before = Mounts();
  EXPECT_NAIVE(AttackBy(MountNaively) == kBecameRoot);
  EXPECT_EQ(Mounts(), before);
  // The agent asks for itself.
  EXPECT_EQ(AttackByItself([&](const UniqueFd& pidfd) {
              auto client = agent::Client::Connect(
                  {.connect_timeout = std::chrono::minutes(1)});
              return client ? AskMountd(&*client, pidfd) : MessageOf(client);
            }),
            kRefusedItself);
  // Another process of the agent, outside its service, asks for it.
  EXPECT_EQ(AttackBy([&](const UniqueFd& pidfd) {
              return AskMountd(&*client_, pidfd);
            }),
            kRefusedAnother);
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
}

}  // namespace
}  // namespace mountd::testing
