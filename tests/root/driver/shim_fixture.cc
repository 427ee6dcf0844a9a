// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/driver/shim_fixture.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using shim::Kind;
using shim::Message;
using shim::Tag;

constexpr char kCgroups[] = "/sys/fs/cgroup";
constexpr char kTasks[] = "/run/tasks";
constexpr char kImage[] = "/run/image";
constexpr char kShimAsUser[] = "/run/shim-as-user";
constexpr char kRuntimeRoot[] = "/run/tasks/runtime";

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

void GiveToUser(const std::string& path) {
  ASSERT_EQ(::chown(path.c_str(), kTaskUser, kTaskUser), 0) << path;
}

// Gives the cgroup to the user, as systemd's Delegate= does.
void DelegateToUser(const std::string& cgroup) {
  for (const char* name :
       {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
    ASSERT_NO_FATAL_FAILURE(GiveToUser(cgroup + name));
  }
}

// The namespaces of network and user are those that the shim enters.
std::string ConfigText(const std::string& script,
                       const std::string& cgroups_path) {
  return R"({"ociVersion": "1.0.0", "root": {"path": "rootfs"},
  "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
              "noNewPrivileges": true,
              "args": ["/bin/sh", "-c", ")" +
         script + R"("]},
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "dev"},
    {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
     "options": ["newinstance", "ptmxmode=0666", "mode=0620"]},
    {"destination": "/usr", "type": "none", "source": "/usr",
     "options": ["rbind", "ro"]}],
  "linux": {"rootfsPropagation": "rslave", "cgroupsPath": ")" +
         cgroups_path + R"(",
            "namespaces": [{"type": "mount"}, {"type": "pid"},
                           {"type": "ipc"}, {"type": "uts"}]}})";
}

}  // namespace

void ShimFixture::SetUp() {
  PrivateNamespaces::SetUp();
  if (IsSkipped()) {
    return;
  }
  if (!IsInstalled("crun")) {
    GTEST_SKIP() << "crun is not installed";
  }
  ASSERT_NO_FATAL_FAILURE(MakeCgroups());
  if (IsSkipped()) {
    return;
  }
  ASSERT_NO_FATAL_FAILURE(MakeNamespaces());
  if (IsSkipped()) {
    return;
  }
  ASSERT_NO_FATAL_FAILURE(MakeImage());
}

void ShimFixture::TearDown() {
  for (auto path = cgroups_.rbegin(); path != cgroups_.rend(); ++path) {
    WriteText(*path + "/cgroup.kill", "1");
    EXPECT_TRUE(Eventually([&] {
      return ::rmdir(path->c_str()) == 0 || !fs::exists(*path);
    })) << *path;
  }
  PrivateNamespaces::TearDown();
}

void ShimFixture::MakeCgroups() {
  while (::umount2(kCgroups, MNT_DETACH) == 0) {
  }
  top_ = std::string(kCgroups) + "/mountd-shim-" + std::to_string(::getpid());
  if (::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr) != 0 ||
      ::mkdir(top_.c_str(), 0755) != 0) {
    GTEST_SKIP() << "cannot make cgroups of version 2";
  }
  cgroups_.push_back(top_);
  ASSERT_NO_FATAL_FAILURE(DelegateToUser(top_));
  // The shims' own cgroup.
  cgroups_.push_back(top_ + "/shims");
  ASSERT_EQ(::mkdir(cgroups_.back().c_str(), 0755), 0);
  ASSERT_NO_FATAL_FAILURE(DelegateToUser(cgroups_.back()));
}

// Root of the user namespace is the user, the namespace's only id.
void ShimFixture::MakeNamespaces() {
  const Unshared process([] {
    if (::setresgid(kTaskUser, kTaskUser, kTaskUser) != 0 ||
        ::setresuid(kTaskUser, kTaskUser, kTaskUser) != 0 ||
        ::prctl(PR_SET_DUMPABLE, 1) != 0 || ::unshare(CLONE_NEWUSER) != 0) {
      return false;
    }
    const std::string map = "0 " + std::to_string(kTaskUser) + " 1";
    WriteText("/proc/self/setgroups", "deny");
    WriteText("/proc/self/uid_map", map);
    WriteText("/proc/self/gid_map", map);
    return ::getuid() == 0 && ::getgid() == 0 && ::unshare(CLONE_NEWNET) == 0;
  });
  if (!process.valid()) {
    GTEST_SKIP() << "an ordinary user cannot make user namespaces";
  }
  network_namespace_.reset(
      ::open((process.proc() + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(network_namespace_.valid());
  user_namespace_.reset(::ioctl(network_namespace_.get(), NS_GET_USERNS));
  ASSERT_TRUE(user_namespace_.valid());
}

void ShimFixture::MakeImage() {
  for (const char* path : {"/usr", "/proc", "/dev"}) {
    fs::create_directories(std::string(kImage) + path);
  }
  for (const char* name : {"bin", "lib", "lib64"}) {
    fs::create_symlink(std::string("usr/") + name,
                       std::string(kImage) + "/" + name);
  }
  for (const char* path : {kTasks, kRuntimeRoot}) {
    fs::create_directories(path);
    ASSERT_NO_FATAL_FAILURE(GiveToUser(path));
  }
  // The test is root, and everything of a task belongs to the user.
  const std::string id = std::to_string(kTaskUser);
  WriteText(kShimAsUser, "#!/bin/sh\nexec setpriv --reuid=" + id +
                             " --regid=" + id + " --clear-groups -- " +
                             MOUNTD_TASK_SHIM + "\n");
  ASSERT_EQ(::chmod(kShimAsUser, 0755), 0);
}

ShimFixture::Task ShimFixture::MakeTask(const std::string& name) {
  Task task;
  task.name = name;
  task.directory = std::string(kTasks) + "/" + name;
  fs::create_directories(task.directory + "/bundle/rootfs");
  fs::create_directories(task.directory + "/logs");
  for (const char* path : {"", "/bundle", "/bundle/rootfs", "/logs"}) {
    GiveToUser(task.directory + path);
  }
  EXPECT_EQ(::chmod(task.directory.c_str(), 0700), 0);
  task.directory_fd.reset(
      ::open(task.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  cgroups_.push_back(CgroupOf(name));
  EXPECT_EQ(::mkdir(cgroups_.back().c_str(), 0755), 0);
  DelegateToUser(cgroups_.back());
  return task;
}

shim::Launch ShimFixture::MakeLaunch(const Task& task,
                                     const std::string& script) {
  shim::Launch launch = LaunchWithoutRoot(task, script);
  launch.create.Add(Tag::kMountType, "bind")
      .Add(Tag::kMountSource, kImage)
      .Add(Tag::kMountTarget, task.directory + "/bundle/rootfs");
  return launch;
}

shim::Launch ShimFixture::MakeOverlayLaunch(const Task& task,
                                            const std::string& script) {
  shim::Launch launch = LaunchWithoutRoot(task, script);
  launch.create.Add(Tag::kMountType, "overlay")
      .Add(Tag::kMountSource, "overlay")
      .Add(Tag::kMountTarget, task.directory + "/bundle/rootfs")
      .Add(Tag::kMountOptions,
           std::string("userxattr,lowerdir=") + kImage + ",upperdir=" +
               task.directory + "/upper,workdir=" + task.directory + "/work");
  return launch;
}

shim::Launch ShimFixture::LaunchWithoutRoot(const Task& task,
                                            const std::string& script) {
  const bool is_crun = runtime_.find("runc") == std::string::npos;
  const std::string cgroup = names_cgroup_ ? CgroupOf(task.name) : top_;
  WriteText(
      task.directory + "/bundle/config.json",
      ConfigText(script, is_crun ? "" : cgroup.substr(sizeof(kCgroups) - 1)));
  shim::Launch launch;
  launch.program = kShimAsUser;
  launch.create.Add(Tag::kContainer, task.name)
      .Add(Tag::kRuntime, runtime_)
      .Add(Tag::kRuntimeRoot, kRuntimeRoot)
      .Add(Tag::kBundle, task.directory + "/bundle");
  if (is_crun) {
    launch.create.Add(Tag::kRuntime, "--cgroup-manager=disabled");
  } else {
    launch.create.Add(Tag::kRuntimeJoins, std::uint64_t{1});
  }
  launch.task_directory = task.directory_fd.get();
  launch.user_namespace = user_namespace_.get();
  launch.network_namespace = network_namespace_.get();
  for (const std::string& path : {CgroupOf(task.name), top_ + "/shims"}) {
    cgroup_fds_.emplace_back(
        ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    launch.cgroup = std::exchange(launch.shim_cgroup, cgroup_fds_.back().get());
  }
  return launch;
}

ShimFixture::Task ShimFixture::Create(const std::string& name,
                                      const std::string& script) {
  Task task = MakeTask(name);
  auto shim = shim::LaunchShim(MakeLaunch(task, script));
  EXPECT_TRUE(shim) << shim.error().Message();
  if (shim) {
    task.shim.emplace(*std::move(shim));
    const auto created =
        task.shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
    EXPECT_TRUE(created) << created.error().Message();
  }
  return task;
}

void ShimFixture::Start(Task& task) {
  const auto started = task.shim->Call(Message(Kind::kStart), {}, kSoon);
  ASSERT_TRUE(started) << started.error().Message();
}

ShimFixture::Task ShimFixture::Run(const std::string& name,
                                   const std::string& script) {
  Task task = Create(name, script);
  if (task.shim) {
    Start(task);
  }
  return task;
}

shim::ShimConnection ShimFixture::Connect(const Task& task) {
  auto connection = shim::ShimConnection::Open(task.directory_fd.get());
  EXPECT_TRUE(connection) << connection.error().Message();
  return connection ? *std::move(connection) : shim::ShimConnection(UniqueFd());
}

std::string ShimExitOf(const Result<shim::Answer>& answer) {
  if (!answer) {
    return answer.error().Message();
  }
  const Message& message = answer->message;
  if (message.kind() != Kind::kExited) {
    return "another answer";
  }
  const std::uint64_t signal = message.Number(Tag::kExitSignal);
  return (signal != 0
              ? "signal " + std::to_string(signal)
              : "code " + std::to_string(message.Number(Tag::kExitCode))) +
         (message.Number(Tag::kOomKilled) != 0 ? " oom" : "");
}

Result<shim::Answer> ShimFixture::Ask(const Task& task, Kind kind) {
  return Connect(task).Call(Message(kind), {}, kSoon);
}

std::string ShimFixture::WaitFor(const Task& task) {
  return ExitOf(Ask(task, Kind::kWait));
}

Result<shim::Answer> ShimFixture::Stop(const Task& task, int signal,
                                       std::uint64_t timeout_ms) {
  Message stop(Kind::kStop);
  stop.Add(Tag::kSignalNumber, static_cast<std::uint64_t>(signal))
      .Add(Tag::kTimeoutMs, timeout_ms);
  return Connect(task).Call(stop, {}, kSoon);
}

std::string ShimFixture::Delete(const Task& task, bool force) {
  Message request(Kind::kDelete);
  request.Add(Tag::kForce, std::uint64_t{force ? 1U : 0U});
  const auto done = Connect(task).Call(request, {}, kSoon);
  return done ? "Ok" : done.error().Message();
}

pid_t ShimFixture::InitOf(const Task& task) {
  const auto status = Ask(task, Kind::kGetStatus);
  EXPECT_TRUE(status) << status.error().Message();
  return status ? static_cast<pid_t>(status->message.Number(Tag::kPid)) : -1;
}

pid_t ShimFixture::PeerOf(const shim::ShimConnection& connection) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  EXPECT_EQ(
      ::getsockopt(connection.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &size), 0);
  return peer.pid;
}

std::string ShimFixture::CgroupOf(const std::string& name) const {
  return top_ + "/" + name;
}

bool ShimFixture::IsPopulated(const std::string& name) const {
  return TextOf(CgroupOf(name) + "/cgroup.events").find("populated 1") !=
         std::string::npos;
}

bool ShimFixture::IsInstalled(const std::string& program) {
  return fs::exists("/usr/bin/" + program) ||
         fs::exists("/usr/sbin/" + program);
}

bool ShimFixture::LimitMemory(const std::string& name,
                              const std::string& bytes) const {
  WriteText(std::string(kCgroups) + "/cgroup.subtree_control", "+memory");
  WriteText(top_ + "/cgroup.subtree_control", "+memory");
  WriteText(CgroupOf(name) + "/memory.swap.max", "0");
  WriteText(CgroupOf(name) + "/memory.max", bytes);
  return TextOf(CgroupOf(name) + "/memory.max") == bytes + "\n";
}

}  // namespace mountd::testing
