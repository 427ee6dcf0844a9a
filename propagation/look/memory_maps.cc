// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/memory_maps.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "propagation/ground/shared.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Sys;

constexpr std::size_t kMostMappings = 1U << 16U;
constexpr std::size_t kMostMapsBytes = 64U << 20U;
constexpr std::size_t kMostMappedFiles = 1024;

// The answer of the child. The executor may find it unfinished.
struct Answer {
  std::uint32_t count = 0;
  std::int32_t error = 0;  // the first
  std::array<MappedFile, kMostMappedFiles> files{};
};

void Miss(int error, Answer* answer) {
  answer->error = answer->error == 0 ? error : answer->error;
}

// Adds the file's mount and device unless the answer has them. Skips a mapping
// that has gone meanwhile.
void Add(exec::Kernel& kernel, int links, const std::string& link,
         Answer* answer) {
  const Sys<FileFacts> file = kernel.StatLinked(links, link);
  if (!file) {
    return exec::FailedWith(file, ENOENT) ? void() : Miss(file.error(), answer);
  }
  MappedFile mapped = {file->mount_id, 0, file->device,
                       S_ISBLK(file->mode) ? file->node : 0};
  const auto known = std::span(answer->files).first(answer->count);
  if (std::any_of(known.begin(), known.end(), [&](const MappedFile& one) {
        return one.mount_id == mapped.mount_id && one.node == mapped.node &&
               one.device == mapped.device;
      })) {
    return;
  }
  const Sys<std::uint64_t> id = kernel.LinkedMountId(links, link);
  if (!id) {
    return exec::FailedWith(id, ENOENT) ? void() : Miss(id.error(), answer);
  }
  if (answer->count == kMostMappedFiles) {
    return Miss(E2BIG, answer);
  }
  mapped.reusable_id = *id;
  answer->files.at(answer->count) = mapped;
  ++answer->count;  // last, because the child may be killed at any time
}

// Runs in the child.
Sys<void> Read(exec::Kernel& kernel, int process,
               const std::function<bool(const std::string&)>& wanted,
               Answer* answer) {
  if (wanted) {
    MOUNTD_ASSIGN(const std::string maps,
                  kernel.ReadFile(process, "maps", kMostMapsBytes));
    if (!wanted(maps)) {
      return {};
    }
  }
  MOUNTD_ASSIGN(const UniqueFd links,
                kernel.Open(process, "map_files", O_PATH | O_DIRECTORY,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS));
  MOUNTD_ASSIGN(const std::vector<std::string> names,
                kernel.List(links.get(), kMostMappings));
  for (const std::string& name : names) {
    Add(kernel, links.get(), name, answer);
  }
  return names.size() == kMostMappings ? Sys<void>(EFBIG) : Sys<void>();
}

}  // namespace

MappedFiles MappedFilesOf(const Context& context, const Process& process,
                          const std::function<bool(const std::string&)>& wanted,
                          std::chrono::milliseconds limit) {
  const Shared<Answer> answer;
  if (!answer.valid()) {
    return {{}, errno};
  }
  const std::array<int, 1> kept = {process.dir.get()};
  const Sys<std::uint8_t> status = context.kernel.RunChild(
      [&] {
        const Sys<void> read =
            Read(context.kernel, process.dir.get(), wanted, &*answer);
        // ENOENT, ESRCH: the process has ended, so it maps nothing.
        if (!read && read.error() != ENOENT && read.error() != ESRCH) {
          Miss(read.error(), &*answer);
        }
        return EXIT_SUCCESS;
      },
      kept, limit);
  MappedFiles mapped;
  mapped.error = !status                   ? status.error()
                 : *status != EXIT_SUCCESS ? ECHILD
                                           : answer->error;
  const auto files =
      std::span(answer->files)
          .first(std::min<std::size_t>(answer->count, kMostMappedFiles));
  mapped.files.assign(files.begin(), files.end());
  return mapped;
}

std::chrono::milliseconds LimitOfMaps(
    std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return std::max(left / 2, std::chrono::milliseconds(1));
}

}  // namespace mountd::propagation
