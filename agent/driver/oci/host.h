// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/driver/cgroups/cgroup_subtree.h"
#include "agent/driver/images/image_store.h"
#include "agent/driver/namespaces/id_maps.h"
#include "agent/driver/oci/host_namespaces.h"
#include "agent/driver/oci/oci_driver.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Owns what all tasks of a driver share: the directories of the state, the
// subtree of cgroups, the images, the maps of ids, and the connection to
// mountd. Any thread. The state:
//
//   tasks/<key>/    one task: task.json, the shim's files, bundle, upper, work
//   removed/<key>/  a task that is being removed
//   runtime/        the runtime's own state
//   images/         image_store.h
//   lock            one byte for each task (key_lock.h)
class Host {
 public:
  static Result<std::unique_ptr<Host>> Open(OciDriverOptions options);

  const OciDriverOptions& options() const { return options_; }
  const std::string& state() const { return options_.state; }
  int tasks() const { return tasks_.get(); }
  int removed() const { return removed_.get(); }
  const ImageStore& images() const { return *images_; }
  std::string RuntimeRoot() const { return state() + "/runtime"; }

  // The error says why this user has no maps.
  const Result<IdMaps>& maps() const { return maps_; }
  // Null without a delegated subtree; `no_cgroups` then says why.
  const CgroupSubtree* cgroups() const {
    return cgroups_ ? &*cgroups_ : nullptr;
  }
  const std::string& no_cgroups() const { return no_cgroups_; }

  HostNamespaces& namespaces() { return *namespaces_; }

  // Returns an fd that can be read after Shutdown.
  int shutdown() const { return shutdown_.get(); }
  void Shutdown() const;

  bool has_mountd() const { return options_.client != nullptr; }
  // Calls mountd. One thread at a time has the client. The caller checks
  // has_mountd() before.
  template <typename Call>
  auto Ask(Call call) {
    const std::lock_guard lock(client_mutex_);
    return call(*options_.client);
  }

  // True for crun, which leaves the container in the cgroup where it starts.
  // Another runtime makes a cgroup of its own unless config.json names one.
  Result<bool> IsCrun();
  // Returns the path of a task's cgroup. "" without a delegated subtree.
  std::string CgroupPath(const std::string& name) const;
  // Returns this path as config.json has it: relative to the mount of cgroups.
  std::string CgroupsPath(const std::string& name) const;
  // Returns the program of the runtime and its global options.
  Result<std::vector<std::string>> Runtime();
  // Returns the first line of `--version`, such as "crun version 1.8.1". kAgain
  // is for a caller that must notice an upgrade or a removal of the runtime.
  enum class Look { kOnce, kAgain };
  Result<std::string> RuntimeVersion(Look look = Look::kOnce);

 private:
  explicit Host(OciDriverOptions options) : options_(std::move(options)) {}
  Result<void> OpenState();
  void OpenCgroups();

  OciDriverOptions options_;
  UniqueFd shutdown_;
  UniqueFd state_;
  UniqueFd tasks_;
  UniqueFd removed_;
  std::optional<ImageStore> images_;
  Result<IdMaps> maps_ = IdMaps();
  std::unique_ptr<HostNamespaces> namespaces_;
  std::optional<CgroupSubtree> cgroups_;
  std::string no_cgroups_;
  std::mutex client_mutex_;
  std::mutex mutex_;  // of version_
  std::optional<std::string> version_;
};

}  // namespace mountd::driver
