// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/network_way.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::bench {

// A network namespace that nothing but these holds.
struct Namespace {
  UniqueFd fd;
  UniqueFd route;  // a route socket that lives in it
};

// With lo up.
Result<Namespace> MakeNamespace();
// The same, and in it no address is looked for, announced or checked for being
// somebody else's: what a pool of namespaces can do ahead.
Result<Namespace> MakeQuietNamespace();

// The calling thread, and what it starts, is in a namespace while this lives.
class Inside {
 public:
  static Result<Inside> Enter(const Namespace& target);
  ~Inside();
  Inside(Inside&&) = default;

 private:
  explicit Inside(UniqueFd before) : before_(std::move(before)) {}
  UniqueFd before_;
};

// A namespace that is made and pinned as Nomad's client does: by a thread that
// unshares, on a file below /var/run/netns.
class NomadNamespace {
 public:
  explicit NomadNamespace(const std::string& name);
  const std::string& path() const { return path_; }
  Result<void> Make();
  Result<void> Remove();

 private:
  const std::string path_;
};

// Only that.
std::unique_ptr<NetworkWay> NomadNamespaceAlone();

}  // namespace mountd::bench
