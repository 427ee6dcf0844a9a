// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/mount_ways.h"

#include <fcntl.h>
#include <libmount/libmount.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

namespace mountd::bench {
namespace {

Result<void> Done(int result, const char* op) {
  if (result < 0) {
    return ErrnoError(errno, op, "");
  }
  return Ok();
}

class Mountd final : public MountWay {
 public:
  Mountd(agent::Client& client, std::string volume)
      : client_(client), volume_(std::move(volume)) {}
  const char* name() const override { return "mountd"; }
  Result<void> Mount() override {
    MOUNTD_TRY(client_.BindMount(
        "bench", {.task = "task",
                  .name = "mount",
                  .source_type = agent::SourceType::kHostVolume,
                  .source = volume_,
                  .read_only = true,
                  .propagation = agent::Propagation::kHostToTask}));
    return Ok();
  }
  Result<void> Unmount() override {
    return client_.Unmount("bench", "task", "mount");
  }

 private:
  agent::Client& client_;
  const std::string volume_;
};

Result<void> Run(std::vector<const char*> arguments) {
  const char* program = arguments[0];
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, program, nullptr, nullptr,
                    const_cast<char**>(arguments.data()), ::environ);
  int status = 0;
  if (error != 0 || ::waitpid(child, &status, 0) < 0 || status != 0) {
    return MakeError(Code::kInternal, "run", program, "failed");
  }
  return Ok();
}

class Programs final : public MountWay {
 public:
  const char* name() const override { return "mount(8)"; }
  Result<void> Mount() override {
    MOUNTD_TRY(Done(::mkdir(point_.c_str(), 0700), "mkdir"));
    MOUNTD_TRY(Run(
        {"/bin/mount", "-o", "bind,ro,nosuid,nodev", kVolume, point_.c_str()}));
    return Run({"/bin/mount", "--make-rslave", point_.c_str()});
  }
  Result<void> Unmount() override {
    MOUNTD_TRY(Run({"/bin/umount", point_.c_str()}));
    return Done(::rmdir(point_.c_str()), "rmdir");
  }

 private:
  const std::string point_ = std::string(kPoints) + "/programs";
};

class Libmount final : public MountWay {
 public:
  const char* name() const override { return "libmount"; }
  Result<void> Mount() override {
    MOUNTD_TRY(Done(::mkdir(point_.c_str(), 0700), "mkdir"));
    return Call([&](libmnt_context* context) {
      ::mnt_context_set_source(context, kVolume);
      ::mnt_context_set_options(context, "bind,ro,nosuid,nodev,rslave");
      return ::mnt_context_mount(context);
    });
  }
  Result<void> Unmount() override {
    MOUNTD_TRY(Call(::mnt_context_umount));
    return Done(::rmdir(point_.c_str()), "rmdir");
  }

 private:
  template <typename F>
  Result<void> Call(const F& call) {
    libmnt_context* context = ::mnt_new_context();
    ::mnt_context_set_target(context, point_.c_str());
    const int result = call(context);
    ::mnt_free_context(context);
    return result == 0 ? Ok()
                       : Result<void>(MakeError(Code::kInternal, "libmount",
                                                std::to_string(result)));
  }

  const std::string point_ = std::string(kPoints) + "/libmount";
};

class SystemCalls final : public MountWay {
 public:
  SystemCalls(const char* name, std::string source, std::string point)
      : name_(name), source_(std::move(source)), point_(std::move(point)) {}
  const char* name() const override { return name_; }
  Result<void> Mount() override {
    MOUNTD_TRY(Done(::mkdir(point_.c_str(), 0700), "mkdir"));
    const UniqueFd tree(::open_tree(AT_FDCWD, source_.c_str(),
                                    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
                                        static_cast<unsigned>(AT_RECURSIVE)));
    MOUNTD_TRY(Done(tree.get(), "open_tree"));
    struct mount_attr change = {};
    change.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    change.propagation = MS_SLAVE;
    MOUNTD_TRY(
        Done(::mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE,
                             &change, sizeof(change)),
             "mount_setattr"));
    MOUNTD_TRY(Done(::move_mount(tree.get(), "", AT_FDCWD, point_.c_str(),
                                 MOVE_MOUNT_F_EMPTY_PATH),
                    "move_mount"));
    // move_mount onto a shared mount makes the tree shared
    // (mount_namespaces(7)), so the propagation is set again.
    struct mount_attr again = {};
    again.propagation = MS_SLAVE;
    return Done(::mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE,
                                &again, sizeof(again)),
                "mount_setattr");
  }
  Result<void> Unmount() override {
    MOUNTD_TRY(Done(::umount2(point_.c_str(), UMOUNT_NOFOLLOW), "umount2"));
    return Done(::rmdir(point_.c_str()), "rmdir");
  }

 private:
  const char* const name_;
  const std::string source_;
  const std::string point_;
};

class Empty final : public MountWay {
 public:
  Empty(agent::Client& client, World& world) : client_(client), world_(world) {}
  const char* name() const override { return "empty"; }
  Result<void> Mount() override {
    MOUNTD_TRY(client_.Version());
    return Ok();
  }
  Result<void> Unmount() override { return world_.EmptyPlan(); }

 private:
  agent::Client& client_;
  World& world_;
};

}  // namespace

std::unique_ptr<MountWay> ThroughMountd(agent::Client& client,
                                        const std::string& volume) {
  return std::make_unique<Mountd>(client, volume);
}
std::unique_ptr<MountWay> ByPrograms() { return std::make_unique<Programs>(); }
std::unique_ptr<MountWay> ByLibmount() { return std::make_unique<Libmount>(); }
std::unique_ptr<MountWay> BySystemCalls() {
  return std::make_unique<SystemCalls>("system calls", kVolume,
                                       std::string(kPoints) + "/calls");
}
std::unique_ptr<MountWay> BySystemCallsNaively() {
  return std::make_unique<SystemCalls>("naive layout",
                                       std::string(kNaive) + "/volume",
                                       std::string(kNaive) + "/calls");
}

std::unique_ptr<MountWay> EmptyCalls(agent::Client& client, World& world) {
  return std::make_unique<Empty>(client, world);
}

}  // namespace mountd::bench
