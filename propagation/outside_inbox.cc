// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/outside_inbox.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <array>
#include <functional>
#include <optional>
#include <string_view>

#include "mountd/base/number.h"
#include "propagation/container.h"
#include "propagation/detach.h"
#include "propagation/inbox.h"
#include "propagation/target.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;

using InNamespace = std::function<Result<MountState>(const Context&)>;

std::string TextOf(const Placeholder& placeholder) {
  const auto& [id, mount_namespace, cgroup, device, inode, parent] =
      placeholder;
  std::string text = std::to_string(id);
  if (mount_namespace != 0 || device != 0) {
    text +=
        " " + std::to_string(mount_namespace) + " " + std::to_string(cgroup);
  }
  if (device != 0) {
    text += " " + std::to_string(device) + " " + std::to_string(inode) + " " +
            std::to_string(parent);
  }
  return text;
}

std::optional<Placeholder> ParsePlaceholder(std::string_view text) {
  std::array<std::uint64_t, 6> numbers{};
  std::size_t count = 0;
  for (;;) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const auto number = ParseNumber<std::uint64_t>(text.substr(0, space));
    if (!number || count == numbers.size()) {
      return std::nullopt;
    }
    numbers.at(count++) = *number;
    if (space == text.size()) {
      break;
    }
    text.remove_prefix(space + 1);
  }
  if (count != 1 && count != 3 && count != numbers.size()) {
    return std::nullopt;
  }
  return Placeholder{numbers[0], numbers[1], numbers[2],
                     numbers[3], numbers[4], numbers[5]};
}

Result<Placeholder> ReadPlaceholder(const Context& context, int task,
                                    const std::string& name,
                                    const std::string& object) {
  MOUNTD_ASSIGN(
      const std::string text,
      Named(context.kernel.ReadLink(task, name), "readlinkat", object));
  const std::optional<Placeholder> placeholder = ParsePlaceholder(text);
  return placeholder
             ? Result<Placeholder>(*placeholder)
             : MakeError(
                   Code::kInternal, "readlinkat", object,
                   "mountd cannot read the link that says which mount it is");
}

Result<void> RemovePlaceholder(const Context& context, int task,
                               const std::string& name,
                               const std::string& object) {
  const exec::Sys<void> removed = context.kernel.RemoveFile(task, name);
  return exec::FailedWith(removed, ENOENT) ? Ok()
                                           : Named(removed, "unlinkat", object);
}

// Runs `body` in the mount namespace that the mount is in. If the container has
// ended, its mounts are gone, and this function returns an empty state.
Result<MountState> RunWhereItIs(const Context& context,
                                const Placeholder& placeholder,
                                const std::string& object,
                                const InNamespace& body) {
  if (placeholder.mount_namespace == 0) {
    return body(context);
  }
  MOUNTD_ASSIGN(
      const std::optional<Container> container,
      FindContainer(context, placeholder.mount_namespace, placeholder.cgroup));
  return container ? InContainer(context, *container, {}, object, body)
                   : Result<MountState>(MountState{});
}

bool IsOrUnknown(std::uint64_t number, std::uint64_t written) {
  return written == 0 || number == written;
}

// Returns whether the mount is attached to `parent`, or lies on a mount that
// is. Another mount may have come to the target just before it.
bool IsAttachedTo(const Context& context, const MountFacts& mount,
                  std::uint64_t parent) {
  if (IsOrUnknown(mount.parent_id, parent)) {
    return true;
  }
  const Result<MountFacts> between = context.inspector.Facts(mount.parent_id);
  return between && between->parent_id == parent &&
         between->point == mount.point;
}

// Returns the mount's facts if it is still attached.
Result<std::optional<MountFacts>> FactsOf(const Context& context,
                                          const Placeholder& placeholder) {
  Result<MountFacts> facts = context.inspector.Facts(placeholder.mount_id);
  if (!facts && facts.error().code != Code::kNotFound) {
    return facts.error();
  }
  // If another mount has the id by now, the placeholder's mount is gone.
  return facts && IsOrUnknown(facts->device, placeholder.device) &&
                 IsAttachedTo(context, *facts, placeholder.parent)
             ? std::optional(*std::move(facts))
             : std::optional<MountFacts>();
}

Result<MountState> Inspect(const Context& context,
                           const Placeholder& placeholder) {
  MOUNTD_ASSIGN(const std::optional<MountFacts> mount,
                FactsOf(context, placeholder));
  MountState state;
  if (mount) {
    state.is_directory = 1;
    state.mount_id = mount->id;
    state.peer_group = mount->peer_group;
    state.master = mount->master;
    state.device = mount->device;
  }
  return state;
}

}  // namespace

// Unmounts the mount where the kernel says it is now, because somebody may have
// moved a directory above it.
Result<void> UnmountById(const Context& context, const Placeholder& placeholder,
                         exec::UnmountMode mode, const std::string& object) {
  MOUNTD_ASSIGN(const std::optional<MountFacts> mount,
                FactsOf(context, placeholder));
  if (!mount) {
    return Ok();
  }
  const std::size_t slash = mount->point.rfind('/');
  // The point is empty where it is too long for the kernel's answer (kernel.h).
  if (slash == std::string::npos || slash + 1 == mount->point.size()) {
    return MakeError(Code::kBusy, "umount2", object, "mountd cannot reach it");
  }
  // The kernel reports a path without links. A link on it means that somebody
  // has changed the path since, so the open fails with ELOOP.
  MOUNTD_ASSIGN(const UniqueFd parent,
                Named(context.kernel.Open(
                          exec::kFromRoot,
                          slash == 0 ? "/" : mount->point.substr(0, slash),
                          O_PATH | O_DIRECTORY,
                          RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
                      "openat2", object));
  const std::string last = mount->point.substr(slash + 1);
  MOUNTD_ASSIGN(
      const FileFacts top,
      Named(context.kernel.Stat(parent.get(), last), "statx", object));
  if (top.mount_id != mount->id) {
    return MakeError(Code::kBusy, "umount2", object,
                     "another mount covers it; unmount that one first");
  }
  if (!IsOrUnknown(top.inode, placeholder.inode)) {
    return Ok();  // another mount has the id
  }
  return UnmountTop(context, parent.get(), last, mount->id, mode, object);
}

namespace {

// Unmounts the placeholder's mount and removes the link (task, name).
Result<void> DetachAs(const Context& context, const Placeholder& placeholder,
                      int task, const std::string& name, exec::UnmountMode mode,
                      const std::string& object) {
  MOUNTD_TRY(RunWhereItIs(context, placeholder, object,
                          [&](const Context& there) -> Result<MountState> {
                            MOUNTD_TRY(
                                UnmountById(there, placeholder, mode, object));
                            return MountState{};
                          }));
  return RemovePlaceholder(context, task, name, object);
}

// AlreadyExists unless the place is free. Removes the placeholder of a mount
// that is gone.
Result<void> Clear(const Context& context, const Place& place) {
  const int task = place.task.get();
  const exec::Sys<FileFacts> file = context.kernel.Stat(task, place.name);
  if (exec::FailedWith(file, ENOENT)) {
    return Ok();
  }
  if (!file) {
    return ErrnoError(file.error(), "statx", place.object);
  }
  if (S_ISLNK(file->mode)) {
    MOUNTD_ASSIGN(const MountState mount,
                  InspectOutside(context, task, place.name, place.object));
    if (mount.mount_id == 0) {
      return RemovePlaceholder(context, task, place.name, place.object);
    }
  }
  return MakeError(Code::kAlreadyExists, "mount", place.object,
                   "another mount of the task has this name; choose another");
}

}  // namespace

Result<std::shared_ptr<Place>> ClaimPlace(const Context& context,
                                          const UniqueFd& allocation,
                                          const exec::TargetPlan& target,
                                          exec::Undo* undo) {
  auto place = std::make_shared<Place>();
  place->name = Text(target.name);
  place->object = ObjectOf(target);
  MOUNTD_ASSIGN(place->task, EnsureTask(context, allocation, Text(target.task),
                                        place->object, undo));
  MOUNTD_TRY(Clear(context, *place));
  return place;
}

Placeholder PlaceholderOf(const Source& source, const Clone& clone) {
  Placeholder placeholder{.mount_id = clone.file.mount_id};
  if (!clone.file.mount_id_is_unique) {
    // Not the clone's own device, because btrfs has another one in mountinfo
    // than statx(2) returns. A mount that was made for the plan is a tmpfs,
    // which has one device and no Source.mount.
    placeholder.device =
        source.made.valid() ? source.file.device : source.mount.device;
  }
  return placeholder;
}

Result<void> WritePlaceholder(const Context& context,
                              const std::shared_ptr<Place>& place,
                              const Placeholder& placeholder,
                              exec::Undo* undo) {
  // symlinkat(2) makes the name and its text in one step, so a kill leaves no
  // half-written placeholder.
  MOUNTD_TRY(Named(context.kernel.MakeLink(TextOf(placeholder),
                                           place->task.get(), place->name),
                   "symlinkat", place->object));
  // The undo compares no parent, because another mount may have come to the
  // target just before the attach, so that this one lies on it.
  Placeholder attached = placeholder;
  attached.parent = 0;
  undo->Add([&context, place, attached] {
    IgnoreBecauseBestEffort(DetachAs(context, attached, place->task.get(),
                                     place->name, exec::UnmountMode::kDetach,
                                     place->object));
  });
  return Ok();
}

Result<MountState> InspectOutside(const Context& context, int task,
                                  const std::string& name,
                                  const std::string& object) {
  MOUNTD_ASSIGN(const Placeholder placeholder,
                ReadPlaceholder(context, task, name, object));
  MOUNTD_ASSIGN(
      MountState state,
      RunWhereItIs(context, placeholder, object, [&](const Context& there) {
        return Inspect(there, placeholder);
      }));
  state.exists = 1;
  return state;
}

Result<void> DetachOutside(const Context& context, int task,
                           const std::string& name, exec::UnmountMode mode,
                           const std::string& object) {
  MOUNTD_ASSIGN(const Placeholder placeholder,
                ReadPlaceholder(context, task, name, object));
  return DetachAs(context, placeholder, task, name, mode, object);
}

}  // namespace mountd::propagation
