// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "tests/support/fakes/cni_world.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/program.h"

namespace mountd::cni {

// Has the runner's executable in a CniWorld, and a pinned namespace "web".
class RunnerTest : public mountd::testing::PrivateNamespaces,
                   protected CniWorld {
 protected:
  void SetUp() override;

  static std::string PinNamespace(const std::string& name);

  static Json RequestFor(const std::string& container);

  // Returns the runner's answer; null, and a failed test, if there is none.
  static Json Run(const std::string& verb, const Json& request,
                  const std::vector<std::string>& more = {});
  static std::vector<std::string> Command(
      const std::string& verb, const Json& request,
      const std::vector<std::string>& more = {});

  static bool HasRecord(const std::string& container);
  static Json RecordOf(const std::string& container);
};

// Returns the only child.
int ChildOf(int parent);
// Returns the only child of this test, which the shell has become.
int RunnerPid();

}  // namespace mountd::cni
