// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <vector>

#include "tests/support/bus_client.h"

namespace mountd::test {

// A call that contains one text of the test's choice.
struct Probe {
  const char* what;
  std::function<Answer(BusClient&, const char*)> call;
  bool may_be_empty = false;
};

// Returns an fd for methods that take one.
int AnyDirectory();

// Returns every method with one option, whose key the test chooses and whose
// value is a text.
const std::vector<Probe>& WithOption();

// Returns every place where a caller chooses a name.
const std::vector<Probe>& WithName();

}  // namespace mountd::test
