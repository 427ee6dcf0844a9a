// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/fault/world.h"

namespace mountd::testing {

// One way to call one method of the API, as it is cut off at each of its steps.
struct Operation {
  std::string name;    // of the test: "BindMountOfATmpfs"
  std::string method;  // of org.mountd1.Manager
  // What has to be there before; it has succeeded when it returns "Ok".
  std::function<std::string(Agent&)> prepare;
  // The call: "Ok", or the error's name. Made again until it succeeds.
  std::function<std::string(Agent&)> call;
  // What there is not, or still is, although the call has succeeded; or "".
  std::function<std::string(Agent&)> missing;
  // What a release does not take.
  std::function<std::string(Agent&)> undo{};
  // Does not wait for what is being done to the same allocation.
  bool looks_on = false;
  // Makes the agent's tree root's meanwhile.
  bool takes_tree = false;
  // Nothing of the allocation's: no overlap has it. Those come last.
  bool is_alone = false;
  // Its executor looks through all processes, in thousands of steps that are
  // the same as UnpublishVolume's: some of them stand for all.
  bool searches = false;
};

const std::vector<Operation>& AllOperations();
// How many of them overlap with others.
std::size_t OverlappingOperations();
// The place there of the one with that name, which there is.
std::size_t IndexOf(const std::string& name);

// Methods that change nothing, and why that is. excused_methods_test shows it
// of those whose reason names no other test ("root/Suite.Test").
struct Uncounted {
  std::string method;
  std::string why;
};
const std::vector<Uncounted>& UncountedMethods();

}  // namespace mountd::testing
