// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/residence.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "mountd/base/paths.h"
#include "propagation/ground/base.h"
#include "propagation/ground/process.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::MountState;
using exec::Named;
using exec::Undo;

constexpr char kObject[] = "mountd's mount namespace";
constexpr char kPin[] = "namespace";  // paths::kNamespace
constexpr char kBaseName[] = "base";
constexpr char kSelf[] = "/proc/self/ns/mnt";
constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

Error Refused(std::string why) {
  return MakeError(Code::kFailedPrecondition, "enter", kObject, std::move(why));
}

// Returns whether the base is in use: one of its directories has an entry, or
// something is mounted on it.
Result<bool> IsUsed(const Context& context, int base) {
  for (const char* part :
       {paths::kAllocations, paths::kPlugins, paths::kAnchors,
        paths::kFilesystems, paths::kNetworks, paths::kNetworkFiles}) {
    const exec::Sys<UniqueFd> dir =
        context.kernel.Open(base, part, O_RDONLY | O_DIRECTORY,
                            RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (exec::FailedWith(dir, ENOENT)) {
      continue;  // an interrupted PrepareBase did not get to it
    }
    if (!dir) {
      return ErrnoError(dir.error(), "openat2", kObject);
    }
    MOUNTD_ASSIGN(
        const std::vector<std::string> names,
        Named(context.kernel.List(dir->get(), 1), "getdents64", kObject));
    if (!names.empty()) {
      return true;
    }
  }
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(context.kernel.Stat(base, ""), "statx", kObject));
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                context.inspector.Children(facts.mount_id));
  return !mounts.empty();
}

// FailedPrecondition if the base of this process's mount namespace is in use. A
// missing base is success.
Result<void> CheckBaseUnused(const Context& context, const char* where) {
  MOUNTD_ASSIGN(const UniqueFd run, OpenRunDirectory(context));
  MOUNTD_ASSIGN(const MountState state,
                StateOf(context, run.get(), kBaseName, kObject));
  if (state.mount_id == 0) {
    return Ok();
  }
  MOUNTD_ASSIGN(const UniqueFd base,
                OpenBeneath(context, run.get(), kBaseName, kObject));
  MOUNTD_ASSIGN(const bool used, IsUsed(context, base.get()));
  return used ? Result<void>(Refused(
                    std::string("mounts.namespace cannot change while mounts "
                                "exist in ") +
                    where + "; release the allocations or change it back"))
              : Ok();
}

// FailedPrecondition unless the host's / is shared, because otherwise mountd's
// namespace sees no mount that the host makes or removes later.
Result<void> CheckHostIsShared(const Context& context) {
  MOUNTD_ASSIGN(const FileOnMount root,
                LookAt(context, exec::kFromRoot, "/", kObject));
  return root.mount.peer_group != 0
             ? Ok()
             : Result<void>(Refused(
                   "the host's / is not shared, so later mounts of the host "
                   "would not appear there; run mount --make-rshared /"));
}

// Runs in the new namespace. Detaches each mount that lies on a private mount,
// because the host's unmount would not reach that mount here, and the mount
// would keep its file system in use.
Result<void> LetGo(const Context& context) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const Process self,
                OpenProcess(context, static_cast<std::uint32_t>(::getpid())));
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts, MountsOf(context, self));
  std::map<std::uint64_t, std::uint64_t> masters;
  for (const MountFacts& mount : mounts) {
    masters[mount.id] = mount.master;
  }
  // Backwards, so that a mount goes before the mount that it lies on.
  for (auto mount = mounts.rbegin(); mount != mounts.rend(); ++mount) {
    const auto parent = masters.find(mount->parent_id);
    const std::size_t slash = mount->point.rfind('/');
    // A mount on a parent with a master goes when the host unmounts it, so
    // leave it.
    if (parent == masters.end() || parent->second != 0 ||
        slash == std::string::npos || slash + 1 == mount->point.size()) {
      continue;
    }
    const exec::Sys<UniqueFd> above = kernel.Open(
        exec::kFromRoot, slash == 0 ? "/" : mount->point.substr(0, slash),
        O_PATH | O_DIRECTORY, kNoLinks);
    if (above) {
      IgnoreBecauseBestEffort(kernel.Unmount(
          above->get(), mount->point.substr(slash + 1), MNT_DETACH));
    }
  }
  return Ok();
}

// Runs in the new namespace, before anybody can find it.
Result<void> FollowHost(const Context& context) {
  MOUNTD_ASSIGN(const UniqueFd root,
                Named(context.kernel.Open(exec::kFromRoot, "/",
                                          O_PATH | O_DIRECTORY, kNoLinks),
                      "openat2", kObject));
  // MS_SLAVE, so that the host's later mounts come here and none goes back
  // (mount_namespaces(7)).
  MOUNTD_TRY(Named(
      context.kernel.SetMount(root.get(), true, {.propagation = MS_SLAVE}),
      "mount_setattr", kObject));
  return LetGo(context);
}

// Makes the file that the pin is mounted on, and mounts the file on itself as
// private.
Result<void> PutFile(const Context& context, int run, bool is_mounted,
                     Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  const exec::Sys<void> made = kernel.MakeFile(run, kPin, 0444);
  if (!made && made.error() != EEXIST) {
    return ErrnoError(made.error(), "openat", kObject);
  }
  undo->Add([&kernel, run] {
    IgnoreBecauseBestEffort(kernel.RemoveFile(run, kPin));
  });
  MOUNTD_ASSIGN(UniqueFd point, OpenBeneath(context, run, kPin, kObject));
  if (!is_mounted) {
    MOUNTD_ASSIGN(UniqueFd tree, Named(kernel.CloneTree(point.get(), false),
                                       "open_tree", kObject));
    MOUNTD_TRY(Named(kernel.AttachTree(tree.get(), point.get()), "move_mount",
                     kObject));
    point = std::move(tree);
  }
  undo->Add([&kernel, run] {
    IgnoreBecauseBestEffort(kernel.Unmount(run, kPin, MNT_DETACH));
  });
  // Make it private after attaching, because attaching below a shared mount
  // shares it.
  return Named(kernel.SetMount(point.get(), false, {.propagation = MS_PRIVATE}),
               "mount_setattr", kObject);
}

}  // namespace

Result<void> Residence::Enter(const Context& context, Side side) {
  if (settled_ && is_own()) {
    MOUNTD_ASSIGN(settled_, IsStillPinned(context));
  }
  if (!settled_) {
    MOUNTD_TRY(Settle(context));
  }
  return Go(context, side);
}

Result<void> Residence::Go(const Context& context, Side side) {
  if (!is_own()) {
    side = Side::kHost;
  }
  if (side == now_) {
    return Ok();
  }
  MOUNTD_TRY(Named(context.kernel.EnterMountNamespace(
                       side == Side::kTree ? own_.get() : host_.get()),
                   "setns", kObject));
  now_ = side;
  return Ok();
}

// Returns whether the pin is in place. A name below a descriptor of the host's
// is looked up in the host's namespace, wherever this process is.
Result<bool> Residence::IsStillPinned(const Context& context) {
  const exec::Sys<FileFacts> file = context.kernel.Stat(host_run_.get(), kPin);
  if (!file && file.error() != ENOENT) {
    return ErrnoError(file.error(), "statx", kObject);
  }
  return file && file->device == host_facts_.device &&
         file->inode == own_inode_;
}

Result<void> Residence::OpenHost(const Context& context) {
  if (host_.valid()) {
    return Ok();
  }
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(host_root_, Named(kernel.Open(exec::kFromRoot, "/",
                                              O_PATH | O_DIRECTORY, kNoLinks),
                                  "openat2", "/"));
  MOUNTD_ASSIGN(host_run_, OpenRunDirectory(context));
  // O_RDONLY, because setns(2) refuses an O_PATH descriptor. No RESOLVE_ flag,
  // because kSelf is a magic link.
  MOUNTD_ASSIGN(UniqueFd mounts,
                Named(kernel.Open(exec::kFromRoot, kSelf, O_RDONLY, 0),
                      "openat2", kSelf));
  MOUNTD_ASSIGN(host_facts_,
                Named(kernel.Stat(mounts.get(), ""), "statx", kSelf));
  host_ = std::move(mounts);
  return Ok();
}

Result<void> Residence::Settle(const Context& context) {
  if (!context.config.mounts.own_namespace) {
    const exec::Sys<FileFacts> pin =
        context.kernel.Stat(exec::kFromRoot, paths::kNamespace);
    // No pin. PrepareBase reports a fault of the pin's own directory.
    if (!pin && (pin.error() == ENOENT || pin.error() == ENOTDIR)) {
      settled_ = true;
      return Ok();
    }
    if (!pin) {
      return ErrnoError(pin.error(), "statx", kObject);
    }
  }
  MOUNTD_TRY(OpenHost(context));
  MOUNTD_TRY(Go(context, Side::kHost));
  MOUNTD_TRY(context.config.mounts.own_namespace ? SettleApart(context)
                                                 : SettleHere(context));
  settled_ = true;
  return Ok();
}

Result<Residence::Pin> Residence::FindPin(const Context& context,
                                          int run) const {
  exec::Kernel& kernel = context.kernel;
  Pin pin;
  const exec::Sys<FileFacts> file = kernel.Stat(run, kPin);
  if (exec::FailedWith(file, ENOENT)) {
    return pin;
  }
  if (!file) {
    return ErrnoError(file.error(), "statx", kObject);
  }
  MOUNTD_ASSIGN(const FileFacts above,
                Named(kernel.Stat(run, ""), "statx", kObject));
  pin.is_file = true;
  pin.is_mounted = file->mount_root;
  if (file->device == above.device && S_ISREG(file->mode)) {
    return pin;
  }
  // All namespaces' files have one device (nsfs), so a file of another device
  // is not the pin.
  if (file->device != host_facts_.device) {
    return Refused(std::string("another file is at ") + paths::kNamespace);
  }
  MOUNTD_ASSIGN(pin.mounts, Named(kernel.Open(run, kPin, O_RDONLY, kNoLinks),
                                  "openat2", kObject));
  pin.inode = file->inode;
  // Namespaces of all kinds have files of this device, so ask for the kind.
  MOUNTD_ASSIGN(
      const std::uint64_t type,
      Named(kernel.NamespaceTypeOf(pin.mounts.get()), "ioctl", kObject));
  MOUNTD_ASSIGN(const std::uint64_t owner,
                Named(kernel.OwnerOf(pin.mounts.get()), "ioctl", kObject));
  MOUNTD_ASSIGN(const std::uint64_t users,
                NamespaceAt(context, exec::kFromRoot, "/proc/self/ns/user"));
  // Another user namespace's owner could change the mounts in it.
  if (type != CLONE_NEWNS || owner != users || pin.inode == host_facts_.inode) {
    return Refused(
        "the pinned namespace is not mountd's, or an executor started in it");
  }
  return pin;
}

// Settles in the host's mount namespace.
Result<void> Residence::SettleHere(const Context& context) {
  MOUNTD_ASSIGN(const UniqueFd run, OpenRunDirectory(context));
  MOUNTD_TRY(exec::Locked(context.kernel, run.get(), kObject));
  MOUNTD_ASSIGN(Pin pin, FindPin(context, run.get()));
  return RemoveOwn(context, run.get(), std::move(pin));
}

Result<void> Residence::RemoveOwn(const Context& context, int run, Pin pin) {
  exec::Kernel& kernel = context.kernel;
  if (pin.mounts.valid()) {
    own_ = std::move(pin.mounts);
    const Result<void> there = Go(context, Side::kTree);
    const Result<void> unused =
        there ? CheckBaseUnused(context, "mountd's own mount namespace")
              : there;
    // Go back to the host in any case, also if the check failed.
    MOUNTD_TRY(Go(context, Side::kHost));
    own_.reset();
    MOUNTD_TRY(unused);
    // MNT_DETACH, because another executor may have the pin open (FindPin), and
    // an open file makes a plain unmount fail with EBUSY.
    MOUNTD_TRY(
        Named(kernel.Unmount(run, kPin, MNT_DETACH), "umount2", kObject));
  }
  // Beneath the pin lies the mount of the file on itself.
  if (pin.is_mounted) {
    MOUNTD_TRY(
        Named(kernel.Unmount(run, kPin, MNT_DETACH), "umount2", kObject));
  }
  return pin.is_file ? Named(kernel.RemoveFile(run, kPin), "unlinkat", kObject)
                     : Ok();
}

// Settles in a mount namespace of mountd's own.
Result<void> Residence::SettleApart(const Context& context) {
  MOUNTD_ASSIGN(UniqueFd run, OpenRunDirectory(context));
  // An executor that starts at the same time waits here and then finds the pin,
  // so there is only one namespace.
  MOUNTD_TRY(exec::Locked(context.kernel, run.get(), kObject));
  MOUNTD_ASSIGN(Pin pin, FindPin(context, run.get()));
  if (pin.mounts.valid()) {
    own_ = std::move(pin.mounts);
    own_inode_ = pin.inode;
    return Ok();
  }
  Undo undo;
  const bool is_new = !is_own();
  if (is_new) {
    MOUNTD_TRY(CheckHostIsShared(context));
    MOUNTD_TRY(CheckBaseUnused(context, "the host's mount namespace"));
    MOUNTD_ASSIGN(const MountState base,
                  StateOf(context, run.get(), kBaseName, kObject));
    if (base.mount_id != 0) {
      MOUNTD_TRY(Named(context.kernel.Unmount(run.get(), kBaseName, MNT_DETACH),
                       "umount2", kObject));
    }
  }
  MOUNTD_TRY(PutPin(context, run.get(), std::move(pin), &undo));
  undo.Commit();
  if (!is_new) {
    return Ok();
  }
  run.reset();  // drops the lock, too, because PrepareBase takes it
  MOUNTD_TRY(Go(context, Side::kTree));
  MOUNTD_TRY(PrepareBase(context));
  return Ok();
}

// Makes a mount namespace for the caller to pin. Goes back to the host's
// namespace, also after an error; if setns(2) fails, returns its error.
Result<void> Residence::MakeOwn(const Context& context) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_TRY(Named(kernel.NewMountNamespace(), "unshare", kObject));
  now_ = Side::kTree;
  const auto open = [&]() -> Result<void> {
    // No RESOLVE flags, because the file is a magic link (namespaces(7)).
    MOUNTD_ASSIGN(own_, Named(kernel.Open(exec::kFromRoot, kSelf, O_RDONLY, 0),
                              "openat2", kSelf));
    MOUNTD_ASSIGN(const FileFacts facts,
                  Named(kernel.Stat(own_.get(), ""), "statx", kSelf));
    own_inode_ = facts.inode;
    return FollowHost(context);
  };
  const Result<void> opened = open();
  MOUNTD_TRY(Named(kernel.EnterMountNamespace(host_.get()), "setns", kObject));
  now_ = Side::kHost;
  if (!opened) {
    own_.reset();
  }
  return opened;
}

Result<void> Residence::PutPin(const Context& context, int run, Pin pin,
                               Undo* undo) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_TRY(PutFile(context, run, pin.is_mounted, undo));
  const bool is_new = !is_own();
  if (is_new) {
    MOUNTD_TRY(MakeOwn(context));
    undo->Add([this] { own_.reset(); });
  }
  MOUNTD_ASSIGN(const UniqueFd tree, Named(kernel.CloneTree(own_.get(), false),
                                           "open_tree", kObject));
  MOUNTD_ASSIGN(const UniqueFd point, OpenBeneath(context, run, kPin, kObject));
  return Named(kernel.AttachTree(tree.get(), point.get()), "move_mount",
               kObject);
}

bool IsApart(const Context& context) {
  return context.residence != nullptr && context.residence->is_own();
}

Result<OnHost> OnHost::Go(const Context& context) {
  if (IsApart(context)) {
    MOUNTD_TRY(context.residence->Go(context, Side::kHost));
  }
  return OnHost(context);
}

// Ignores a failure, because the next plan enters first and reports it.
OnHost::~OnHost() {
  if (context_ != nullptr && IsApart(*context_)) {
    IgnoreBecauseBestEffort(context_->residence->Go(*context_, Side::kTree));
  }
}

OnHost::OnHost(OnHost&& other) noexcept
    : context_(std::exchange(other.context_, nullptr)) {}

Result<void> CheckAsOnHost(const Context& context, const std::string& path,
                           const FileFacts& file, const std::string& object) {
  if (!IsApart(context)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const UniqueFd there,
                Named(context.kernel.Open(context.residence->host_root(),
                                          path.substr(1), O_PATH, kNoLinks),
                      "openat2", object));
  MOUNTD_ASSIGN(const FileFacts hosts,
                Named(context.kernel.Stat(there.get(), ""), "statx", object));
  return hosts.device == file.device && hosts.inode == file.inode
             ? Ok()
             : Result<void>(MakeError(
                   Code::kFailedPrecondition, "open source", object,
                   "the host's mount there does not reach mountd's mount "
                   "namespace, because the mount above it is not shared"));
}

}  // namespace mountd::propagation
