// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace mountd::testing {

// The user of the tests of drivers, and the first of its subordinate ids.
inline constexpr uid_t kDriverUser = 65534;  // nobody
inline constexpr uid_t kFirstSubordinate = 200000;
inline constexpr uid_t kSubordinates = 65536;

// The files of subordinate ids, and a step of the machine's root that comes
// before the user's code.
struct AsUserSetup {
  std::string subuid = "nobody:200000:65536\n";
  std::string subgid = "nobody:200000:65536\n";
  std::function<void()> as_root = [] {};
};

// Runs `body` in a child in mount and pid namespaces of its own, as a user
// without privilege who has subordinate ids. Returns the text that `body`
// returns, or what went wrong.
std::string RunAsUser(const std::function<std::string()>& body,
                      const AsUserSetup& setup = {});

// Returns why RunAsUser cannot work here, or "".
std::string WhyNotAsUser();

}  // namespace mountd::testing
