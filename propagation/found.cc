// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/found.h"

#include "mountd/base/paths.h"
#include "mountd/plan/wire.h"
#include "propagation/ground/base.h"
#include "propagation/ground/passage.h"
#include "propagation/target.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::FoundTarget;
using exec::Named;

constexpr std::size_t kMostEntries = std::size_t{1} << 17U;

// Returns the names in the directory. Empty if the directory is gone or is
// none.
std::vector<std::string> NamesIn(const Context& context, int dir,
                                 const std::string& name, UniqueFd* fd) {
  Result<UniqueFd> opened = OpenBeneath(context, dir, name, name);
  if (!opened) {
    return {};
  }
  *fd = *std::move(opened);
  const auto names = context.kernel.List(fd->get(), kMostEntries);
  return names ? *names : std::vector<std::string>();
}

void ListTask(const Context& context, int dir, const std::string& task,
              FoundTarget row, std::vector<FoundTarget>* all) {
  UniqueFd fd;
  row.target.task = exec::ToWire(task);
  for (const std::string& name : NamesIn(context, dir, task, &fd)) {
    const exec::Sys<FileFacts> file = context.kernel.Stat(fd.get(), name);
    if (!file || !file->mount_root) {
      continue;
    }
    const auto state = StateAt(context, fd.get(), name, *file, name);
    if (state) {
      row.target.name = exec::ToWire(name);
      row.state = *state;
      all->push_back(row);
    }
  }
}

}  // namespace

Result<std::vector<FoundTarget>> ListTargets(const Context& context) {
  MOUNTD_ASSIGN(const Base base, OpenBase(context));
  std::vector<FoundTarget> all;
  UniqueFd allocations;
  for (const std::string& allocation :
       NamesIn(context, base.fd.get(), paths::kAllocations, &allocations)) {
    UniqueFd fd;
    const std::vector<std::string> tasks =
        NamesIn(context, allocations.get(), allocation, &fd);
    const exec::Sys<FileFacts> facts =
        context.kernel.Stat(allocations.get(), allocation);
    if (!facts) {
      continue;
    }
    FoundTarget row;
    row.target.allocation = exec::ToWire(allocation);
    const Passage passage = PassageOf(context, fd.get());
    row.uid = passage.uid;
    row.group = passage.group;
    all.push_back(row);
    for (const std::string& task : tasks) {
      ListTask(context, fd.get(), task, row, &all);
    }
  }
  return all;
}

}  // namespace mountd::propagation
