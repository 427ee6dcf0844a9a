// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <optional>
#include <thread>

#include "agent/driver/namespaces/id_maps.h"
#include "agent/driver/namespaces/namespaces.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Makes the namespaces of a driver, and keeps spare ones for the next
// allocation, because newuidmap(1) and newgidmap(1) take milliseconds of a
// start. Spare namespaces have neither a process nor a name, so the kernel ends
// them with the driver's process. Any thread.
class HostNamespaces {
 public:
  // Keeps no spare ones unless `keeps_spare`.
  HostNamespaces(Result<IdMaps> maps, bool keeps_spare)
      : maps_(std::move(maps)), keeps_spare_(keeps_spare) {}
  HostNamespaces(const HostNamespaces&) = delete;
  HostNamespaces& operator=(const HostNamespaces&) = delete;
  // Waits for the end of PrepareNext's thread, at most for the patience of
  // MakeNamespaces.
  ~HostNamespaces();

  // Returns a user namespace that no task uses. The driver acts as its root to
  // unpack images and to remove files of subordinate ids.
  Result<int> Shared();
  // Makes a user namespace and closes it, because a machine can lose
  // newuidmap(1) or its permission while a driver runs. Errors of
  // MakeNamespaces.
  Result<void> Check() const;
  // Returns a user namespace and its network namespace, which nobody else has:
  // the spare namespaces, or new namespaces if there are none now. Errors of
  // MakeNamespaces.
  Result<NewNamespaces> Take();
  // Starts a thread that makes the spare namespaces, unless there are some.
  // Returns at once. If the thread fails, its error is dropped, and the next
  // Take makes the namespaces itself.
  void PrepareNext();

 private:
  void MakeSpare();

  const Result<IdMaps> maps_;
  const bool keeps_spare_;
  std::mutex shared_mutex_;
  UniqueFd shared_;
  std::mutex mutex_;  // of all below
  std::optional<NewNamespaces> spare_;
  bool is_making_ = false;
  std::thread maker_;
};

}  // namespace mountd::driver
