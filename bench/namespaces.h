// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

// A network namespace that only these descriptors keep.
struct Namespace {
  UniqueFd fd;
  UniqueFd route;  // a route socket of the namespace
};

// Makes a namespace with lo up.
Result<Namespace> MakeNamespace();
// Makes a namespace with lo up that neither asks for an address, nor announces
// one, nor checks for duplicates. A pool of namespaces can make such a
// namespace ahead.
Result<Namespace> MakeQuietNamespace();

// While this lives, the calling thread, and all that it starts, is in the
// namespace.
class Inside {
 public:
  static Result<Inside> Enter(const Namespace& target);
  ~Inside();
  Inside(Inside&&) = default;

 private:
  explicit Inside(UniqueFd before) : before_(std::move(before)) {}
  UniqueFd before_;
};

// Makes and pins a namespace as Nomad's client does: a thread unshares, and
// pins the namespace on a file below /var/run/netns.
class NomadNamespace {
 public:
  explicit NomadNamespace(const std::string& name);
  const std::string& path() const { return path_; }
  Result<void> Make();
  Result<void> Remove();

 private:
  const std::string path_;
};

// Measures only that namespace.
std::unique_ptr<NetworkWay> NomadNamespaceAlone();

}  // namespace mountd::bench
