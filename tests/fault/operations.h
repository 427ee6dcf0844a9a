// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/fault/world.h"

namespace mountd::testing {

// One way to call one method of the API, to be interrupted at each of its
// steps.
struct Operation {
  std::string name;    // the test's: "BindMountOfATmpfs"
  std::string method;  // of org.mountd1.Manager
  // Makes the objects that the call needs. Returns "Ok" if it has succeeded.
  std::function<std::string(Agent&)> prepare;
  // Makes the call. Returns "Ok", or the error's name. Repeated until it
  // succeeds.
  std::function<std::string(Agent&)> call;
  // Returns what is missing, or still there, although the call has succeeded;
  // or "".
  std::function<std::string(Agent&)> missing;
  // Undoes what a release leaves.
  std::function<std::string(Agent&)> undo{};
  // The operation does not wait for other calls on the same allocation.
  bool looks_on = false;
  // The operation gives the agent's tree to root while it runs.
  bool takes_tree = false;
  // The operation concerns no allocation, so no overlap contains it. These
  // operations come last.
  bool is_alone = false;
  // The executor looks through all processes, in thousands of steps that are
  // the same as UnpublishVolume's, so some of these steps stand for all.
  bool searches = false;
};

const std::vector<Operation>& AllOperations();
// Returns how many operations overlap with others.
std::size_t OverlappingOperations();
// Returns the index of the operation with that name, which must exist.
std::size_t IndexOf(const std::string& name);

// Methods that make no steps, with the reason. excused_methods_test shows this
// for each method whose reason names no other test ("root/Suite.Test").
struct Uncounted {
  std::string method;
  std::string why;
};
const std::vector<Uncounted>& UncountedMethods();

}  // namespace mountd::testing
