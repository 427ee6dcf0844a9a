// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Rootless containers of a real runtime, made from these configurations.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "agent/driver/namespaces/namespaces.h"
#include "tests/agent/driver/as_user.h"
#include "tests/agent/driver/bundle/bundles.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

namespace fs = std::filesystem;
using testing::AsUserSetup;
using testing::RunAsUser;

// Makes the system calls of a list, and prints each name with its errno.
constexpr char kProbe[] = R"(
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *arguments):
    ctypes.set_errno(0)
    failed = libc.syscall(number, *arguments) < 0
    print(name, os.strerror(ctypes.get_errno()) if failed else "ok", flush=True)
)";

class DriverCrun : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = testing::WhyNotAsUser();
    if (!why.empty()) {
      GTEST_SKIP() << why;
    }
    for (const char* program : {"/usr/bin/crun", "/usr/bin/python3"}) {
      if (::access(program, X_OK) != 0) {
        GTEST_SKIP() << program << " is not installed";
      }
    }
    fs::permissions(path(""), fs::perms(0777));
    config_ = PlainContainer();
    config_.rootfs = path("bundle/rootfs");
    config_.mounts = {{"/usr", "/usr", true, false, TaskPropagation::kPrivate}};
  }

  std::string path(const std::string& name) const {
    return directory_.File(name);
  }

  void Python(const std::string& script) {
    config_.process.args = {"/usr/bin/python3", "-I", "-c", kProbe + script};
  }
  void Shell(const std::string& script) {
    config_.process.args = {"/bin/sh", "-c", script};
  }

  // Returns all that the container prints, and "rc N" if its end is not 0.
  // With `shared` the machine's mounts propagate, as they do under systemd.
  std::string Run(bool shared = false) const {
    AsUserSetup setup;
    setup.as_root = [this, shared] {
      // crun refuses a machine that has both versions of cgroups in one tree.
      ::mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, nullptr);
      if (shared) {
        // The inbox is a mount of its own, as mountd's is, because the runtime
        // makes the mount private that has the rootfs.
        ::mount(path("inbox").c_str(), path("inbox").c_str(), nullptr, MS_BIND,
                nullptr);
        ::mount(nullptr, "/", nullptr, MS_REC | MS_SHARED, nullptr);
      }
    };
    return RunAsUser([this] { return RunHere(); }, setup);
  }

  ContainerConfig config_;
  // The shell commands that use the runtime.
  std::string runtime_ = "crun run --bundle=$BUNDLE mountd-test";
  bool one_id_ = false;    // as on a machine without uidmap
  ContainerProcess exec_;  // becomes $BUNDLE/exec.json if it has a program

 private:
  std::string RunHere() const {
    for (const char* made : {"", "/usr", "/proc", "/sys", "/dev", "/tmp"}) {
      fs::create_directories(config_.rootfs + made);
    }
    for (const char* name : {"bin", "lib", "lib64"}) {
      fs::create_symlink(std::string("usr/") + name,
                         config_.rootfs + "/" + name);
    }
    const auto text = ConfigFile(config_);
    if (!text) {
      return ErrorText(text.error());
    }
    std::ofstream(path("bundle/config.json")) << *text << std::flush;
    if (const auto exec = ProcessFile(exec_)) {
      std::ofstream(path("bundle/exec.json")) << *exec << std::flush;
    }
    IdSources sources;
    if (one_id_) {
      sources.newuidmap = "/nowhere/newuidmap";
    }
    const auto maps = ChooseIdMaps(sources);
    if (!maps) {
      return ErrorText(maps.error());
    }
    const auto made = MakeNamespaces(*maps, WithNetwork::kYes);
    if (!made) {
      return ErrorText(made.error());
    }
    // The test keeps the file open, because the runtime gives it to the user of
    // the container's process.
    const UniqueFd printed(
        ::open(path("out").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(Start(*made, printed.get()));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    std::string out(65536, '\0');
    const ssize_t got = ::pread(printed.get(), out.data(), out.size(), 0);
    out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return status == 0 ? out
                       : out + "rc " + std::to_string(WEXITSTATUS(status));
  }

  // Becomes 0 of both namespaces, as the shim does, and then the runtime.
  int Start(const NewNamespaces& made, int out) const {
    if (::dup2(out, 1) < 0 || ::dup2(out, 2) < 0 ||
        ::setns(made.user.get(), CLONE_NEWUSER) != 0 ||
        ::setns(made.network.get(), CLONE_NEWNET) != 0 ||
        (::syscall(SYS_setgroups, 0, nullptr) != 0 && !one_id_) ||
        ::syscall(SYS_setresgid, 0, 0, 0) != 0 ||
        ::syscall(SYS_setresuid, 0, 0, 0) != 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::chdir("/") != 0) {
      return 98;
    }
    ::setenv("BUNDLE", path("bundle").c_str(), 1);
    const std::string crun = "crun() { /usr/bin/crun --root=" + path("crun") +
                             " --cgroup-manager=disabled \"$@\"; }; ";
    ::execl("/bin/sh", "sh", "-c", (crun + runtime_).c_str(), nullptr);
    return 99;
  }

  const TempDirectory directory_;
};

TEST_F(DriverCrun, ATaskRunsWithoutAnyRight) {
  Shell(
      "id -u; hostname; grep -E 'NoNewPrivs|Seccomp:|CapEff|CapBnd' "
      "/proc/self/status; exit 7");
  EXPECT_EQ(Run(),
            "0\nweb\nCapEff:\t00000000800405fb\nCapBnd:\t00000000800405fb\n"
            "NoNewPrivs:\t1\nSeccomp:\t2\nrc 7");
}

TEST_F(DriverCrun, AnotherUserHasNoCapability) {
  config_.process.user = {1000, 1001, {5, 27}};
  config_.process.rlimits = {{"RLIMIT_NOFILE", 100, 200}};
  config_.process.cwd = "/tmp";
  Shell(
      "id -u; id -g; id -G; pwd; ulimit -n; ulimit -H -n; grep CapEff "
      "/proc/self/status; cat /dev/null; test -w /dev/shm && echo shm");
  EXPECT_EQ(Run(),
            "1000\n1001\n1001 5 27\n/tmp\n100\n200\n"
            "CapEff:\t0000000000000000\nshm\n");
}

TEST_F(DriverCrun, AMachineWithoutUidmapRunsRootsTasks) {
  one_id_ = true;
  config_.default_mounts.has_tty_group = false;
  Shell("id -u; id -G; cat /proc/self/uid_map; test -e /dev/pts/ptmx");
  std::string text = Run();
  EXPECT_EQ(text.substr(0, 4), "0\n0\n") << text;
  EXPECT_EQ(text.find("rc "), std::string::npos) << text;
  config_.default_mounts.has_tty_group = true;
  fs::remove_all(path("bundle"));
  text = Run();
  EXPECT_NE(text.find("devpts"), std::string::npos) << text;
}

TEST_F(DriverCrun, AnAddedCapabilityIsAnotherUsersToo) {
  config_.process.user.uid = 1000;
  config_.process.capabilities = *CapabilitiesWith({{"net_raw"}, {}});
  Shell("grep CapEff /proc/self/status");
  EXPECT_EQ(Run(), "CapEff:\t0000000000002000\n");
}

TEST_F(DriverCrun, CallsBeyondTheContainerAreRefused) {
  Python(R"(
import platform
if platform.machine() != "x86_64": sys.exit(0)
call("bpf", 321, 0, None, 0)
call("mount", 165, b"none", b"/tmp", b"tmpfs", 0, None)
call("umount2", 166, b"/tmp", 0)
call("keyctl", 250, 0, -3, 0)
call("add_key", 248, b"user", b"x", b"y", 1, -3)
call("open_by_handle_at", 304, -1, None, 0)
call("userfaultfd", 323, 1)
call("perf_event_open", 298, None, 0, -1, -1, 0)
call("unshare user", 272, 0x10000000)
call("clone user", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("setns", 308, -1, 0)
call("kexec_load", 246, 0, 0, None, 0)
call("init_module", 175, None, 0, b"")
call("reboot", 169, 0, 0, 0, None)
call("io_uring_setup", 425, 1, None)
call("syslog", 103, 10, None, 0)
call("iopl", 172, 3)
call("settimeofday", 164, None, None)
call("personality", 135, 0x0040000)
call("vsock", 41, 40, 1, 0)
call("audit", 41, 16, 3, 9)
call("clone3", 435, None, 0)
call("unknown", 10000)
)");
  const std::string not_permitted = " Operation not permitted\n";
  std::string expected;
  for (const char* name :
       {"bpf", "mount", "umount2", "keyctl", "add_key", "open_by_handle_at",
        "userfaultfd", "perf_event_open", "unshare user", "clone user", "setns",
        "kexec_load", "init_module", "reboot", "io_uring_setup", "syslog",
        "iopl", "settimeofday"}) {
    expected += name + not_permitted;
  }
  expected +=
      "personality Function not implemented\n"
      "vsock Address family not supported by protocol\n"
      "audit Invalid argument\n"
      "clone3 Function not implemented\n"
      "unknown Function not implemented\n";
  EXPECT_EQ(Run(), expected);
}

// exec takes neither of noNewPrivileges and the environment from config.json.
TEST_F(DriverCrun, ExecHasTheSameLimits) {
  Shell("sleep 100");
  exec_ = config_.process;
  exec_.env = {{"PATH", "/usr/bin:/bin"}, {"ONLY", "this"}};
  exec_.user = {1000, 1001, {5}};
  exec_.cwd = "/tmp";
  exec_.args = {"/bin/sh", "-c",
                "id -u; id -G; pwd; echo $ONLY; grep -E "
                "'NoNewPrivs|Seccomp:|CapEff' /proc/self/status; exit 9"};
  runtime_ =
      "crun run --detach --bundle=$BUNDLE mountd-test; crun exec "
      "--process=$BUNDLE/exec.json mountd-test; rc=$?; crun delete --force "
      "mountd-test; exit $rc";
  EXPECT_EQ(Run(),
            "1000\n1001 5\n/tmp\nthis\nCapEff:\t0000000000000000\n"
            "NoNewPrivs:\t1\nSeccomp:\t2\nrc 9");
}

// The kernel, and not the filter, keeps a debugger to the container.
TEST_F(DriverCrun, PtraceReachesOnlyTheContainersProcesses) {
  Python(R"(
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, None, None)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(sorted(name for name in os.listdir("/proc") if name.isdigit()) == ["1"])
)");
  EXPECT_EQ(Run(), "3\nTrue\n");
}

TEST_F(DriverCrun, OrdinaryProgramsHaveTheirCalls) {
  Python(R"(
import mmap, multiprocessing, select, signal, socket, subprocess, tempfile
import threading, time, ctypes.util
os.chdir("/tmp")
with tempfile.NamedTemporaryFile(dir="/tmp") as file:
    file.write(b"x"); file.flush(); os.fsync(file.fileno())
    os.chown(file.name, 1000, 1000); os.chmod(file.name, 0o600)
    os.setxattr(file.name, "user.a", b"b") if hasattr(os, "x") else None
threading.Thread(target=lambda: None).start()
subprocess.run(["/bin/sh", "-c", "true | cat; sleep 0"], check=True)
server = socket.create_server(("127.0.0.1", 80))
client = socket.create_connection(server.getsockname())
socket.create_server(("::1", 81), family=socket.AF_INET6)
socket.socket(socket.AF_UNIX).close()
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()
select.epoll().register(server); select.poll().register(client)
mmap.mmap(-1, 4096); os.memfd_create("x"); os.eventfd(0)
signal.setitimer(signal.ITIMER_REAL, 100); time.sleep(0.001)
multiprocessing.Semaphore(1); os.sched_yield(); os.getloadavg()
os.mkfifo("/tmp/f"); os.symlink("f", "/tmp/l"); os.getrandom(1)
os.pipe2(0); os.sched_getaffinity(0); os.setpriority(os.PRIO_PROCESS, 0, 1)
child = os.fork()
if child == 0:
    os.setgid(1000); os.setuid(1000); os._exit(os.getuid() - 1000)
print(os.waitpid(child, 0)[1])
)");
  EXPECT_EQ(Run(), "0\n");
}

TEST_F(DriverCrun, SecretFilesOfTheKernelAreCovered) {
  Shell(
      "for f in kcore keys timer_list interrupts; do test -s /proc/$f && echo "
      "$f; done; ls /sys/firmware; echo 1 >/proc/sys/kernel/domainname; echo b "
      ">/proc/sysrq-trigger; mkdir /sys/x; touch /sys/fs/cgroup/x; true");
  const std::string text = Run();
  for (const char* shown : {"kcore", "keys", "timer_list", "interrupts"}) {
    EXPECT_EQ(text.find(shown), std::string::npos) << text;
  }
  EXPECT_EQ(text.find("rc "), std::string::npos) << text;
  EXPECT_NE(text.find("sysrq-trigger"), std::string::npos) << text;
}

// Returns the line of mountinfo for a mount point.
std::string LineOf(const std::string& mountinfo, const std::string& point) {
  const std::size_t at = mountinfo.find(" " + point + " ");
  if (at == std::string::npos) {
    return "no mount in " + mountinfo;
  }
  return mountinfo.substr(at, mountinfo.find('\n', at) - at);
}

TEST_F(DriverCrun, MountsHaveTheirFlags) {
  fs::create_directories(path("volume"));
  fs::create_directories(path("inbox/late"));
  config_.mounts.push_back(
      {path("volume"), "/data/deep", false, true, TaskPropagation::kPrivate});
  config_.inbox = {path("inbox"), "/inbox", {}};
  Shell("cat /proc/self/mountinfo");
  const std::string text = Run(true);
  const std::string data = LineOf(text, "/data/deep");
  EXPECT_EQ(data.rfind(" /data/deep rw,nosuid,nodev,noexec", 0), 0U) << data;
  EXPECT_EQ(data.find("master:"), std::string::npos) << data;
  const std::string inbox = LineOf(text, "/inbox");
  EXPECT_EQ(inbox.rfind(" /inbox ro,nosuid,nodev", 0), 0U) << inbox;
  EXPECT_NE(inbox.find("master:"), std::string::npos) << text;
}

}  // namespace
}  // namespace mountd::driver
