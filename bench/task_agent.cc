// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/task_agent.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "agent/driver/oci/oci_driver.h"
#include "bench/pipe.h"
#include "bench/programs.h"
#include "bench/world.h"
#include "tests/support/node/node.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;
using testing::kAgentUid;

constexpr char kCgroups[] = "/sys/fs/cgroup";

std::string CgroupPath() { return std::string(kCgroups) + kTaskCgroup; }

Result<void> GiveToAgent(const std::string& path) {
  return ::chown(path.c_str(), kAgentUid, kAgentUid) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "chown", path));
}

// Gives the agent a cgroup, as systemd's Delegate= does.
Result<void> MakeCgroup() {
  // crun refuses a machine that has both versions of cgroups in one tree.
  while (::umount2(kCgroups, MNT_DETACH) == 0) {
  }
  if (::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr) != 0 ||
      (::mkdir(CgroupPath().c_str(), 0755) != 0 && errno != EEXIST)) {
    return ErrnoError(errno, "make a cgroup", CgroupPath());
  }
  for (const char* file :
       {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
    MOUNTD_TRY(GiveToAgent(CgroupPath() + file));
  }
  return Ok();
}

Result<void> MakeImage() {
  const std::string image = "/run/bench/image";
  for (const char* made : {"usr", "proc", "sys", "dev", "etc", "data"}) {
    fs::create_directories(image + "/" + made);
  }
  for (const char* name : {"bin", "lib", "lib64"}) {
    fs::create_symlink(std::string("usr/") + name, image + "/" + name);
  }
  fs::create_directories("/run/bench/agent");
  return GiveToAgent("/run/bench/agent");
}

// Writes each sample as a line, which the other end of the pipe reads.
void Write(const SamplesByName& samples, int to) {
  std::ostringstream text;
  for (const auto& [name, values] : samples) {
    for (const double value : values.values()) {
      text << name << ' ' << value << '\n';
    }
  }
  const std::string all = text.str();
  for (std::size_t at = 0; at < all.size();) {
    const ssize_t got = ::write(to, all.data() + at, all.size() - at);
    if (got <= 0) {
      return;
    }
    at += static_cast<std::size_t>(got);
  }
}

SamplesByName Read(int from) {
  std::string all;
  char piece[65536];
  for (ssize_t got = 0; (got = ::read(from, piece, sizeof(piece))) > 0;) {
    all.append(piece, static_cast<std::size_t>(got));
  }
  SamplesByName samples;
  std::istringstream lines(all);
  std::string name;
  for (double value = 0; lines >> name >> value;) {
    samples[name].Add(value);
  }
  return samples;
}

[[noreturn]] void RunAsAgent(
    const std::function<Result<void>(SamplesByName&)>& body, int to) {
  std::ofstream(CgroupPath() + "/cgroup.procs") << "0" << std::flush;
  ::syscall(SYS_setgroups, 0, nullptr);
  ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
  ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
  ::prctl(PR_SET_DUMPABLE, 1);
  SamplesByName samples;
  const Result<void> done = body(samples);
  if (!done) {
    std::fprintf(stderr, "tasks: %s\n", done.error().Message().c_str());
  }
  Write(samples, to);
  ::_exit(done ? 0 : 1);
}

}  // namespace

Result<std::unique_ptr<TaskHost>> TaskHost::Make() {
  for (const char* program : {"/usr/bin/crun", "/usr/bin/newuidmap"}) {
    if (!IsProgram(program)) {
      return MakeError(Code::kNotSupported, "find", program,
                       "is not installed");
    }
  }
  std::unique_ptr<TaskHost> host(new TaskHost);
  MOUNTD_TRY(MakeCgroup());
  MOUNTD_TRY(MakeImage());
  for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
    std::ofstream(file) << "agent:200000:65536\n";
  }
  return host;
}

TaskHost::~TaskHost() {
  std::ofstream(CgroupPath() + "/cgroup.kill") << "1" << std::flush;
  constexpr int kTries = 1000;
  for (int tries = 0; tries < kTries; ++tries) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(CgroupPath(), error)) {
      if (entry.is_directory()) {
        ::rmdir(entry.path().c_str());
      }
    }
    if (::rmdir(CgroupPath().c_str()) == 0 || errno == ENOENT) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  std::fprintf(stderr, "tasks: %s is left\n", CgroupPath().c_str());
}

Result<TaskAgent> TaskAgent::Connect() {
  TaskAgent made;
  MOUNTD_ASSIGN(agent::Client client, agent::Client::Connect());
  made.client = std::make_unique<agent::Client>(std::move(client));
  driver::OciDriverOptions options;
  options.state = kTaskState;
  options.shim = MOUNTD_TASK_SHIM;
  options.client = made.client.get();
  options.cgroup = CgroupPath();
  options.keeps_spare_namespaces = true;
  MOUNTD_ASSIGN(made.driver, driver::MakeOciDriver(options));
  return made;
}

Result<SamplesByName> AsTaskUser(
    const std::function<Result<void>(SamplesByName&)>& body) {
  MOUNTD_ASSIGN(Pipe pipe, MakePipe());
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    RunAsAgent(body, pipe.in.get());
  }
  pipe.in.reset();
  SamplesByName samples = Read(pipe.out.get());
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) {
    return MakeError(Code::kInternal, "measure", "tasks",
                     "the process of the ordinary user has failed");
  }
  return samples;
}

}  // namespace mountd::bench
