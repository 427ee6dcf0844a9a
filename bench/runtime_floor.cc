// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/runtime_floor.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/task_agent.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kFloor[] = "/run/bench/agent/floor";
constexpr int kNotStarted = 126;

std::string PathOf(const std::string& container, const char* what) {
  return std::string(kFloor) + "/" + container + "/" + what;
}

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

UniqueFd OpenNamespace(const std::string& pid, const char* type) {
  return UniqueFd(
      ::open(("/proc/" + pid + "/ns/" + type).c_str(), O_RDONLY | O_CLOEXEC));
}

// The value of an option of the root's overlay.
std::string OptionOf(const std::string& mountinfo, const std::string& name) {
  const std::size_t at = mountinfo.find(name + "=");
  if (at == std::string::npos) {
    return "";
  }
  const std::size_t from = at + name.size() + 1;
  return mountinfo.substr(from, mountinfo.find_first_of(",\n", from) - from);
}

}  // namespace

Result<RuntimeFloor> RuntimeFloor::OfRunningTask() {
  RuntimeFloor floor;
  const std::string tasks = std::string(kTaskState) + "/tasks";
  for (const auto& entry : fs::directory_iterator(tasks)) {
    floor.key_ = entry.path().filename().string();
  }
  const std::string status =
      TextOf(std::string(kTaskState) + "/runtime/" + floor.key_ + "/status");
  const auto parsed = nlohmann::json::parse(status, nullptr, false);
  if (!parsed.is_object() || !parsed.contains("pid")) {
    return MakeError(Code::kInternal, "read", "the runtime's status");
  }
  const std::string pid = std::to_string(parsed["pid"].get<pid_t>());
  floor.user_ = OpenNamespace(pid, "user");
  floor.network_ = OpenNamespace(pid, "net");
  floor.lower_ = OptionOf(TextOf("/proc/" + pid + "/mountinfo"), "lowerdir");
  if (!floor.user_.valid() || !floor.network_.valid() || floor.lower_.empty()) {
    return MakeError(Code::kInternal, "open", "the task's namespaces");
  }
  fs::create_directories(PathOf("bundle", "rootfs"));
  auto config = nlohmann::json::parse(
      TextOf(tasks + "/" + floor.key_ + "/bundle/config.json"), nullptr, false);
  if (!config.is_object()) {
    return MakeError(Code::kInternal, "read", "the task's config.json");
  }
  config["root"]["path"] = PathOf("bundle", "rootfs");
  std::ofstream(PathOf("bundle", "config.json")) << config.dump();
  return floor;
}

Result<void> RuntimeFloor::Prepare(const std::string& container) const {
  std::error_code error;
  fs::create_directories(PathOf(container, "work"), error);
  fs::copy(std::string(kTaskState) + "/tasks/" + key_ + "/upper",
           PathOf(container, "upper"),
           fs::copy_options::recursive | fs::copy_options::copy_symlinks,
           error);
  return error ? Result<void>(ErrnoError(error.value(), "copy", container))
               : Ok();
}

Result<void> RuntimeFloor::Start(const std::string& container) const {
  MOUNTD_TRY(Run(Root::kOfContainer,
                 {"create", "--bundle", PathOf("bundle", ""), container},
                 container, -1));
  return Run(Root::kOfHost, {"start", container}, container, -1);
}

Result<void> RuntimeFloor::Delete(const std::string& container) const {
  MOUNTD_TRY(
      Run(Root::kOfHost, {"delete", "--force", container}, container, -1));
  return Ok();
}

Result<void> RuntimeFloor::Exec(const std::vector<std::string>& command,
                                int out) const {
  std::vector<std::string> words = {"exec", key_};
  words.insert(words.end(), command.begin(), command.end());
  return Run(Root::kOfHost, words, "", out);
}

// Does what a caller of crun has to do: joins the namespaces and, for a new
// container, mounts its root in a mount namespace.
Result<void> RuntimeFloor::Run(Root root, const std::vector<std::string>& words,
                               const std::string& container, int out) const {
  const std::string runtime = words.front() == "exec"
                                  ? std::string(kTaskState) + "/runtime"
                                  : PathOf("runtime", "");
  const std::string target = PathOf("bundle", "rootfs");
  std::string options;
  if (root == Root::kOfContainer) {
    options = "lowerdir=" + lower_ + ",upperdir=" + PathOf(container, "upper") +
              ",workdir=" + PathOf(container, "work") + ",userxattr";
  }
  std::vector<std::string> all = {"crun", "--root=" + runtime,
                                  "--cgroup-manager=disabled"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(out >= 0 ? out : null, 1);
    if (::setns(user_.get(), CLONE_NEWUSER) != 0 || ::setresgid(0, 0, 0) != 0 ||
        ::setresuid(0, 0, 0) != 0 ||
        ::setns(network_.get(), CLONE_NEWNET) != 0 ||
        (root == Root::kOfContainer &&
         (::unshare(CLONE_NEWNS) != 0 ||
          ::mount("overlay", target.c_str(), "overlay", 0, options.c_str()) !=
              0))) {
      ::_exit(kNotStarted);
    }
    ::execvp("crun", pointers.data());
    ::_exit(kNotStarted);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || status != 0) {
    return MakeError(Code::kInternal, "run", "crun " + words.front(),
                     "status " + std::to_string(status));
  }
  return Ok();
}

}  // namespace mountd::bench
