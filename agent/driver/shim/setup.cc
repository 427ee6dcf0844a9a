// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/setup.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "agent/driver/protocol/launch.h"
#include "mountd/base/memory_file.h"

namespace mountd::shim {
namespace {

constexpr std::size_t kMostCreateBytes = std::size_t{1} << 20U;

// Takes the fd if the driver has passed it.
UniqueFd Take(PassedFd passed, std::uint64_t bits) {
  const int number = static_cast<int>(passed);
  if (((bits >> static_cast<unsigned>(number)) & 1U) == 0) {
    return {};
  }
  return UniqueFd(::fcntl(number, F_SETFD, FD_CLOEXEC) == 0 ? number : -1);
}

StreamSetup StreamOf(const Message& create, Tag sink, Tag path) {
  StreamSetup stream;
  stream.sink = static_cast<Sink>(create.Number(sink));
  stream.path = create.Text(path);
  stream.file_bytes = create.Number(Tag::kLogFileBytes);
  stream.files = create.Number(Tag::kLogFiles);
  return stream;
}

bool IsWhole(const StreamSetup& stream) {
  switch (stream.sink) {
    case Sink::kNone:
      return true;
    case Sink::kPassed:
      return stream.passed.valid();
    case Sink::kFiles:
      return !stream.path.empty() && stream.file_bytes > 0 && stream.files > 0;
    case Sink::kFifo:
      return !stream.path.empty();
  }
  return false;
}

Result<std::string> PathOf(int directory) {
  std::array<char, PATH_MAX> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(directory);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  if (size < 0 || ::fchdir(directory) != 0) {
    return ErrnoError(errno, "readlink", "the task's directory");
  }
  return std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace

Result<Setup> TakeSetup() {
  const UniqueFd memory(static_cast<int>(PassedFd::kCreateMessage));
  MOUNTD_ASSIGN(const std::string bytes,
                ReadMemory(memory.get(), kMostCreateBytes));
  MOUNTD_ASSIGN(const Message create, Message::Parse(bytes));
  const std::uint64_t bits = create.Number(Tag::kPassedFds);
  Setup setup;
  setup.task_directory = Take(PassedFd::kTaskDirectory, bits);
  setup.connection = Take(PassedFd::kConnection, bits);
  setup.user_namespace = Take(PassedFd::kUserNamespace, bits);
  setup.network_namespace = Take(PassedFd::kNetworkNamespace, bits);
  setup.cgroup = Take(PassedFd::kCgroup, bits);
  setup.image = Take(PassedFd::kImage, bits);
  setup.runtime_joins = create.Number(Tag::kRuntimeJoins) != 0;
  setup.container = create.Text(Tag::kContainer);
  setup.runtime = create.Texts(Tag::kRuntime);
  setup.runtime_root = create.Text(Tag::kRuntimeRoot);
  setup.bundle = create.Text(Tag::kBundle);
  setup.mount_type = create.Text(Tag::kMountType);
  setup.mount_source = create.Text(Tag::kMountSource);
  setup.mount_target = create.Text(Tag::kMountTarget);
  setup.mount_options = create.Text(Tag::kMountOptions);
  setup.standard_output = StreamOf(create, Tag::kStdoutSink, Tag::kStdoutPath);
  setup.standard_error = StreamOf(create, Tag::kStderrSink, Tag::kStderrPath);
  setup.standard_output.passed = Take(PassedFd::kStdout, bits);
  setup.standard_error.passed = Take(PassedFd::kStderr, bits);
  if (create.kind() != Kind::kCreate || !setup.task_directory.valid() ||
      setup.container.empty() || setup.runtime.empty() ||
      setup.runtime_root.empty() || setup.bundle.empty() ||
      !IsWhole(setup.standard_output) || !IsWhole(setup.standard_error)) {
    return MakeError(Code::kInvalidArgument, "parse", "message kCreate",
                     "lacks a field or an fd");
  }
  MOUNTD_ASSIGN(setup.directory, PathOf(setup.task_directory.get()));
  return setup;
}

}  // namespace mountd::shim
