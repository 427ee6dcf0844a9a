// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fakes/injecting_files.h"

namespace mountd::exec {

// Passes on the calls about mounts.
class InjectingMounts : public InjectingFiles {
 public:
  Sys<UniqueFd> OpenFilesystem(const char* type) override {
    return Pass<UniqueFd>("OpenFilesystem",
                          [&] { return kernel_.OpenFilesystem(type); });
  }
  Sys<void> ConfigureFilesystem(int fs, const char* key,
                                const char* value) override {
    return Pass<void>("ConfigureFilesystem", [&] {
      return kernel_.ConfigureFilesystem(fs, key, value);
    });
  }
  Sys<void> CreateFilesystem(int fs) override {
    return Pass<void>("CreateFilesystem",
                      [&] { return kernel_.CreateFilesystem(fs); });
  }
  Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) override {
    return Pass<UniqueFd>("MountFilesystem", [&] {
      return kernel_.MountFilesystem(fs, attributes);
    });
  }
  Sys<UniqueFd> CloneTree(int fd, bool recursive) override {
    return Pass<UniqueFd>("CloneTree",
                          [&] { return kernel_.CloneTree(fd, recursive); });
  }
  Sys<UniqueFd> LockTree(int tree, std::chrono::milliseconds limit) override {
    return Pass<UniqueFd>("LockTree",
                          [&] { return kernel_.LockTree(tree, limit); });
  }
  Sys<void> SetMount(int tree, bool recursive,
                     const MountChange& change) override {
    return Pass<void>(
        "SetMount", [&] { return kernel_.SetMount(tree, recursive, change); });
  }
  Sys<void> AttachTree(int tree, int target) override {
    return Pass<void>("AttachTree",
                      [&] { return kernel_.AttachTree(tree, target); });
  }
  Sys<void> AttachBeneath(int tree, int target) override {
    return Pass<void>("AttachBeneath",
                      [&] { return kernel_.AttachBeneath(tree, target); });
  }
  Sys<void> JoinGroup(int from, int fd) override {
    return Pass<void>("JoinGroup", [&] { return kernel_.JoinGroup(from, fd); });
  }
  Sys<void> Unmount(int parent, const std::string& name, int flags) override {
    return Pass<void>("Unmount",
                      [&] { return kernel_.Unmount(parent, name, flags); });
  }
  bool CanMountBeneath() override {
    return !hide_mount_beneath_ && kernel_.CanMountBeneath();
  }
  Sys<MountFacts> MountById(std::uint64_t id) override {
    return Pass<MountFacts>("MountById", [&] {
      return hide_unique_ids_ ? Sys<MountFacts>(ENOSYS) : kernel_.MountById(id);
    });
  }
  Sys<std::vector<std::uint64_t>> MountsBelow(std::uint64_t id,
                                              std::uint64_t after) override {
    listings_ += after == 0 ? 1 : 0;
    return Pass<std::vector<std::uint64_t>>(
        "MountsBelow", [&] { return kernel_.MountsBelow(id, after); });
  }
  Sys<std::uint64_t> MountNamespaceOf(int process) override {
    return Pass<std::uint64_t>("MountNamespaceOf", [&] {
      return hide_namespaces_ ? Sys<std::uint64_t>(ENOTTY)
                              : kernel_.MountNamespaceOf(process);
    });
  }
  Sys<std::vector<MountNamespaceName>> MountNamespaces() override {
    return Pass<std::vector<MountNamespaceName>>("MountNamespaces", [&] {
      if (hide_namespaces_) {
        return Sys<std::vector<MountNamespaceName>>(ENOTTY);
      }
      auto names = kernel_.MountNamespaces();
      if (names && lists_without_it_ > 0) {
        --lists_without_it_;
        std::erase_if(*names, [this](const MountNamespaceName& name) {
          return name.id == unlisted_;
        });
      }
      return names;
    });
  }
  // Leaves the mount namespace out of the next lists, as if it was not yet
  // there when the kernel's list had come to its number.
  void LeaveOut(std::uint64_t mount_namespace, int lists) {
    unlisted_ = mount_namespace;
    lists_without_it_ = lists;
  }
  Sys<std::vector<MountFacts>> MountsOfNamespace(std::uint64_t id) override {
    auto mounts = Pass<std::vector<MountFacts>>(
        "MountsOfNamespace", [&] { return kernel_.MountsOfNamespace(id); });
    if (after_listing_ && id == listed_namespace_) {
      std::exchange(after_listing_, nullptr)();
    }
    return mounts;
  }
  // Returns how often MountsBelow was called for old mounts, too.
  int listings() const { return listings_; }
  // Calls `hook` once, after the mounts of this mount namespace were listed.
  void AfterListing(std::uint64_t mount_namespace, std::function<void()> hook) {
    listed_namespace_ = mount_namespace;
    after_listing_ = std::move(hook);
  }

  Sys<void> NewMountNamespace() override {
    return Pass<void>("NewMountNamespace",
                      [&] { return kernel_.NewMountNamespace(); });
  }
  Sys<void> EnterMountNamespace(int mount_namespace) override {
    return Pass<void>("EnterMountNamespace", [&] {
      return kernel_.EnterMountNamespace(mount_namespace);
    });
  }

  Sys<UniqueFd> WatchMounts(int mount_namespace) override {
    return Pass<UniqueFd>("WatchMounts", [&]() -> Sys<UniqueFd> {
      if (hide_mount_events_) {
        return EINVAL;
      }
      return kernel_.WatchMounts(mount_namespace);
    });
  }
  Sys<ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) override {
    return Pass<ProbeOutcome>("ProbeFilesystem", [&] {
      return kernel_.ProbeFilesystem(fd, deadline);
    });
  }

 protected:
  using InjectingFiles::InjectingFiles;

 private:
  int listings_ = 0;
  std::uint64_t listed_namespace_ = 0;
  std::function<void()> after_listing_;
  std::uint64_t unlisted_ = 0;
  int lists_without_it_ = 0;
};

}  // namespace mountd::exec
