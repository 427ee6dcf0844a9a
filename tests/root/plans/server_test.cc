// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/server.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "tests/root/attacker.h"
#include "tests/root/executor_fixture.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

using exec::PlanKind;
using exec::Reply;
using exec::Request;

constexpr char kConfigPath[] = "/run/mountd.toml";

// Runs the real program on one end of a socket pair.
class Program : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      WriteFile(kConfigPath,
                "[host_volume.data]\npath = \"/run/host/data\"\n"
                "propagation = [\"private\", \"host-to-task\"]\n"
                "[[rule]]\nusers = [\"root\"]\nids = [\"1000\"]\n");
      ::chmod(kConfigPath, 0644);
    }
  }
  void TearDown() override {
    Stop();
    ExecutorFixture::TearDown();
  }

  void Start(const char* peer_user = "0", const char* config = kConfigPath) {
    std::array<int, 2> ends{};
    ASSERT_EQ(
        ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()),
        0);
    socket_.reset(ends[0]);
    const UniqueFd theirs(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      constexpr int kPassed = 3;
      if (theirs.get() == kPassed) {
        ::fcntl(kPassed, F_SETFD, 0);
      } else {
        ::dup2(theirs.get(), kPassed);
      }
      ::setenv("LISTEN_FDS", "1", 1);
      ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
      ::execl(MOUNTD_EXEC, MOUNTD_EXEC, "--config", config, "--peer-user",
              peer_user, nullptr);
      ::_exit(127);
    }
  }
  // Closes the connection. Returns the program's exit status.
  int Stop() {
    socket_.reset();
    int status = 0;
    if (pid_ <= 0) {
      return -1;
    }
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Reply Ask(const void* request, std::size_t size) {
    Reply reply;
    reply.code = 99;
    EXPECT_EQ(::send(socket_.get(), request, size, MSG_NOSIGNAL),
              static_cast<ssize_t>(size));
    (void)!::recv(socket_.get(), &reply, sizeof(reply), 0);
    return reply;
  }
  Reply Ask(const Request& request) { return Ask(&request, sizeof(request)); }
  Reply Ask(PlanKind kind) {
    Request request;
    request.kind = kind;
    return Ask(request);
  }

  UniqueFd socket_;
  pid_t pid_ = -1;
};

TEST_F(Program, HoldsItsCapabilitiesAndNoMore) {
  Start();
  const Reply hello = Ask(PlanKind::kHello);
  ASSERT_EQ(ErrorOf(hello), "");
  constexpr std::uint64_t kAll =
      (1ULL << CAP_SYS_ADMIN) | (1ULL << CAP_NET_ADMIN) |
      (1ULL << CAP_DAC_READ_SEARCH) | (1ULL << CAP_CHOWN) |
      (1ULL << CAP_SETUID) | (1ULL << CAP_SETGID) | (1ULL << CAP_SYS_PTRACE) |
      (1ULL << CAP_SYS_CHROOT);
  EXPECT_EQ(hello.body.hello.effective_capabilities, kAll);
  EXPECT_EQ(hello.body.hello.pid, static_cast<unsigned>(pid_));
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string text((std::istreambuf_iterator<char>(status)), {});
  EXPECT_NE(text.find("NoNewPrivs:\t1"), std::string::npos);
  EXPECT_NE(text.find("CapInh:\t0000000000000000"), std::string::npos);
  struct stat own = {};
  ASSERT_EQ(::stat("/proc/self/ns/mnt", &own), 0);
  EXPECT_EQ(hello.body.hello.mount_namespace, own.st_ino);
  EXPECT_EQ(Stop(), 0);
}

// An error in the parser gives an attacker the process's rights, so the program
// reads the file without any effective capability, and drops the other
// capabilities first.
TEST_F(Program, ReadsItsConfigurationWithoutPrivileges) {
  MakeDirectories("/run/fuse");
  FuseServer server("/run/fuse");
  if (!server.valid()) {
    GTEST_SKIP() << "cannot mount FUSE";
  }
  server.Hang();
  Start("0", "/run/fuse/file");
  const auto line = [&](const std::string& label) {
    std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
    for (std::string text; std::getline(status, text);) {
      if (text.starts_with(label)) {
        return text.substr(label.size());
      }
    }
    return std::string();
  };
  // The program waits in opening the file.
  EXPECT_TRUE(Within([&] { return line("CapEff:\t") == "0000000000000000"; }));
  EXPECT_EQ(line("NoNewPrivs:\t"), "1");
  const std::uint64_t permitted = std::stoull(line("CapPrm:\t"), nullptr, 16);
  for (const int gone : {CAP_SYS_MODULE, CAP_DAC_OVERRIDE, CAP_SYS_RAWIO,
                         CAP_SYS_BOOT, CAP_FOWNER, CAP_KILL, CAP_MKNOD}) {
    EXPECT_EQ(permitted >> static_cast<unsigned>(gone) & 1U, 0U) << gone;
  }
  server.Die();
  EXPECT_NE(Stop(), 0);  // the file is no configuration
  Unmount("/run/fuse");
}

TEST_F(Program, TakesNoFdThatThePlanDoesNot) {
  Start();
  Request request;
  iovec part = {&request, sizeof(request)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = socket_.get();
  std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  ASSERT_GT(::sendmsg(socket_.get(), &message, MSG_NOSIGNAL), 0);
  Reply reply;
  ASSERT_GT(::recv(socket_.get(), &reply, sizeof(reply), 0), 0);
  EXPECT_EQ(CodeOf(reply), "InvalidArgument");
  // The program has closed the fd, too, so closing our end of the connection
  // ends it.
  EXPECT_EQ(ErrorOf(Ask(PlanKind::kHello)), "");
  EXPECT_EQ(Stop(), 0);
}

TEST_F(Program, DoesEverythingWithJustThese) {
  MoveHostToExt4();
  Start();
  ASSERT_EQ(ErrorOf(Ask(PlanKind::kPrepareBase)), "");
  Request request;
  request.kind = PlanKind::kPrepareAllocation;
  request.body.allocation = {exec::ToWire("web"), 1234};
  ASSERT_EQ(ErrorOf(Ask(request)), "");
  ASSERT_EQ(::chmod("/run/host", 0700), 0);
  ASSERT_EQ(::chown("/run/host", 1234, 1234), 0);
  const Reply attached =
      Ask(AttachRequest("data", exec::Propagation::kHostToTask));
  ASSERT_EQ(ErrorOf(attached), "");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  request = AttachRequest("data", exec::Propagation::kPrivate, "mapped");
  request.body.attach.ids.count = 1;
  request.body.attach.ids.extents[0] = {1000, 2000, 1};
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  request.kind = PlanKind::kOpenTree;
  request.body.open_tree = exec::OpenTreePlan{};
  request.body.open_tree.allocation = exec::ToWire("web");
  request.body.open_tree.source.host_volume = exec::ToWire("data");
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  request.kind = PlanKind::kPreparePlugin;
  request.body.plugin = {exec::ToWire("csi")};
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  const std::string staging = "/run/mountd/base/p/csi/staging";
  ASSERT_EQ(::chmod(staging.c_str(), 0), 0);
  ASSERT_EQ(::chown(staging.c_str(), 1234, 1234), 0);
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  // The plugin has left directories of other users that are closed to root.
  MakeDirectories(staging + "/x/y");
  for (const char* path : {"/x/y", "/x"}) {
    ASSERT_EQ(::chmod((staging + path).c_str(), 01000), 0);
    ASSERT_EQ(::chown((staging + path).c_str(), 1234, 1234), 0);
  }
  request.kind = PlanKind::kRemovePlugin;
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  request.kind = PlanKind::kDetach;
  request.body.detach = {exec::Target("web", "app", "data"),
                         attached.body.mount.mount_id};
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  EXPECT_EQ(Stop(), 0);
}

TEST_F(Program, MountsFilesystemsWithJustThese) {
  MakeImage("/run/host/image");
  WriteFile(kConfigPath,
            "[filesystem.image]\ntype = \"ext4\"\n"
            "source = \"/run/host/image\"\n[filesystem.fuse]\n"
            "type = \"fuse.bindfs\"\nsource = \"/run/host/data\"\n"
            "options = [\"allow_other\"]\n");
  Start();
  ASSERT_EQ(ErrorOf(Ask(PlanKind::kPrepareBase)), "");
  Request request;
  request.kind = PlanKind::kPrepareAllocation;
  request.body.allocation = {exec::ToWire("web"), 1234};
  ASSERT_EQ(ErrorOf(Ask(request)), "");
  for (const char* name : {"image", "fuse"}) {
    const Reply attached = Ask(FilesystemRequest(name));
    ASSERT_EQ(ErrorOf(attached), "") << name;
    request.kind = PlanKind::kDetach;
    request.body.detach = {exec::Target("web", "app", "data"),
                           attached.body.mount.mount_id};
    EXPECT_EQ(ErrorOf(Ask(request)), "") << name;
    request.kind = PlanKind::kReleaseAnchor;
    request.body.anchor = {exec::SourceKind::kFilesystem, exec::ToWire(name),
                           attached.body.mount.anchor_id};
    EXPECT_EQ(ErrorOf(Ask(request)), "") << name;
  }
  EXPECT_EQ(Stop(), 0);
}

TEST_F(Program, MakesNetworksWithJustThese) {
  WriteFile(kConfigPath,
            "[network.default]\nipv4 = \"10.88.0.0/16\"\n"
            "ipv6 = \"fd88::/64\"\n[[rule]]\nusers = [\"root\"]\n"
            "networks = [\"default\"]\nhost_ports = [\"18080\"]\n");
  Start();
  ASSERT_EQ(ErrorOf(Ask(PlanKind::kPrepareBase)), "");
  ASSERT_EQ(ErrorOf(Ask(PlanKind::kPrepareNetworks)), "");
  Request request;
  request.kind = PlanKind::kCreateNetwork;
  request.body.network = exec::NetworkPlan{};
  request.body.network.allocation = exec::ToWire("web");
  request.body.network.network = exec::ToWire("default");
  request.body.network.interface = {"eth0"};
  request.body.network.ipv4 = {10, 88, 0, 2};
  request.body.network.port_count = 1;
  request.body.network.ports[0] = {18080, 80, exec::kTcp, 0};
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  request.kind = PlanKind::kDeleteNetwork;
  EXPECT_EQ(ErrorOf(Ask(request)), "");
  EXPECT_EQ(Stop(), 0);
}

TEST_F(Program, AnswersGarbageAndGoesOn) {
  Start();
  Request request;
  EXPECT_EQ(CodeOf(Ask(&request, sizeof(request) - 1)), "InvalidArgument");
  std::vector<char> longer(sizeof(request) + 100, 'x');
  EXPECT_EQ(CodeOf(Ask(longer.data(), longer.size())), "InvalidArgument");
  request.version = 7;
  EXPECT_EQ(CodeOf(Ask(request)), "InvalidArgument");
  request.version = exec::kProtocolVersion;
  request.kind = static_cast<PlanKind>(4711);
  EXPECT_EQ(CodeOf(Ask(request)), "InvalidArgument");
  request.kind = PlanKind::kHello;
  request.trace.span_id = {1};  // of no trace
  EXPECT_EQ(CodeOf(Ask(request)), "InvalidArgument");
  EXPECT_EQ(CodeOf(Ask(PlanKind::kHello)), "");
  EXPECT_EQ(Stop(), 0);
}

TEST_F(Program, TakesNoPlansFromAnotherUser) {
  Start("65534");
  EXPECT_EQ(Stop(), 1);
}

TEST_F(Program, TakesNoConfigThatOthersMayWrite) {
  ::chmod(kConfigPath, 0666);
  Start();
  EXPECT_EQ(Stop(), 1);
}

}  // namespace
}  // namespace mountd::testing
