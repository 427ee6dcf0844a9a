// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/oci/oci_fixture.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/driver/images/digest.h"
#include "mountd/base/unique_fd.h"
#include "tests/agent/driver/as_user.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::AsUserSetup;
using mountd::testing::kDriverUser;
using mountd::testing::RunAsUser;

constexpr char kCgroups[] = "/sys/fs/cgroup";

std::string CgroupOfTest(pid_t test) {
  return std::string(kCgroups) + "/mountd-oci-" + std::to_string(test);
}

// crun refuses a machine that has both versions of cgroups in one tree. EBUSY:
// the machine has version 2 there already, as Debian has.
bool MountCgroups() {
  return ::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr) == 0 ||
         errno == EBUSY;
}

// Delegates a cgroup to the user, and moves this process there, as systemd
// does for a unit with Delegate=yes.
void Delegate(const std::string& cgroup) {
  if (!MountCgroups() || ::mkdir(cgroup.c_str(), 0755) != 0) {
    return;
  }
  for (const char* file :
       {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
    if (::chown((cgroup + file).c_str(), kDriverUser, kDriverUser) != 0) {
      return;
    }
  }
  std::ofstream(cgroup + "/cgroup.procs") << "0" << std::flush;
}

void RemoveCgroup(const std::string& cgroup) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(cgroup, ignored)) {
    if (entry.is_directory()) {
      ::rmdir(entry.path().c_str());
    }
  }
  ::rmdir(cgroup.c_str());
}

std::string ListOf(const std::string& directory) {
  std::string names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    names += entry.path().string() + "\n";
  }
  return names;
}

// Files of the user's subordinate ids, which the user alone cannot remove.
// Unpacked images stay, and have such files.
std::string SubordinateFiles(const std::string& directory) {
  constexpr uid_t kFirstSubordinate = 200'000;
  std::string names;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(
           directory, fs::directory_options::skip_permission_denied, ignored)) {
    struct stat found = {};
    if (::lstat(entry.path().c_str(), &found) == 0 &&
        found.st_uid >= kFirstSubordinate &&
        entry.path().string().find("/state/images/") == std::string::npos) {
      names += "file " + entry.path().string() + "\n";
    }
  }
  return names;
}

// Mounts of this namespace beneath the directory.
std::string MountsBeneath(const std::string& directory) {
  std::string mounts;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.find(" " + directory) != std::string::npos) {
      mounts += "mount " + line + "\n";
    }
  }
  return mounts;
}

// This user's processes in another user namespace.
std::string ProcessesElsewhere() {
  std::error_code failed;
  const fs::path own = fs::read_symlink("/proc/self/ns/user", failed);
  std::string processes;
  for (const auto& entry : fs::directory_iterator("/proc", failed)) {
    std::error_code hidden;
    const fs::path theirs =
        fs::read_symlink(entry.path() / "ns" / "user", hidden);
    // A process that has ended has no command line, and nobody in the test's
    // pid namespace waits for orphans.
    std::string line;
    std::getline(std::ifstream(entry.path() / "cmdline"), line);
    if (!hidden && theirs != own && !line.empty()) {
      processes += "namespace of " + entry.path().string() + "\n";
    }
  }
  return processes;
}

}  // namespace

std::string TextOf(const Result<ExitResult>& result) {
  if (!result) {
    return ErrorText(result.error());
  }
  if (!result->error.empty()) {
    return result->error;
  }
  return result->signal != 0 ? "signal " + std::to_string(result->signal)
                             : "code " + std::to_string(result->exit_code);
}

void OciFixture::SetUp() {
  const std::string why = mountd::testing::WhyNotAsUser();
  if (!why.empty()) {
    GTEST_SKIP() << why;
  }
  if (::access("/usr/bin/crun", X_OK) != 0) {
    GTEST_SKIP() << "crun is not installed";
  }
  fs::permissions(path(""), fs::perms(01777));
  MakeImage();
}

void OciFixture::TearDown() {
  if (IsSkipped()) {
    return;
  }
  AsUserSetup setup;
  setup.as_root = [cgroup = CgroupOfTest(::getpid())] {
    if (MountCgroups()) {
      RemoveCgroup(cgroup);
    }
  };
  RunAsUser([] { return std::string(); }, setup);
}

void OciFixture::MakeImage() const {
  for (const char* made : {"usr", "proc", "sys", "dev", "tmp", "etc"}) {
    fs::create_directories(path("image/") + made);
  }
  for (const char* name : {"bin", "lib", "lib64", "sbin"}) {
    fs::create_symlink(std::string("usr/") + name, path("image/") + name);
  }
  std::ofstream(path("image/etc/passwd"))
      << "root:x:0:0::/root:/bin/sh\nweb:x:1000:1001::/home/web:/bin/sh\n";
  // A task can change no directory whose owner its user namespace lacks.
  ASSERT_EQ(::chown(path("image/tmp").c_str(), kDriverUser, kDriverUser), 0);
  fs::permissions(path("image/tmp"), fs::perms(01777));
}

void OciFixture::AsUser(const std::function<void()>& body,
                        const std::function<void()>& as_root,
                        const std::string& subordinate_ids) {
  AsUserSetup setup;
  setup.subuid = subordinate_ids;
  setup.subgid = subordinate_ids;
  const pid_t test = ::getpid();
  setup.as_root = [test, &as_root] {
    Delegate(CgroupOfTest(test));
    as_root();
  };
  // The child would print what this process has not yet printed.
  std::fflush(stdout);
  const std::string text = RunAsUser(
      [&] {
        ::setenv("MOUNTD_TEST_CGROUP", CgroupOfTest(test).c_str(), 1);
        fs::create_directories(path("logs"));
        body();
        std::fflush(stdout);
        return std::string(HasFailure() ? "the child's assertions failed" : "");
      },
      setup);
  EXPECT_EQ(text, "");
}

std::string OciFixture::Cgroup() const {
  return ::getenv("MOUNTD_TEST_CGROUP");
}

OciDriverOptions OciFixture::Options() const {
  OciDriverOptions options;
  options.state = path("state");
  options.shim = MOUNTD_TASK_SHIM;
  if (const char* cgroup = ::getenv("MOUNTD_TEST_CGROUP")) {
    options.cgroup = cgroup;
  }
  return options;
}

std::unique_ptr<TaskDriver> OciFixture::MakeWith(
    const OciDriverOptions& options) const {
  auto driver = MakeOciDriver(options);
  EXPECT_THAT(driver, IsOk());
  return driver ? *std::move(driver) : nullptr;
}

TaskConfig OciFixture::Shell(const std::string& name,
                             const std::string& script) const {
  TaskConfig config;
  config.id = "web/" + name + "/00000001";
  config.allocation = "web";
  config.name = name;
  config.image = "dir:" + path("image");
  config.entrypoint = "/bin/sh";
  config.command = {"-c", script};
  config.mounts = {
      {"/usr", "/usr", true, false, MountPropagation::kPrivate, ""}};
  config.network.mode = NetworkMode::kNone;
  config.directories.logs = path("logs");
  return config;
}

std::string OciFixture::LogOf(const std::string& name) const {
  std::string text;
  for (const char* stream : {".stdout.", ".stderr."}) {
    for (int n = 0;; ++n) {
      std::ifstream file(path("logs/") + name + stream + std::to_string(n));
      if (!file) {
        break;
      }
      text += {std::istreambuf_iterator<char>(file), {}};
    }
  }
  return text;
}

std::string OciFixture::OutputOf(TaskDriver& driver,
                                 const TaskConfig& config) const {
  const auto started = driver.StartTask(config);
  if (!started) {
    return "not started: " + ErrorText(started.error());
  }
  const std::string status = TextOf(driver.WaitTask(config.id));
  const std::string text = LogOf(config.name);
  EXPECT_THAT(driver.DestroyTask(config.id, false), IsOk());
  return text + status;
}

std::string OciFixture::TaskDirectory(const std::string& id) const {
  return path("state/tasks/") + Sha256Hex(id).substr(0, 32);
}

std::string OciFixture::CgroupOf(const std::string& id) const {
  return Cgroup() + "/task-" + Sha256Hex(id).substr(0, 32);
}

std::vector<pid_t> OciFixture::ProcessesWith(const std::string& text) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    // A stream would throw if the process has ended.
    const UniqueFd file(
        ::open((entry.path() / "cmdline").c_str(), O_RDONLY | O_CLOEXEC));
    std::string line(4096, '\0');
    const ssize_t got =
        file.valid() ? ::read(file.get(), line.data(), line.size()) : 0;
    line.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (line.find(text) != std::string::npos) {
      found.push_back(std::atoi(entry.path().filename().c_str()));
    }
  }
  return found;
}

std::string OciFixture::Leftovers() const {
  std::string left = ListOf(path("state/tasks")) +
                     ListOf(path("state/removed")) +
                     ListOf(path("state/runtime"));
  for (const auto& entry : fs::directory_iterator(Cgroup())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("task-")) {
      left += entry.path().string() + "\n";
    }
  }
  for (const pid_t pid : ProcessesWith("mountd-task-shim")) {
    left += "shim " + std::to_string(pid) + "\n";
  }
  for (const pid_t pid : ProcessesWith("marked-task")) {
    left += "task " + std::to_string(pid) + "\n";
  }
  return left + ProcessesElsewhere() + MountsBeneath(path("state")) +
         SubordinateFiles(path(""));
}

}  // namespace mountd::driver::testing
