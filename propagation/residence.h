// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/context.h"

namespace mountd::propagation {

// The mount namespace that a plan is carried out in.
enum class Side {
  kTree,  // where the base is
  kHost,  // where the executor was started
};

// Owns the executor's way to mountd's tree. The tree lives in the host's mount
// namespace, or, with [mounts] namespace = "own" in root's configuration, in a
// mount namespace of its own, so that no process in the host's namespace has to
// look at mountd's mounts.
//
//   host's ──slave──► own: base, anchors, file systems
//     namespace            pins it
//     base/p/<plugin>      what plugins see of the base: a peer of own's
//
// The first executor makes the namespace: a copy of the host's in which every
// mount follows the host's. It then pins the namespace: it mounts the kernel's
// file of the namespace on a file in a directory where only root renames. The
// pin outlives every process. The mount that holds the pin must be in no peer
// group, so the executor mounts that file on itself, as private, first. Other
// executors enter the pinned namespace.
//
// FailedPrecondition if the configuration asks for the other of the two
// namespaces while the base is in use.
class Residence {
 public:
  // Finds or makes the namespace and enters it. A later call only enters it,
  // unless the pin is gone or another namespace is pinned: the call then
  // restores the pin or follows the other one.
  Result<void> Enter(const Context& context, Side side);

  bool is_own() const { return own_.valid(); }
  // Returns the inode of the host's mount namespace; 0 unless is_own().
  std::uint64_t host() const { return is_own() ? host_facts_.inode : 0; }

  // Returns the host's root, for looking at files only. A path is resolved in
  // the namespace that its descriptor belongs to.
  int host_root() const { return host_root_.get(); }

 private:
  friend class OnHost;
  struct Pin {
    bool is_file = false;
    bool is_mounted = false;  // the file is mounted on itself
    UniqueFd mounts;          // the namespace; invalid: none is pinned
    std::uint64_t inode = 0;
  };

  Result<void> Go(const Context& context, Side side);
  Result<bool> IsStillPinned(const Context& context);
  Result<void> Settle(const Context& context);
  Result<void> SettleHere(const Context& context);
  Result<void> SettleApart(const Context& context);
  Result<void> OpenHost(const Context& context);
  Result<Pin> FindPin(const Context& context, int run) const;
  Result<void> MakeOwn(const Context& context);
  Result<void> PutPin(const Context& context, int run, Pin pin,
                      exec::Undo* undo);
  Result<void> RemoveOwn(const Context& context, int run, Pin pin);

  Side now_ = Side::kHost;
  bool settled_ = false;
  UniqueFd host_;
  exec::FileFacts host_facts_;
  UniqueFd host_root_;
  UniqueFd host_run_;  // paths::kRunDir on the host
  UniqueFd own_;
  std::uint64_t own_inode_ = 0;
};

// Returns whether mountd's tree is in a mount namespace of its own.
bool IsApart(const Context& context);

// While this object lives, the executor is in the host's mount namespace.
// Enters the tree's again when destroyed.
class OnHost {
 public:
  static Result<OnHost> Go(const Context& context);
  ~OnHost();
  OnHost(OnHost&& other) noexcept;
  OnHost& operator=(OnHost&&) = delete;
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;

 private:
  explicit OnHost(const Context& context) : context_(&context) {}
  const Context* context_;
};

// FailedPrecondition if the host has another file than `file` at `path`,
// because a mount of the host's then does not reach mountd's tree.
Result<void> CheckAsOnHost(const Context& context, const std::string& path,
                           const exec::FileFacts& file,
                           const std::string& object);

}  // namespace mountd::propagation
