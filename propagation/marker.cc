// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/marker.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include <optional>

#include "mountd/base/number.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

constexpr char kMarker[] = "anchor";

}  // namespace

// Locks the directory, then checks that it is still there: a plan removes the
// directory under its lock, so a plan that waited may hold a removed one and
// tries again.
Result<UniqueFd> LockMarker(const Context& context, int part,
                            const std::string& source) {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries; ++i) {
    exec::Undo undo;
    MOUNTD_ASSIGN(const UniqueFd made,
                  EnsureDirectory(context, part, source, 0700, source, &undo));
    // O_RDONLY, because flock(2) refuses an O_PATH descriptor.
    MOUNTD_ASSIGN(
        UniqueFd fd,
        Named(context.kernel.Open(made.get(), ".", O_RDONLY | O_DIRECTORY,
                                  RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS),
              "openat2", source));
    MOUNTD_TRY(exec::Locked(context.kernel, fd.get(), source));
    MOUNTD_ASSIGN(const FileFacts locked,
                  Named(context.kernel.Stat(fd.get(), ""), "statx", source));
    const exec::Sys<FileFacts> now = context.kernel.Stat(part, source);
    // A directory that another plan has made again has another inode.
    if (now && now->inode == locked.inode) {
      undo.Commit();  // the directory goes with its marker
      return fd;
    }
    if (!now && now.error() != ENOENT) {
      return ErrnoError(now.error(), "statx", source);
    }
  }
  return MakeError(Code::kAborted, "lock", source,
                   "other calls release it again and again; call again later");
}

void RemoveIfEmpty(const Context& context, int part,
                   const std::string& source) {
  IgnoreBecauseBestEffort(context.kernel.RemoveDirectory(part, source));
}

Result<Marker> ReadMarker(const Context& context, int part,
                          const std::string& source) {
  const exec::Sys<std::string> text =
      context.kernel.ReadLink(part, source + "/" + kMarker);
  // ENOENT: no mount was finished here, because the marker comes last.
  if (exec::FailedWith(text, ENOENT)) {
    return Marker{};
  }
  if (!text) {
    return ErrnoError(text.error(), "readlinkat", source);
  }
  const std::size_t space = text->find(' ');
  const std::optional<std::uint64_t> id =
      ParseNumber<std::uint64_t>(text->substr(0, space));
  if (space == std::string::npos || !id) {
    return MakeError(Code::kInternal, "readlinkat", source,
                     "mountd cannot read its marker");
  }
  return Marker{*id, text->substr(space + 1)};
}

Result<void> WriteMarker(const Context& context, int lock, const Marker& marker,
                         const std::string& source) {
  // symlinkat(2) replaces nothing, so remove the old link first.
  MOUNTD_TRY(RemoveMarker(context, lock, source));
  return Named(
      context.kernel.MakeLink(std::to_string(marker.id) + " " + marker.what,
                              lock, kMarker),
      "symlinkat", source);
}

Result<void> RemoveMarker(const Context& context, int lock,
                          const std::string& source) {
  const exec::Sys<void> removed = context.kernel.RemoveFile(lock, kMarker);
  if (!removed && removed.error() != ENOENT) {
    return ErrnoError(removed.error(), "unlinkat", source);
  }
  return Ok();
}

}  // namespace mountd::propagation
