// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "propagation/base.h"

namespace mountd::propagation {

// What is to be attached: a directory or file, and the mount it lies in.
struct Source {
  UniqueFd parent;   // of a host volume
  UniqueFd markers;  // of all anchors
  UniqueFd lock;     // of a host volume's anchor, held until the plan ends
  UniqueFd fd;       // O_PATH
  UniqueFd made;     // instead of it: the root of what was made for this plan
  exec::FileFacts file;
  MountFacts mount;
  std::uint64_t anchor_id = 0;
  bool read_only = false;  // whatever the plan asks for
};

// Opens the plan's source. The steps that undo what was mounted for it refer to
// `source`, which must outlive `undo`. PermissionDenied if the config does not
// allow the plan's mode for a host volume; NotFound, InvalidArgument or
// FailedPrecondition if the source is not there or is no usable one.
Result<void> OpenSource(const Context& context, const Base& base,
                        const exec::AttachPlan& plan, Source* source,
                        exec::Undo* undo);

// FailedPrecondition unless a clone of `source` can really have the
// propagation: the kernel itself makes a clone of a private mount private,
// without an error.
Result<void> CheckSourcePropagation(const Source& source,
                                    exec::Propagation asked,
                                    const std::string& object);

// False for the base and what holds it, /proc, /sys and /dev: nothing of the
// host that root's configuration may name.
bool IsHostPathAllowed(std::string_view path);

// Opens the parent directory of a host volume's `path`, and its last component
// for the caller. Refuses "/" and what IsHostPathAllowed does.
struct HostPath {
  UniqueFd parent;
  std::string name;
};
Result<HostPath> OpenHostPath(const Context& context, const std::string& path,
                              const std::string& object);

}  // namespace mountd::propagation
