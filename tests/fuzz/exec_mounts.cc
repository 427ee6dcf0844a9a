// SPDX-License-Identifier: LGPL-2.1-or-later
// The changes that a plan may make, and the calls that change mounts.
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string_view>
#include <utility>

#include "mountd/base/names.h"
#include "mountd/base/paths.h"
#include "mountd/kernel/kernel_abi.h"
#include "mountd/plan/plan_ids.h"
#include "tests/fuzz/exec_kernel.h"
#include "tests/fuzz/exec_places.h"

namespace mountd::fuzz {

using exec::MountFacts;
using exec::PlanKind;
using exec::Sys;

namespace {

constexpr std::uint64_t kSafe = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

const exec::CallerPlan* CallerOf(const exec::Request& plan) {
  switch (plan.kind) {
    case PlanKind::kAttach:
      return plan.body.attach.target_kind == exec::TargetKind::kDirectory ||
                     plan.body.attach.source.kind ==
                         exec::SourceKind::kDirectory
                 ? &plan.body.attach.caller
                 : nullptr;
    case PlanKind::kRemoveTree:
    case PlanKind::kChownTree:
      return &plan.body.tree.caller;
    default:
      return nullptr;
  }
}

// Returns the plan's allocation; "" if there is none.
std::string AllocationOf(const exec::Request& plan) {
  const exec::PlanBody& body = plan.body;
  switch (plan.kind) {
    case PlanKind::kPrepareAllocation:
    case PlanKind::kRemoveAllocation:
      return Text(body.allocation.allocation);
    case PlanKind::kAttach:
      return Text(body.attach.target.allocation);
    case PlanKind::kDetach:
      return Text(body.detach.target.allocation);
    case PlanKind::kPrepareInbox:
    case PlanKind::kRemoveInbox:
      return Text(body.task.allocation);
    case PlanKind::kCreateNetwork:
    case PlanKind::kDeleteNetwork:
    case PlanKind::kRepairNetwork:
      return Text(body.network.allocation);
    case PlanKind::kWriteNetworkFile:
    case PlanKind::kRemoveNetworkFiles:
      return Text(body.network_file.allocation);
    default:
      return "";
  }
}

// Returns the plugin whose directory the plan changes.
std::string PluginOf(const exec::Request& plan) {
  const exec::PlanBody& body = plan.body;
  switch (plan.kind) {
    case PlanKind::kPreparePlugin:
    case PlanKind::kRemovePlugin:
      return Text(body.plugin.plugin);
    case PlanKind::kRemovePluginSocket:
      return Text(body.plugin_socket.plugin);
    case PlanKind::kPrepareVolumeDir:
    case PlanKind::kRemoveVolumeDir:
      return Text(body.volume_dir.plugin);
    default:
      return "";
  }
}

// Returns the declared source that the plan anchors, mounts or releases.
std::string AnchoredBy(const exec::Request& plan, exec::SourceKind kind) {
  if (plan.kind == PlanKind::kReleaseAnchor) {
    return plan.body.anchor.kind == kind ? Text(plan.body.anchor.source) : "";
  }
  const exec::SourcePlan* source = SourceOf(plan);
  if (source == nullptr || source->kind != kind) {
    return "";
  }
  return Text(kind == exec::SourceKind::kHostVolume ? source->host_volume
                                                    : source->filesystem);
}

}  // namespace

bool ExecKernel::IsInSubject(const char* part, const std::string& rest) const {
  const std::string_view name =
      std::string_view(rest).substr(0, rest.find('/'));
  const std::string_view kind = part;
  if (!IsValidName(name)) {
    return false;
  }
  if (kind == paths::kAllocations) {
    const bool network = plan_->kind == PlanKind::kCreateNetwork;
    return !network && name == AllocationOf(*plan_);
  }
  if (kind == paths::kNetworks) {
    return name == AllocationOf(*plan_) && name == rest;
  }
  if (kind == paths::kNetworkFiles) {
    return name == AllocationOf(*plan_) &&
           (name == rest ||
            IsWritable(std::string(paths::kBase) + "/d/" + rest));
  }
  if (kind == paths::kPlugins) {
    return name == PluginOf(*plan_);
  }
  if (kind == paths::kAnchors) {
    return name == AnchoredBy(*plan_, exec::SourceKind::kHostVolume);
  }
  return kind == paths::kFilesystems &&
         name == AnchoredBy(*plan_, exec::SourceKind::kFilesystem);
}

bool ExecKernel::IsOwnPlace(const std::string& path) const {
  const std::string base = paths::kBase;
  if (path == base || path == paths::kNetnsDir) {
    return plan_->kind ==
           (path == base ? PlanKind::kPrepareBase : PlanKind::kPrepareNetworks);
  }
  if (path.starts_with(std::string(paths::kNetnsDir) + "/")) {
    return path.substr(std::string_view(paths::kNetnsDir).size() + 1) ==
           AllocationOf(*plan_);
  }
  if (!paths::IsAtOrBelow(path, base)) {
    return false;
  }
  const std::string rest = path.substr(base.size() + 1);
  const std::size_t slash = rest.find('/');
  if (slash == std::string::npos) {
    return plan_->kind == PlanKind::kPrepareBase;
  }
  for (const char* part :
       {paths::kAllocations, paths::kPlugins, paths::kAnchors,
        paths::kFilesystems, paths::kNetworks, paths::kNetworkFiles}) {
    if (rest.substr(0, slash) == part) {
      return IsInSubject(part, rest.substr(slash + 1));
    }
  }
  return false;
}

bool ExecKernel::IsCallersTree(const std::string& path) const {
  const exec::CallerPlan* caller = CallerOf(*plan_);
  if (caller == nullptr) {
    return false;
  }
  const bool passed = std::any_of(
      directories_.begin(), directories_.end(),
      [&](const std::string& top) { return paths::IsAtOrBelow(path, top); });
  return passed &&
         std::any_of(
             config_.rules.begin(), config_.rules.end(),
             [&](const RuleConfig& rule) {
               return Applies(
                          rule, caller->uid,
                          std::span(caller->gids).first(caller->gid_count)) &&
                      std::any_of(rule.alloc_roots.begin(),
                                  rule.alloc_roots.end(),
                                  [&](const std::string& root) {
                                    return path != root &&
                                           paths::IsAtOrBelow(path, root);
                                  });
             });
}

void ExecKernel::CheckChange(const std::string& path) {
  Require(plan_ != nullptr, "something is changed without a plan: " + path);
  Require(!in_container_, "a file of a container is changed: " + path);
  Require(IsOwnPlace(path) ||
              (plan_->kind != PlanKind::kAttach && IsCallersTree(path)),
          "what is not the plan's is changed: " + path);
}

void ExecKernel::CheckChange(int dir, const std::string& name) {
  const std::string path = PathOf(dir, name);
  if (dir == exec::kFromRoot) {
    Require(path == paths::kNetnsDir, "a path of the host is changed");
  } else {
    Require(!name.empty() && name != "." && name != ".." &&
                name.find('/') == std::string::npos,
            "a change leads elsewhere: " + name);
    Require(Of(dir).trusted, "a directory others led to is changed: " + path);
  }
  CheckChange(path);
}

// ---- Mounts -----------------------------------------------------------------

Sys<UniqueFd> ExecKernel::OpenFilesystem(const char* type) {
  const std::string_view name = type;
  Require(name == "tmpfs" || name == "fusectl",
          "a file system of another type");
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kContext;
  node.path = type;
  return Give(std::move(node));
}

Sys<void> ExecKernel::ConfigureFilesystem(int fs, const char* key,
                                          const char* value) {
  constexpr std::string_view kKeys[] = {"source", "size", "nr_inodes", "mode",
                                        "uid",    "gid",  "noswap"};
  Require(std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys),
          "an option that no plan needs");
  Require(value == nullptr || std::string_view(value).find_first_of(",\n") ==
                                  std::string_view::npos,
          "an option that is several");
  Of(fs).options.insert(key);
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::CreateFilesystem(int fs) {
  const Node& node = Of(fs);
  Require(node.path != "tmpfs" || (node.options.contains("size") &&
                                   node.options.contains("nr_inodes")),
          "a tmpfs without bounds");
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

Sys<UniqueFd> ExecKernel::MountFilesystem(int fs, unsigned attributes) {
  Require((attributes & kSafe) == kSafe,
          "a file system with devices or setuid");
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kTree;
  node.path = Of(fs).path + ":";
  const bool base = plan_ != nullptr && plan_->kind == PlanKind::kPrepareBase;
  // The content of the base is found at the place of its mount.
  node.mount = world_.NewMount(base ? paths::kBase : node.path, Of(fs).path,
                               base ? World::kBaseDevice : 0);
  world_.Change(node.mount, {.set = attributes});
  return Give(std::move(node));
}

Sys<UniqueFd> ExecKernel::CloneTree(int fd, bool recursive) {
  if (const int error = Fails()) {
    return error;
  }
  const Node& of = Of(fd);
  Node node;
  node.kind = Kind::kTree;
  node.path = of.path;
  node.trusted = of.trusted;
  node.recursive = recursive;
  node.passed = of.passed;
  node.inode = of.inode;
  if (of.inode != 0) {
    // The tree is a namespace, which is a file in nsfs.
    const std::string file = "nsfs:" + std::to_string(of.inode);
    node.mount = world_.NewMount(file, "nsfs", World::kNsfsDevice);
    world_.FileAt(file)->inode = of.inode;
    world_.FileAt(file)->mode = S_IFREG | 0444;
  } else {
    node.mount = world_.CloneMount(of.path);
    if (node.mount == 0) {
      return ENOENT;
    }
  }
  return Give(std::move(node));
}

Sys<UniqueFd> ExecKernel::LockTree(int tree,
                                   std::chrono::milliseconds /*limit*/) {
  Require(plan_ != nullptr && (plan_->kind == PlanKind::kOpenTree ||
                               plan_->kind == PlanKind::kOpenInbox),
          "a tree is locked that is not handed out");
  Node node = Of(tree);
  Require(node.kind == Kind::kTree, "what is no tree is locked");
  if (const int error = Fails()) {
    return error;
  }
  node.locked = true;
  return Give(std::move(node));
}

Sys<void> ExecKernel::SetMount(int tree, bool recursive,
                               const exec::MountChange& change) {
  Node& node = Of(tree);
  Require(plan_ != nullptr, "a mount is changed without a plan");
  Require((change.clear & (kSafe | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY)) == 0,
          "a mount gets weaker");
  Require(change.user_namespace < 0 ||
              Of(change.user_namespace).kind == Kind::kUserNamespace,
          "ids are mapped by what is no map");
  Require(change.user_namespace < 0 ||
              !exec::ShowsRoot(plan_->body.attach.ids) || !node.recursive,
          "root's files are shown below a volume");
  if (node.kind != Kind::kTree) {
    const std::string anchored =
        AnchoredBy(*plan_, exec::SourceKind::kHostVolume);
    const auto volume = config_.host_volumes.find(anchored);
    const bool anchor = volume != config_.host_volumes.end() &&
                        node.path == volume->second.path;
    Require(node.trusted && (IsOwnPlace(node.path) || anchor ||
                             written_.contains(node.mount)),
            "another's mount is changed: " + node.path);
  }
  if (const int error = Fails()) {
    return error;
  }
  if (change.propagation != 0) {
    node.propagation = change.propagation;
  }
  if (node.mount != 0 && world_.MountOf(node.mount) != nullptr) {
    world_.Change(node.mount, change);
  }
  node.recursive = node.recursive && recursive;
  return {};
}

std::string ExecKernel::TargetPath() const {
  const exec::TargetPlan& target = plan_->body.attach.target;
  return PlaceOfAllocation(Text(target.allocation)) + "/" + Text(target.task) +
         "/" + Text(target.name);
}

// True if the tree is the source that the plan names and root declares.
bool ExecKernel::IsSource(const Node& tree) const {
  const exec::SourcePlan* source = SourceOf(*plan_);
  if (source == nullptr) {
    return false;
  }
  switch (source->kind) {
    case exec::SourceKind::kHostVolume: {
      const auto volume = config_.host_volumes.find(Text(source->host_volume));
      return volume != config_.host_volumes.end() &&
             tree.path == volume->second.path;
    }
    case exec::SourceKind::kPublishedVolume:
      return tree.path ==
             PlaceOfPlugin(Text(source->plugin)) + "/publish/" +
                 (plan_->kind == PlanKind::kAttach
                      ? AllocationOf(*plan_)
                      : Text(plan_->body.open_tree.allocation)) +
                 "/" +
                 std::string(source->volume.data(), source->volume.size());
    case exec::SourceKind::kTmpfs:
      return tree.path == "tmpfs:";
    case exec::SourceKind::kFilesystem:
      return config_.filesystems.contains(Text(source->filesystem)) &&
             tree.path == PlaceOfFilesystem(Text(source->filesystem));
    case exec::SourceKind::kDirectory:
      return !tree.recursive && IsCallersTree(tree.path) &&
             directories_.contains(tree.path);
  }
  return false;
}

bool ExecKernel::IsTarget(const Node& target) const {
  const exec::AttachPlan& plan = plan_->body.attach;
  switch (plan.target_kind) {
    case exec::TargetKind::kInbox:
      return !in_container_ && target.path == TargetPath();
    case exec::TargetKind::kDirectory:
      return !in_container_ && IsCallersTree(target.path) &&
             directories_.contains(target.path);
    case exec::TargetKind::kContainer:
      return in_container_ && target.path == plan.container.path.data();
  }
  return false;
}

void ExecKernel::CheckAttach(const Node& tree, const Node& target) {
  Require(plan_ != nullptr && tree.kind == Kind::kTree && tree.mount != 0,
          "what is no tree is mounted");
  Require(tree.trusted && target.trusted,
          "others led to what is mounted, or where: " + target.path);
  const MountFacts& facts = world_.MountOf(tree.mount)->facts;
  switch (plan_->kind) {
    case PlanKind::kPrepareBase:
      Require(tree.path == "tmpfs:" && target.path == paths::kBase,
              "the base is mounted elsewhere");
      break;
    case PlanKind::kPrepareNetworks:
      Require(tree.path == paths::kNetnsDir && target.path == paths::kNetnsDir,
              "the names of namespaces are mounted elsewhere");
      return;
    case PlanKind::kCreateNetwork:
      Require(tree.inode != 0 && IsOwnPlace(target.path),
              "a namespace gets another name: " + target.path);
      return;
    case PlanKind::kPreparePlugin:
      Require(tree.path == target.path && IsOwnPlace(target.path),
              "a plugin's directory is mounted elsewhere");
      break;
    case PlanKind::kOpenTree:
    case PlanKind::kAttach: {
      // An anchor is mounted on its own place, and is no target.
      const auto volume = config_.host_volumes.find(
          AnchoredBy(*plan_, exec::SourceKind::kHostVolume));
      if (tree.path == target.path && volume != config_.host_volumes.end() &&
          target.path == volume->second.path) {
        return;
      }
      Require(plan_->kind == PlanKind::kAttach && IsTarget(target),
              "a mount at another place than the plan's: " + target.path);
      Require(IsSource(tree), "another source than the plan's: " + tree.path);
      const std::uint32_t asked = plan_->body.attach.attributes;
      const bool read_only =
          (asked & exec::kReadOnly) != 0 ||
          (volume != config_.host_volumes.end() && volume->second.read_only);
      Require(!read_only || (facts.attributes & MOUNT_ATTR_RDONLY) != 0,
              "what is read-only can be written to");
      break;
    }
    default:
      Require(false, "a plan that needs none mounts");
  }
  Require((facts.attributes & kSafe) == kSafe,
          "a mount with devices or setuid programs");
}

Sys<void> ExecKernel::Attach(int tree, int target, bool beneath) {
  Node& what = Of(tree);
  const Node& where = Of(target);
  CheckAttach(what, where);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Attach(what.mount, where.path, beneath);
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::AttachTree(int tree, int target) {
  return Attach(tree, target, false);
}

Sys<void> ExecKernel::AttachBeneath(int tree, int target) {
  return Attach(tree, target, true);
}

Sys<void> ExecKernel::JoinGroup(int from, int fd) {
  Require(plan_ != nullptr, "a peer group changes without a plan");
  const Node& group = Of(from);
  const Node& node = Of(fd);
  Require(group.trusted, "others led to a peer group: " + group.path);
  if (plan_->kind == PlanKind::kAttach) {
    Require(IsSource(group),
            "another peer group than the source's: " + group.path);
    Require(node.kind == Kind::kTree || node.path == TargetPath(),
            "another's mount joins a peer group");
  } else {
    Require(plan_->kind == PlanKind::kDetach,
            "a plan that unmounts nothing changes a peer group");
    // A mount that could not be unmounted joins its own group again.
    Require(group.kind == Kind::kTree && group.path == node.path,
            "another peer group than its own: " + group.path);
    Require(node.trusted &&
                (IsOwnPlace(node.path) || written_.contains(node.mount)),
            "another's mount joins a peer group");
  }
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

void ExecKernel::CheckUnmount(const std::string& path) {
  const auto seen = seen_.find(path);
  const bool own_id = seen != seen_.end() && written_.contains(seen->second);
  if (in_container_) {
    Require(own_id, "a container's own mount is unmounted");
    return;
  }
  if (IsOwnPlace(path)) {
    const std::string base = std::string(paths::kBase) + "/";
    const bool in_part = path.starts_with(base) &&
                         path.find('/', base.size()) == std::string::npos;
    Require(!in_part, "a part of the base is unmounted");
    return;
  }
  // An anchor, or a mount on a caller's directory, is unmounted only if its
  // marker has the id of its making.
  Require(own_id, "another's mount is unmounted: " + path);
}

Sys<void> ExecKernel::Unmount(int parent, const std::string& name, int flags) {
  Require(plan_ != nullptr, "something is unmounted without a plan");
  Require(!name.empty() && name != "." && name != ".." &&
              name.find('/') == std::string::npos,
          "an unmount leads elsewhere: " + name);
  Require((flags & ~(MNT_DETACH | MNT_FORCE)) == 0,
          "an unmount of another kind");
  Require(Of(parent).trusted, "others led to what is unmounted");
  const std::string path = PathOf(parent, name);
  CheckUnmount(path);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Detach(path, (flags & MNT_DETACH) != 0);
  return error == 0 ? Sys<void>() : error;
}

bool ExecKernel::CanMountBeneath() { return Lie() == 0; }

Sys<MountFacts> ExecKernel::MountById(std::uint64_t id) {
  if (const int error = Fails()) {
    return error;
  }
  const World::Mount* mount = world_.MountOf(id);
  const auto attached = world_.Attached();
  const std::uint8_t lie = Lie();
  if (lie != 0) {
    mount = world_.MountOf(attached.at(lie % attached.size()));
  }
  if (mount == nullptr || mount->facts.point.empty()) {
    return ENOENT;  // a mount that is attached nowhere is in no namespace
  }
  MountFacts facts = mount->facts;
  if (lie != 0) {
    constexpr const char* kPoints[] = {
        "",          "/",           "etc", "/etc",
        "/srv/data", "/etc/shadow", "//",  "/srv/data (deleted)"};
    constexpr const char* kTypes[] = {"proc", "fuse", "nfs4", "ext4",
                                      "cgroup2"};
    facts.id = (lie & 1U) != 0 ? id : facts.id;
    facts.point =
        (lie & 2U) != 0 ? kPoints[lie / 4U % std::size(kPoints)] : facts.point;
    facts.type =
        (lie & 4U) != 0 ? kTypes[lie / 8U % std::size(kTypes)] : facts.type;
    facts.attributes = (lie & 8U) != 0 ? 0 : facts.attributes;
    facts.parent_id = (lie & 16U) != 0 ? id : facts.parent_id;
    facts.master = (lie & 32U) != 0 ? 5 : facts.master;
  }
  return facts;
}

Sys<std::vector<std::uint64_t>> ExecKernel::MountsBelow(std::uint64_t id,
                                                        std::uint64_t after) {
  if (const int error = Fails()) {
    return error;
  }
  const std::vector<std::uint64_t> all = world_.Attached();
  if (id == exec::abi::kAllMounts || Lie() != 0) {
    return all;
  }
  const World::Mount* top = world_.MountOf(id);
  std::vector<std::uint64_t> below;
  for (const std::uint64_t one : all) {
    const std::string& point = world_.MountOf(one)->facts.point;
    if (top != nullptr && one != id && one > after &&
        paths::IsAtOrBelow(point, top->facts.point)) {
      below.push_back(one);
    }
  }
  return below;
}

void ExecKernel::CheckAnswer(int fd) {
  const Node& node = Of(fd);
  Require(node.locked || node.kind != Kind::kTree,
          "a tree is handed out whose flags its holder can clear");
  switch (plan_->kind) {
    case PlanKind::kOpenTree: {
      Require(node.kind == Kind::kTree && node.trusted && IsSource(node),
              "another tree is handed out than the plan's");
      const MountFacts& facts = world_.MountOf(node.mount)->facts;
      Require((facts.attributes & kSafe) == kSafe,
              "a tree with devices or setuid programs is handed out");
      Require(facts.peer_group == 0, "a tree is handed out that is shared");
      Require(!node.recursive, "a tree is handed out with what is below it");
      const auto volume = config_.host_volumes.find(
          AnchoredBy(*plan_, exec::SourceKind::kHostVolume));
      Require(volume == config_.host_volumes.end() || !volume->second.read_only,
              "a tree is handed out that may only be read");
      return;
    }
    case PlanKind::kOpenInbox: {
      const exec::TaskPlan& task = plan_->body.task;
      Require(node.kind == Kind::kTree && node.trusted &&
                  node.path == PlaceOfAllocation(Text(task.allocation)) + "/" +
                                   Text(task.task),
              "another tree is handed out than the plan's inbox");
      Require(node.propagation == MS_SLAVE,
              "an inbox is handed out that does not only follow");
      return;
    }
    case PlanKind::kOpenNamespace:
      Require(node.path == std::string(paths::kNetnsDir) + "/" +
                               Text(plan_->body.network.allocation),
              "another namespace is handed out than the allocation's");
      return;
    case PlanKind::kConnectPlugin:
      Require(node.kind == Kind::kSocket, "no socket is handed out");
      return;
    case PlanKind::kListMounts:
    case PlanKind::kListTargets:
    case PlanKind::kListNetworks:
    case PlanKind::kRunCni:
      Require(node.kind == Kind::kMemory, "no memory is handed out");
      return;
    case PlanKind::kWatchMounts:
      Require(node.kind == Kind::kWatch ||
                  (node.path == "/proc/self/mountinfo" && !node.writable),
              "what is handed out is no watch");
      return;
    case PlanKind::kWatchNetworks:
      Require(node.kind == Kind::kNetlink && !node.inside,
              "what is handed out does not tell of networks");
      return;
    default:
      Require(false, "a plan hands out what it should not");
  }
}

}  // namespace mountd::fuzz
