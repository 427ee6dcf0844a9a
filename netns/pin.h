// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/exec/kernel.h"

// Named network namespaces, as ip-netns(8) has them: a file in /run/netns with
// the namespace's own nsfs file bound onto it.
namespace mountd::netns {

// Makes /run/netns, and a shared mount of it if it is none, so that names made
// later are seen in mount namespaces that were copied before. Idempotent.
Result<void> PrepareNetnsDirectory(exec::Kernel& kernel);

// O_PATH; must belong to root.
Result<UniqueFd> OpenNetnsDirectory(exec::Kernel& kernel);

struct Pin {
  bool exists = false;      // a file, bound onto or not
  std::uint64_t inode = 0;  // the namespace; 0 if nothing is bound onto it
};
// FailedPrecondition if something else than a namespace is mounted there.
Result<Pin> FindPin(exec::Kernel& kernel, int directory,
                    const std::string& name);

// A file without a namespace at the name is an interrupted plan's and is taken.
// `directory` must outlive `undo`.
Result<void> MakePin(exec::Kernel& kernel, int directory,
                     const std::string& name, int netns, exec::Undo* undo);

Result<void> RemovePin(exec::Kernel& kernel, int directory,
                       const std::string& name, const Pin& pin);

}  // namespace mountd::netns
