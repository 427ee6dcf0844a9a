// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fuzz/exec_kernel.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "mountd/base/number.h"
#include "mountd/base/paths.h"
#include "mountd/kernel/kernel_abi.h"
#include "tests/fuzz/exec_places.h"

namespace mountd::fuzz {

using exec::FileFacts;
using exec::MountFacts;
using exec::PlanKind;
using exec::Sys;

namespace {

constexpr std::uint64_t kHostMounts = 4026531840;
constexpr std::uint64_t kHostNet = 4026531833;
constexpr std::uint64_t kHostUsers = 4026531837;
constexpr std::uint64_t kHostPids = 4026531836;
constexpr std::uint64_t kContainersMounts = 4026532500;
constexpr std::uint64_t kContainersPids = 4026532501;
constexpr std::uint64_t kGivenNet = 4026532600;
constexpr std::uint64_t kCgroupOfWeb = 4242;

// Returns a new fd, which only its number identifies.
int NewNumber() {
  static const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  return ::fcntl(null, F_DUPFD_CLOEXEC, 3);
}

// Returns u::rwx,u:<uid>:--x,g::---,g:<group>:--x,m::--x,o::---
// (linux/posix_acl_xattr.h), without the fourth if `group` is 0; written
// independently of the executor's code.
std::string ListOf(std::uint32_t uid, std::uint32_t group) {
  std::string list("\2\0\0\0", 4);
  const auto add = [&list](char tag, char permissions, std::uint32_t id) {
    list.append({tag, 0, permissions, 0});
    for (unsigned shift = 0; shift < 32; shift += 8) {
      list.push_back(static_cast<char>(id >> shift & 0xFFU));
    }
  };
  add(0x01, 7, UINT32_MAX);
  add(0x02, 1, uid);
  add(0x04, 0, UINT32_MAX);
  if (group != 0) {
    add(0x08, 1, group);
  }
  add(0x10, 1, UINT32_MAX);
  add(0x20, 0, UINT32_MAX);
  return list;
}

bool HasDots(const std::string& path) {
  return path == ".." || path.starts_with("../") || path.ends_with("/..") ||
         path.find("/../") != std::string::npos;
}

// True at a path whose links only the kernel or root makes.
bool IsFixed(const std::string& path) {
  for (const char* place :
       {"/proc/self", "/proc/thread-self", "/proc/1", "/run/systemd",
        "/usr/bin/systemctl", "/usr/bin/systemd-run"}) {
    if (paths::IsAtOrBelow(path, place)) {
      return true;
    }
  }
  return false;
}

std::optional<std::uint64_t> NamespaceAt(const std::string& path) {
  if (!path.starts_with("/proc/") || path.find("/ns/") == std::string::npos) {
    return std::nullopt;
  }
  const bool containers = path.starts_with("/proc/100/");
  if (path.ends_with("/mnt")) {
    return containers ? kContainersMounts : kHostMounts;
  }
  if (path.ends_with("/pid")) {
    return containers ? kContainersPids : kHostPids;
  }
  return path.ends_with("/net") ? kHostNet : kHostUsers;
}

}  // namespace

namespace {

// Returns the world as it was booted, which is made once and copied.
const World& Booted() {
  static const World world;
  return world;
}

}  // namespace

ExecKernel::ExecKernel(const Config& config, Input lies)
    : config_(config), lies_(lies), world_(Booted()), netlink_(config) {}

ExecKernel::~ExecKernel() = default;

std::uint8_t ExecKernel::Lie() {
  const std::uint8_t lie = lies_.Byte();
  lied_ = lied_ || lie != 0;
  return lie;
}

// One in eight lies is an error, because rare errors let plans get further.
int ExecKernel::Fails() {
  constexpr int kErrors[] = {ENOENT,    EEXIST, EBUSY,    EPERM,  EACCES,
                             ENOTEMPTY, EINVAL, ESTALE,   ENOSYS, ENOMEM,
                             ELOOP,     EIO,    ENOTCONN, EXDEV};
  const std::uint8_t lie = Lie();
  return lie >= 0xE0 ? kErrors[lie % std::size(kErrors)] : 0;
}

void ExecKernel::Begin(const exec::Request* plan) {
  plan_ = plan;
  lied_ = false;
  directories_.clear();
  netlink_.Begin(plan);
}

UniqueFd ExecKernel::Give(Node node) {
  const int fd = NewNumber();
  nodes_[fd] = std::move(node);
  return UniqueFd(fd);
}

ExecKernel::Node& ExecKernel::Of(int fd) {
  const auto found = nodes_.find(fd);
  Require(found != nodes_.end() && ::fcntl(fd, F_GETFD) >= 0,
          "a call on an fd that is not open");
  return found->second;
}

void ExecKernel::CheckAllClosed() const {
  for (const auto& [fd, node] : nodes_) {
    Require(::fcntl(fd, F_GETFD) < 0, "an fd is left open: " + node.path);
  }
}

UniqueFd ExecKernel::Passed(std::uint8_t kind) {
  constexpr const char* kDirectories[] = {"/var/alloc/web",
                                          "/var/alloc/web/dir",
                                          "/var/alloc/web/file",
                                          "/var/other/db",
                                          "/etc",
                                          "/srv/data"};
  Node node;
  node.passed = true;
  switch (kind % 4) {
    case 0:
      node.path = kDirectories[kind / 4U % std::size(kDirectories)];
      break;
    case 1:
      node.kind = Kind::kProcess;
      node.path = kind / 4U % 4 == 3 ? "/proc/200" : "/proc/100";
      break;
    case 2:
      node.kind = Kind::kMemory;
      break;
    default:
      node.kind = Kind::kNetns;
      node.path = "given";
      node.inode = kind / 4U % 4 == 3 ? kHostNet : kGivenNet;
      break;
  }
  return Give(std::move(node));
}

void ExecKernel::Others(std::uint8_t what) {
  const std::string plugin = PlaceOfPlugin("local");
  const std::string published =
      plugin + "/publish/web/0123456789abcdef0123456789abcdef";
  const std::string staged =
      plugin + "/staging/0123456789abcdef0123456789abcdef";
  const std::string target = PlaceOfAllocation("web") + "/server/data";
  switch (what % 12) {
    case 1:
      world_.Make(published, S_IFDIR | 0755);
      break;
    case 2:
      world_.Make(published, S_IFDIR | 0755);
      world_.Attach(world_.NewMount("/srv/data", "xfs", 0), published, false);
      break;
    case 3:
      world_.Make(published, S_IFLNK | 0777, "/etc");
      break;
    case 4:
      world_.Make(published, S_IFREG | 0644);
      break;
    case 5:
      world_.Make(plugin + "/csi.sock", S_IFSOCK | 0755);
      break;
    case 6:
      world_.Attach(world_.NewMount("/srv/data", "ext4", 0), target, false);
      break;
    case 7:
      world_.Attach(world_.NewMount("/srv/data", "fuse.x", 0), staged, false);
      break;
    case 8:
      world_.Detach(target, true);
      break;
    case 9:
      world_.Detach("/srv/data", true);
      break;
    case 10:
      world_.Make(plugin + "/publish/web/stray", S_IFDIR | 0755);
      world_.Attach(world_.NewMount("/srv/data", "ext4", 0),
                    plugin + "/publish/web/stray", false);
      break;
    case 11:
      world_.Move("/var/alloc/web", "/var/other/web");
      break;
    default:
      break;
  }
}

void ExecKernel::Took(int fd) {
  if (Of(fd).kind == Kind::kFile) {
    directories_.insert(Of(fd).path);
  }
}

std::string ExecKernel::PathOf(int dir, const std::string& name) {
  if (dir == exec::kFromRoot || dir == AT_FDCWD) {
    Require(name.starts_with('/'), "a path from the root is none");
    return name;
  }
  const Node& node = Of(dir);
  if (name.empty() || name == ".") {
    return node.path;
  }
  return (node.path == "/" ? "" : node.path) + "/" +
         (name.starts_with("./") ? name.substr(2) : name);
}

// ---- Files ------------------------------------------------------------------

Sys<UniqueFd> ExecKernel::Open(int dir, const std::string& path, int flags,
                               std::uint64_t resolve) {
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  if (dir >= 0 && Of(dir).kind == Kind::kTree && path == ".") {
    node = Of(dir);  // the same mount, as another fd
    return Give(std::move(node));
  }
  node.path = PathOf(dir, path);
  node.writable = (flags & O_ACCMODE) != O_RDONLY && (flags & O_PATH) == 0;
  const bool from_root = dir == exec::kFromRoot || dir == AT_FDCWD;
  const bool beneath = (resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
  const bool no_links = (resolve & RESOLVE_NO_SYMLINKS) != 0;
  const bool of_proc = node.path.starts_with("/proc/");
  node.trusted = (from_root ? no_links || IsFixed(path)
                            : of_proc || (no_links && beneath)) &&
                 !(HasDots(path) && !beneath);
  if (!from_root && !Of(dir).trusted) {
    node.trusted = false;
  }
  if (const auto inode = NamespaceAt(node.path)) {
    node.inode = *inode;
    return Give(std::move(node));
  }
  if (node.writable) {
    Require(IsWritable(node.path),
            "a file is opened to be written: " + node.path);
  }
  const auto found = world_.Look(node.path);
  const bool of_control = node.path.starts_with("fusectl:");
  if (!found && !of_control && !of_proc && Lie() == 0) {
    return ENOENT;
  }
  if (found && S_ISLNK(found->file.mode) && no_links &&
      (flags & O_NOFOLLOW) == 0) {
    return ELOOP;
  }
  if (found && (flags & O_DIRECTORY) != 0 && !S_ISDIR(found->file.mode)) {
    return ENOTDIR;
  }
  node.mount = found ? found->mount_id : 0;
  return Give(std::move(node));
}

FileFacts ExecKernel::FactsOf(const std::string& path, bool* found) {
  FileFacts facts;
  const auto there = world_.Look(path);
  *found = there.has_value();
  if (there) {
    facts.mode = there->file.mode;
    facts.uid = there->file.uid;
    facts.gid = there->file.gid;
    facts.inode = there->file.inode;
    facts.device = there->file.device;
    facts.mount_id = there->mount_id;
    facts.mount_root = there->mount_root;
  }
  facts.mount_id_is_unique = true;
  return facts;
}

void ExecKernel::Distort(FileFacts* facts) {
  constexpr std::uint32_t kModes[] = {S_IFDIR | 0755,  S_IFDIR | 0700,
                                      S_IFREG | 0644,  S_IFLNK | 0777,
                                      S_IFSOCK | 0755, S_IFBLK | 0600};
  const std::uint8_t how = Lie();
  const std::uint8_t what = how == 0 ? 0 : Lie();
  switch (how % 8) {
    case 1:
      facts->mode = kModes[what % std::size(kModes)];
      break;
    case 2:
      facts->uid = what;
      break;
    case 3:
      facts->gid = what;
      break;
    case 4:
      facts->mount_root = !facts->mount_root;
      break;
    case 5: {
      const auto attached = world_.Attached();
      facts->mount_id = attached.at(what % attached.size());
      break;
    }
    case 6:
      facts->device = what;
      break;
    case 7:
      facts->inode = what;
      break;
    default:
      break;
  }
}

Sys<FileFacts> ExecKernel::Stat(int dir, const std::string& name) {
  // The fuzzer denies the pin, because only root can make one, and the tree is
  // the host's.
  if (dir < 0 && name == paths::kNamespace) {
    return ENOENT;
  }
  if (const int error = Fails()) {
    return error;
  }
  const std::string path = PathOf(dir, name);
  bool found = false;
  FileFacts facts =
      FactsOf(in_container_ && path == "/" ? "/container" : path, &found);
  if (const auto inode = NamespaceAt(path)) {
    facts.inode = *inode;
    facts.device = World::kNsfsDevice;
    facts.mode = S_IFREG | 0444;
    found = true;
  } else if (dir >= 0 && name.empty() &&
             (Of(dir).kind == Kind::kNetns || Of(dir).kind == Kind::kTree)) {
    const Node& node = Of(dir);
    if (node.kind == Kind::kTree && node.mount != 0) {
      const World::Mount& mount = *world_.MountOf(node.mount);
      facts = FactsOf(mount.source, &found);
      facts.mount_id = node.mount;
      facts.mount_root = true;
      facts.device = mount.facts.device;
      facts.mode = found ? facts.mode : S_IFDIR | 0755;
      facts.inode = found ? facts.inode : 2;
    } else {
      facts.inode = node.inode;
      facts.device = World::kNsfsDevice;
    }
    found = true;
  } else if (path.starts_with("/proc/")) {
    facts.mode = S_IFDIR | 0555;
    found = true;
  }
  if (!found && Lie() == 0) {
    return ENOENT;
  }
  const std::uint64_t mount_id = facts.mount_id;
  Distort(&facts);
  if (dir >= 0 && name.empty()) {
    // An fd keeps its mount, whatever is mounted later.
    facts.mount_id = mount_id;
  }
  seen_[path] = facts.mount_id;
  return facts;
}

Sys<FileFacts> ExecKernel::StatLinked(int dir, const std::string& name) {
  if (const int error = Fails()) {
    return error;
  }
  const std::string path = PathOf(dir, name);
  bool found = false;
  FileFacts facts = FactsOf("/", &found);
  facts.inode = NamespaceAt(path).value_or(facts.inode);
  Distort(&facts);
  return facts;
}

Sys<std::uint64_t> ExecKernel::LinkedMountId(int /*dir*/,
                                             const std::string& /*name*/) {
  return std::uint64_t{Lie()};
}

Sys<void> ExecKernel::MakeDirectory(int dir, const std::string& name,
                                    mode_t mode) {
  CheckChange(dir, name);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Make(PathOf(dir, name), S_IFDIR | mode);
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::MakeFile(int dir, const std::string& name, mode_t mode) {
  CheckChange(dir, name);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Make(PathOf(dir, name), S_IFREG | mode);
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::MakeLink(const std::string& text, int dir,
                               const std::string& name) {
  CheckChange(dir, name);
  if (const auto id =
          ParseNumber<std::uint64_t>(text.substr(0, text.find(' ')))) {
    written_.insert(*id);
  }
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Make(PathOf(dir, name), S_IFLNK | 0777, text);
  return error == 0 ? Sys<void>() : error;
}

Sys<std::string> ExecKernel::ReadLink(int dir, const std::string& name) {
  if (const int error = Fails()) {
    return error;
  }
  const std::string path = PathOf(dir, name);
  constexpr std::string_view kFds = "/proc/self/fd/";
  if (path.starts_with(kFds)) {
    const auto fd = ParseNumber<int>(path.substr(kFds.size()));
    Require(fd.has_value(), "a link of an fd that is none");
    constexpr const char* kLies[] = {"/etc/shadow",
                                     "/var/alloc/../../etc",
                                     "/var/alloc",
                                     "/var/alloc/web (deleted)",
                                     "",
                                     "pipe:[1]"};
    const std::uint8_t lie = Lie();
    return lie == 0 ? Of(*fd).path : kLies[lie % std::size(kLies)];
  }
  if (path == "/proc/self/exe") {
    return std::string("/usr/libexec/mountd/mountd-exec");
  }
  const auto found = world_.Look(path);
  if (!found) {
    return ENOENT;
  }
  if (!S_ISLNK(found->file.mode)) {
    return EINVAL;
  }
  std::string text = found->file.text;
  if (const std::uint8_t lie = Lie(); lie != 0) {
    constexpr const char* kTexts[] = {"",
                                      "1",
                                      " ",
                                      "2147483904 x",
                                      "18446744073709551616 1 1",
                                      "1 2 3 4",
                                      "2147483905 4026532500 4242"};
    text = kTexts[lie % std::size(kTexts)];
  }
  if (const auto id =
          ParseNumber<std::uint64_t>(text.substr(0, text.find(' ')))) {
    written_.insert(*id);
  }
  return text;
}

Sys<void> ExecKernel::RemoveFile(int dir, const std::string& name) {
  CheckChange(dir, name);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Remove(PathOf(dir, name), false);
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::RemoveDirectory(int dir, const std::string& name) {
  CheckChange(dir, name);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Remove(PathOf(dir, name), true);
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::Rename(int dir, const std::string& name, int new_dir,
                             const std::string& new_name) {
  CheckChange(dir, name);
  CheckChange(new_dir, new_name);
  if (const int error = Fails()) {
    return error;
  }
  const int error = world_.Move(PathOf(dir, name), PathOf(new_dir, new_name));
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::SetOwner(int fd, uid_t uid, gid_t gid) {
  CheckChange(Of(fd).path);
  Require(Of(fd).trusted, "what others led to is given away");
  if (plan_->kind == PlanKind::kChownTree) {
    const exec::TreePlan& tree = plan_->body.tree;
    Require(uid == tree.uid && gid == tree.gid, "a tree is given to another");
    Require(uid != 0 || tree.caller.uid == 0, "a tree is given to root");
  }
  if (const int error = Fails()) {
    return error;
  }
  if (World::File* file = world_.FileAt(Of(fd).path)) {
    file->uid = uid == exec::kNoId ? file->uid : uid;
    file->gid = gid == exec::kNoId ? file->gid : gid;
  }
  return {};
}

Sys<void> ExecKernel::SetMode(int fd, mode_t mode) {
  CheckChange(Of(fd).path);
  Require(Of(fd).trusted, "the mode of what others led to is changed");
  if (const int error = Fails()) {
    return error;
  }
  if (World::File* file = world_.FileAt(Of(fd).path)) {
    file->mode = (file->mode & S_IFMT) | mode;
  }
  return {};
}

Sys<std::string> ExecKernel::ReadAcl(int fd) {
  if (const int error = Fails()) {
    return error;
  }
  const auto found = world_.Look(Of(fd).path);
  // The list is another program's, now and then.
  return Lie() % 8 == 1 ? std::string(44, '\1')
                        : (found ? found->file.acl : std::string());
}

Sys<void> ExecKernel::SetAcl(int fd, std::string_view acl) {
  CheckChange(Of(fd).path);
  Require(Of(fd).trusted, "what others led to gets a list");
  const bool is_files = plan_->kind == PlanKind::kWriteNetworkFile;
  Require(is_files || plan_->kind == PlanKind::kPrepareAllocation,
          "a list by a plan that lets nobody pass");
  const std::uint32_t uid =
      is_files ? plan_->body.network_file.uid : plan_->body.allocation.uid;
  // kGroup is the one that plan_of_input.cc names and a rule grants.
  constexpr std::uint32_t kGroup = 100'000;
  const std::uint32_t named = is_files ? 0 : plan_->body.allocation.group;
  Require(acl == ListOf(uid, kGroup) || (named == 0 && acl == ListOf(uid, 0)),
          "a list lets others than the plan's user and group pass");
  if (const int error = Fails()) {
    return error;
  }
  if (World::File* file = world_.FileAt(Of(fd).path)) {
    file->acl = acl;
    file->mode = S_IFDIR | 0710;  // with the mask of the list
  }
  return {};
}

Sys<std::vector<std::string>> ExecKernel::List(int dir, std::size_t limit) {
  if (const int error = Fails()) {
    return error;
  }
  std::vector<std::string> names = world_.NamesIn(Of(dir).path);
  if (Lie() != 0) {
    names.push_back("\n\xff more");
  }
  names.resize(std::min(names.size(), limit));
  return names;
}

Sys<std::vector<exec::OrderedName>> ExecKernel::ListAfter(int dir,
                                                          std::uint64_t after,
                                                          std::size_t limit) {
  if (const int error = Fails()) {
    return error;
  }
  std::vector<exec::OrderedName> names;
  for (const std::string& name : world_.NamesIn(Of(dir).path)) {
    if (exec::NameOrder(name) > after) {
      names.push_back({exec::NameOrder(name), name});
    }
  }
  std::sort(names.begin(), names.end(),
            [](const auto& a, const auto& b) { return a.order < b.order; });
  names.resize(std::min(names.size(), limit));
  return names;
}

Sys<void> ExecKernel::Lock(int fd) {
  Require(Of(fd).trusted, "what others led to is locked");
  if (const int error = Fails()) {
    return error == EBUSY ? EWOULDBLOCK : error;
  }
  return {};
}

Sys<std::string> ExecKernel::ReadFile(int dir, const std::string& name,
                                      std::size_t limit) {
  if (const int error = Fails()) {
    return error;
  }
  const std::string path = PathOf(dir, name);
  if (Lie() != 0) {
    const std::size_t size = std::min<std::size_t>(Lie(), limit);
    return std::string(lies_.Bytes(size));
  }
  constexpr std::string_view kInfo = "/proc/self/fdinfo/";
  if (path.starts_with(kInfo)) {
    const auto fd = ParseNumber<int>(path.substr(kInfo.size()));
    Require(fd.has_value(), "an fd that is none is asked about");
    return "pos:\t0\nPid:\t" + Of(*fd).path.substr(sizeof("/proc/") - 1) + "\n";
  }
  if (path.ends_with("/status")) {
    return "Name:\tx\nTgid:\t" + path.substr(6, 3) +
           "\nUid:\t1000\t1000\t1000\t1000\n";
  }
  if (path.ends_with("/cgroup")) {
    return std::string(path.starts_with("/proc/100") ? "0::/nomad.slice/web\n"
                                                     : "0::/other.slice\n");
  }
  if (path.ends_with("/cgroup.procs")) {
    return std::string("100\n0\n");
  }
  if (path.ends_with("/cgroup.events")) {
    return std::string("populated 0\nfrozen 1\n");
  }
  if (path.ends_with("/mountinfo")) {
    return world_.Mountinfo();
  }
  return ENOENT;
}

Sys<void> ExecKernel::Write(int fd, std::string_view text) {
  Require(Of(fd).writable && Of(fd).trusted, "a file is written to");
  if (World::File* file = world_.FileAt(Of(fd).path)) {
    file->text = text;
  }
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::WriteAs(int dir, const std::string& name, uid_t /*uid*/,
                              std::string_view text) {
  Require(plan_->kind == PlanKind::kStopTasks, "a file of a cgroup is written");
  const bool kills = plan_->body.stop_tasks.how == exec::TaskStop::kKill;
  Require(Of(dir).path == "/sys/fs/cgroup/nomad.slice/web" &&
              name == (kills ? "cgroup.kill" : "cgroup.freeze") && text == "1",
          "other tasks are stopped");
  Require(plan_->body.stop_tasks.owner.uid == 1000,
          "tasks are stopped for a user without the right");
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

Sys<bool> ExecKernel::IsMemory(int fd) { return Of(fd).kind == Kind::kMemory; }

Sys<std::string> ExecKernel::ReadMemory(int fd, std::size_t limit) {
  Require(Of(fd).kind == Kind::kMemory, "what is no memory is waited for");
  const int error = Fails();
  return error == 0 ? Sys<std::string>(
                          std::string(std::min<std::size_t>(limit, 64), 'x'))
                    : error;
}

Sys<std::string> ExecKernel::ReadSetting(const char* /*path*/) {
  const int error = Fails();
  return error == 0 ? Sys<std::string>(std::to_string(Lie())) : error;
}

Sys<void> ExecKernel::WriteSetting(const char* path, std::string_view text) {
  const std::string setting = path;
  Require((setting == "/proc/sys/net/ipv4/ip_forward" ||
           setting == "/proc/sys/net/ipv6/conf/all/forwarding") &&
              text == "1" && plan_ != nullptr &&
              plan_->kind == PlanKind::kPrepareNetworks,
          "a setting of the host is changed");
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

Sys<UniqueFd> ExecKernel::OpenKernfs(int fs, std::uint64_t id) {
  Require(Of(fs).trusted && paths::IsAtOrBelow(Of(fs).path, "/sys/fs/cgroup"),
          "a handle of another file system");
  if (const int error = Fails()) {
    return error;
  }
  constexpr const char* kOthers[] = {"/sys/fs/cgroup/other.slice",
                                     "/sys/fs/cgroup", "/etc"};
  Node node;
  const std::uint8_t lie = Lie();
  if (lie == 0 && id != kCgroupOfWeb) {
    return ESTALE;
  }
  node.path = lie == 0 ? "/sys/fs/cgroup/nomad.slice/web"
                       : kOthers[lie % std::size(kOthers)];
  return Give(std::move(node));
}

Sys<bool> ExecKernel::HasEnded(int pidfd) {
  if (Of(pidfd).kind != Kind::kProcess) {
    return EBADF;
  }
  const int error = Fails();
  return error == 0 ? Sys<bool>(Lie() != 0) : error;
}

// ---- Processes and namespaces -----------------------------------------------

Sys<std::uint8_t> ExecKernel::RunChild(const std::function<int()>& body,
                                       std::span<const int> kept,
                                       std::chrono::milliseconds /*limit*/) {
  Require(plan_ != nullptr && !in_child_, "a child without a plan");
  if (const int error = Fails()) {
    return error;
  }
  // The fuzzer does not run programs. A child that enters a container or reads
  // a process's memory maps runs its body.
  const bool is_search = plan_->kind == PlanKind::kFindHolders ||
                         plan_->kind == PlanKind::kFindCopies;
  if (is_search ||
      (!kept.empty() && Of(kept.front()).inode == kContainersMounts)) {
    in_child_ = true;
    const int status = body();
    in_child_ = false;
    in_container_ = false;
    return Lie() == 0 ? Sys<std::uint8_t>(static_cast<std::uint8_t>(status))
                      : ETIMEDOUT;
  }
  Require(plan_->kind == PlanKind::kAttach ||
              plan_->kind == PlanKind::kOpenTree ||
              plan_->kind == PlanKind::kRunCni ||
              plan_->kind == PlanKind::kStartPlugin ||
              plan_->kind == PlanKind::kStopPlugin,
          "a program is run for a plan that needs none");
  if (const exec::SourcePlan* source = SourceOf(*plan_)) {
    const std::string name = Text(source->filesystem);
    const auto declared = config_.filesystems.find(name);
    Require(source->kind == exec::SourceKind::kFilesystem &&
                declared != config_.filesystems.end(),
            "a file system is mounted that is not declared");
    if (Lie() == 0) {
      world_.Attach(world_.NewMount("image:" + name, declared->second.type, 0),
                    PlaceOfFilesystem(name), false);
    }
  }
  return Lie();
}

Sys<void> ExecKernel::NewMountNamespace() {
  Require(false, "the tree gets another namespace than the configuration's");
  return ENOSYS;
}

Sys<void> ExecKernel::EnterMountNamespace(int mount_namespace) {
  Require(in_child_, "the executor itself goes into another namespace");
  Require(Of(mount_namespace).inode != kHostMounts,
          "the host's namespace is gone into");
  if (const int error = Fails()) {
    return error;
  }
  in_container_ = true;
  return {};
}

Sys<std::uint64_t> ExecKernel::OwnerOf(int name_space) {
  Require(Of(name_space).kind == Kind::kNetns || Of(name_space).inode != 0,
          "what is no namespace is asked for its owner");
  const int error = Fails();
  return error == 0 ? Sys<std::uint64_t>(kHostUsers + Lie()) : error;
}

Sys<uid_t> ExecKernel::OwnerUidOf(int /*name_space*/) {
  const int error = Fails();
  return error == 0 ? Sys<uid_t>(1000U + Lie()) : error;
}

Sys<std::uint64_t> ExecKernel::NamespaceTypeOf(int name_space) {
  const int error = Fails();
  return error != 0 ? Sys<std::uint64_t>(error)
         : Of(name_space).kind == Kind::kNetns
             ? Sys<std::uint64_t>(std::uint64_t{CLONE_NEWNET})
             : ENOTTY;
}

// Returns the map of users or groups that a plan asks for. `own` is the id that
// the caller may always map, and that root's may show as if `roots`.
std::string ExecKernel::WantedMap(std::span<const exec::IdExtent> extents,
                                  std::uint32_t own, bool roots) const {
  std::string wanted;
  for (const exec::IdExtent& extent : extents) {
    const bool one = own != 0 && extent.count == 1;
    const bool is_roots =
        roots && one && extent.on_disk == 0 && extent.shown == own;
    Require(extent.shown != 0 && extent.count != 0 &&
                (extent.on_disk != 0 || is_roots),
            "root's files are shown as another's, or another's as root's");
    Require(is_roots || (one && extent.on_disk == own) ||
                std::any_of(config_.rules.begin(), config_.rules.end(),
                            [&](const RuleConfig& rule) {
                              return AllowsIds(rule, extent);
                            }),
            "ids are shown that no rule grants");
    wanted += std::to_string(extent.on_disk) + " " +
              std::to_string(extent.shown) + " " +
              std::to_string(extent.count) + "\n";
  }
  return wanted;
}

Sys<UniqueFd> ExecKernel::NewUserNamespace(const std::string& uid_map,
                                           const std::string& gid_map) {
  Require(plan_ != nullptr && plan_->kind == PlanKind::kAttach,
          "ids are mapped for a plan that needs none");
  const exec::AttachPlan& plan = plan_->body.attach;
  const auto users = std::span(plan.ids.extents).first(plan.ids.count);
  const auto groups = plan.ids.gid_count == 0
                          ? users
                          : std::span(plan.ids.gids).first(plan.ids.gid_count);
  const auto gids = std::span(plan.caller.gids).first(plan.caller.gid_count);
  // The volumes of the rule that has root_as_caller (plans_fuzzer.cc).
  bool named = false;
  bool roots = false;
  for (const RuleConfig& rule : config_.rules) {
    if (Applies(rule, plan.caller.uid, gids)) {
      named = true;
      roots =
          roots || (rule.root_as_caller &&
                    (plan.source.kind == exec::SourceKind::kPublishedVolume ||
                     (plan.source.kind == exec::SourceKind::kHostVolume &&
                      (plan.attributes & exec::kReadOnly) != 0)));
    }
  }
  roots = roots && plan.propagation == exec::Propagation::kPrivate;
  Require(uid_map == WantedMap(users, named ? plan.caller.uid : 0, roots),
          "users are mapped as the plan does not say");
  Require(
      gid_map ==
          WantedMap(groups, named && !gids.empty() ? gids.front() : 0, roots),
      "groups are mapped as the plan does not say");
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kUserNamespace;
  return Give(std::move(node));
}

Sys<UniqueFd> ExecKernel::WatchMounts(int mount_namespace) {
  Require(Of(mount_namespace).inode == kHostMounts,
          "mounts of another namespace are watched");
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kWatch;
  return Give(std::move(node));
}

Sys<UniqueFd> ExecKernel::MakeMemory(std::span<const std::byte> /*content*/) {
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kMemory;
  return Give(std::move(node));
}

Sys<exec::ProbeOutcome> ExecKernel::ProbeFilesystem(
    int fd, std::chrono::milliseconds /*deadline*/) {
  Require(Of(fd).kind == Kind::kTree, "what a child asks is no clone");
  if (const int error = Fails()) {
    return error;
  }
  constexpr int kErrors[] = {0, ENOTCONN, ESTALE, EIO};
  const std::uint8_t lie = Lie();
  return exec::ProbeOutcome{kErrors[lie % std::size(kErrors)], lie > 128, 0};
}

// ---- Sockets ----------------------------------------------------------------

Sys<UniqueFd> ExecKernel::ConnectUnix(int file) {
  Require(plan_ != nullptr && plan_->kind == PlanKind::kConnectPlugin,
          "a plan that needs none connects");
  const exec::PluginSocketPlan& plan = plan_->body.plugin_socket;
  Require(Of(file).trusted &&
              Of(file).path == PlaceOfPlugin(Text(plan.plugin)) + "/" +
                                   paths::PluginSocket({plan.instance.data(),
                                                        plan.instance.size()}),
          "another socket is connected to");
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kSocket;
  return Give(std::move(node));
}

Sys<ucred> ExecKernel::PeerOf(int /*socket*/) {
  const int error = Fails();
  return error == 0 ? Sys<ucred>(ucred{Lie() == 0 ? 100 : 0, 0, 0}) : error;
}

Sys<UniqueFd> ExecKernel::PeerProcess(int /*socket*/) {
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kProcess;
  node.path = "/proc/100";
  return Give(std::move(node));
}

Sys<exec::NetNamespace> ExecKernel::NewNetNamespace() {
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kNetns;
  node.path = "new";
  node.inode = ++last_netns_;
  Node route;
  route.kind = Kind::kNetlink;
  route.protocol = NETLINK_ROUTE;
  route.inside = true;
  exec::NetNamespace made;
  made.fd = Give(std::move(node));
  made.route = Give(std::move(route));
  return made;
}

Sys<UniqueFd> ExecKernel::OpenNetlinkIn(int netns, int protocol) {
  const Node& node = Of(netns);
  Require(node.kind == Kind::kNetns ||
              node.path.starts_with(std::string(paths::kNetnsDir) + "/"),
          "another namespace is gone into");
  Require(node.inode != kHostNet, "the host's network is taken for another");
  if (const int error = Fails()) {
    return error;
  }
  Node socket;
  socket.kind = Kind::kNetlink;
  socket.protocol = protocol;
  socket.inside = true;
  return Give(std::move(socket));
}

Sys<UniqueFd> ExecKernel::OpenNetlink(int protocol) {
  Require(protocol == NETLINK_ROUTE || protocol == NETLINK_NETFILTER ||
              protocol == NETLINK_SOCK_DIAG,
          "netlink of another protocol");
  if (const int error = Fails()) {
    return error;
  }
  Node node;
  node.kind = Kind::kNetlink;
  node.protocol = protocol;
  return Give(std::move(node));
}

Sys<void> ExecKernel::Subscribe(int netlink, unsigned /*group*/) {
  Require(Of(netlink).kind == Kind::kNetlink && plan_ != nullptr &&
              plan_->kind == PlanKind::kWatchNetworks,
          "a plan that needs none listens");
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

Sys<void> ExecKernel::Send(int socket, std::span<const std::byte> bytes) {
  Node& node = Of(socket);
  Require(node.kind == Kind::kNetlink, "what is no netlink is sent to");
  const std::vector<std::byte> answers = netlink_.Answer(
      node.protocol, node.inside, bytes, [this] { return Lie(); });
  if (const int error = Fails()) {
    return error;
  }
  node.answers = answers;
  return {};
}

Sys<std::size_t> ExecKernel::Receive(int socket, std::span<std::byte> into) {
  Node& node = Of(socket);
  if (const int error = Fails()) {
    return error;
  }
  if (node.answers.empty()) {
    return EAGAIN;
  }
  const std::size_t size = std::min(node.answers.size(), into.size());
  std::copy_n(node.answers.begin(), size, into.begin());
  node.answers.clear();
  return size;
}

Sys<void> ExecKernel::RunNft(const std::string& commands) {
  Require(plan_ != nullptr && plan_->kind == PlanKind::kPrepareNetworks,
          "a plan that needs none changes rules");
  Require(AreOwnRules(commands), "rules of others are changed");
  const int error = Fails();
  return error == 0 ? Sys<void>() : error;
}

}  // namespace mountd::fuzz
