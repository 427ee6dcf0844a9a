// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// Which mount namespace a plan is carried out in.
enum class Side {
  kTree,  // where the base is
  kHost,  // where the executor was started
};

// Where mountd's tree lives: in the host's mount namespace, or, as root's
// configuration has it ([mounts] namespace = "own"), in one of its own, so that
// nobody who is in the host's has to look at what is mounted in it.
//
//   host's ──slave──► own: base, anchors, file systems
//     namespace            pins it
//     base/p/<plugin>      what plugins see of the base: a peer of own's
//
// The first executor makes it: a copy of the host's whose mounts all follow
// those of the host, which is pinned when it is so. The pin is the kernel's
// file of the namespace, on a file in a directory where nobody but root
// renames; it outlives every process. What is bound there must be in nobody's
// peer group, so the file is mounted on itself first. The others enter what is
// pinned.
//
// The configuration is followed where nothing is left of the other way: while
// there is anything in the base, FailedPrecondition.
class Residence {
 public:
  // Finds or makes it, and goes there. Again: only goes there, unless the pin
  // has gone, which is put back, or is another's, which is followed.
  Result<void> Enter(const Context& context, Side side);

  bool is_own() const { return own_.valid(); }
  // The inode of the host's mount namespace; 0 unless is_own().
  std::uint64_t host() const { return is_own() ? host_facts_.inode : 0; }

  // The host's root, for what is only looked at; path resolution stays in the
  // namespace of its fd.
  int host_root() const { return host_root_.get(); }

 private:
  friend class OnHost;
  struct Pin {
    bool is_file = false;
    bool is_mounted = false;  // on itself
    UniqueFd mounts;          // the namespace; invalid: none
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
  UniqueFd host_run_;  // paths::kRunDir there
  UniqueFd own_;
  std::uint64_t own_inode_ = 0;
};

// Whether mountd's tree is in a mount namespace of its own.
bool IsApart(const Context& context);

// As long as it lives, the plan is carried out among the host's mounts.
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

// FailedPrecondition if the host has something else at `path` than `file`: then
// a mount of its own does not reach mountd's tree.
Result<void> CheckAsOnHost(const Context& context, const std::string& path,
                           const exec::FileFacts& file,
                           const std::string& object);

}  // namespace mountd::propagation
