// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <vector>

#include "tests/support/bus_client.h"

namespace mountd::test {

// A call with one text of the test's choice in it.
struct Probe {
  const char* what;
  std::function<Answer(BusClient&, const char*)> call;
  bool may_be_empty = false;
};

// An fd for methods that take one.
int AnyDirectory();

// Every method, with one option: the key is the test's, its value a text.
const std::vector<Probe>& WithOption();

// Every place where a caller chooses a name.
const std::vector<Probe>& WithName();

}  // namespace mountd::test
