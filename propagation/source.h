// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>

#include "propagation/ground/base.h"

namespace mountd::propagation {

// The directory or file to attach, and the mount it lies in.
struct Source {
  UniqueFd parent;   // of a host volume
  UniqueFd markers;  // of all anchors
  UniqueFd lock;     // of a host volume's anchor, held until the plan ends
  UniqueFd fd;       // O_PATH
  UniqueFd made;     // used instead of fd: root of a mount made for this plan
  exec::FileFacts file;
  MountFacts mount;
  std::uint64_t anchor_id = 0;
  bool read_only = false;  // set even if the plan does not ask for it
  // The caller, if the source is a directory of its own. The clone then has no
  // mounts below it.
  std::optional<exec::CallerPlan> owner{};
};

// Opens the plan's source, unless it is a caller's directory
// (directory_source.h). `undo` refers to `source`, which must outlive
// `undo`. PermissionDenied if the config does not allow the plan's mode for a
// host volume. NotFound, InvalidArgument or FailedPrecondition if the source is
// missing or cannot be used.
Result<void> OpenSource(const Context& context, const Base& base,
                        const exec::AttachPlan& plan, Source* source,
                        exec::Undo* undo);

// Returns the path of the source, which need not be the root of its mount.
Result<std::string> PathOfSource(const Context& context, const Source& source,
                                 const std::string& object);

// FailedPrecondition unless a clone of `source` can have the propagation that
// the plan asks for. This check is needed because the kernel makes a clone of a
// private mount private and reports no error.
Result<void> CheckSourcePropagation(const Source& source,
                                    exec::Propagation asked,
                                    const std::string& object);

}  // namespace mountd::propagation
