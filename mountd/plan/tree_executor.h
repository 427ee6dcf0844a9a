// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/plan/tree_plans.h"

namespace mountd::exec {

// The plans on trees of files. Errors and threads as executor.h says.
class TreeExecutor {
 public:
  virtual ~TreeExecutor() = default;

  // Each call does a part of the work on the tree below `directory`, which is
  // an fd of the directory that a caller passed. A repeated RemoveTree
  // continues with the rest. ChownTree continues at the position from the last
  // answer. Busy if a mount lies in the tree.
  virtual Result<TreeReply> RemoveTree(const TreePlan& plan, int directory) = 0;
  virtual Result<TreeReply> ChownTree(const TreePlan& plan, int directory) = 0;
};

}  // namespace mountd::exec
