// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fuzz/exec_world.h"

#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "mountd/base/paths.h"

namespace mountd::fuzz {
namespace {

std::string ParentOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

// Moves what lies at or below one path to another path.
template <typename Value>
void MoveKeys(const std::string& path, const std::string& to,
              std::map<std::string, Value>* all) {
  std::map<std::string, Value> moved;
  for (auto at = all->begin(); at != all->end();) {
    if (paths::IsAtOrBelow(at->first, path)) {
      moved[to + at->first.substr(path.size())] = std::move(at->second);
      at = all->erase(at);
    } else {
      ++at;
    }
  }
  all->merge(moved);
}

}  // namespace

World::World() {
  const std::uint64_t root = NewMount("/", "ext4", kRootDevice);
  files_["/"] = {S_IFDIR | 0755, 0, 0, 2, kRootDevice, ""};
  piles_["/"] = {root};
  mounts_[root].facts.point = "/";
  mounts_[root].facts.peer_group = 1;
  for (const char* directory : {"/run",
                                "/run/mountd",
                                "/run/netns",
                                "/run/systemd",
                                "/run/systemd/system",
                                "/srv",
                                "/srv/data",
                                "/srv/data/sub",
                                "/srv/ro",
                                "/var",
                                "/var/alloc",
                                "/var/alloc/web",
                                "/var/alloc/web/dir",
                                "/var/other",
                                "/var/other/db",
                                "/sys",
                                "/sys/fs",
                                "/sys/fs/cgroup",
                                "/sys/fs/cgroup/nomad.slice",
                                "/sys/fs/cgroup/nomad.slice/web",
                                "/sys/fs/cgroup/other.slice",
                                "/proc",
                                "/proc/self",
                                "/proc/1",
                                "/proc/100",
                                "/proc/200",
                                "/proc/300",
                                "/etc",
                                "/usr",
                                "/usr/bin",
                                "/container",
                                "/container/dir"}) {
    Make(directory, S_IFDIR | 0755);
  }
  for (const char* file :
       {"/srv/file", "/srv/image", "/etc/shadow", "/usr/bin/systemctl",
        "/usr/bin/systemd-run", "/var/alloc/web/file",
        "/var/alloc/web/dir/file", "/container/file"}) {
    Make(file, S_IFREG | 0644);
  }
  for (const char* owned : {"/var/alloc/web", "/var/alloc/web/dir",
                            "/var/alloc/web/file", "/var/alloc/web/dir/file"}) {
    FileAt(owned)->uid = 1000;
    FileAt(owned)->gid = 1000;
  }
  FileAt("/var/other/db")->uid = 1001;
  const std::uint64_t cgroups = NewMount("/sys/fs/cgroup", "cgroup2", 0x1d);
  Attach(cgroups, "/sys/fs/cgroup", false);
  // The only container's root, whose mounts are shared with no other namespace.
  const std::uint64_t rootfs = NewMount("/container", "overlay", 0x77);
  Attach(rootfs, "/container", false);
  mounts_[rootfs].facts.peer_group = 0;
}

std::uint64_t World::HolderOf(const std::string& path) const {
  for (std::string at = path;; at = ParentOf(at)) {
    const auto pile = piles_.find(at);
    if (pile != piles_.end() && !pile->second.empty()) {
      return pile->second.back();
    }
    if (at == "/") {
      return 0;
    }
  }
}

std::optional<World::Found> World::Look(const std::string& path) const {
  const auto pile = piles_.find(path);
  const bool mounted = pile != piles_.end() && !pile->second.empty();
  const std::string& whose =
      mounted ? mounts_.at(pile->second.back()).source : path;
  const auto file = files_.find(whose);
  if (file == files_.end()) {
    return std::nullopt;
  }
  Found found{file->second, HolderOf(path), mounted};
  if (mounted) {
    found.file.device = mounts_.at(found.mount_id).facts.device;
  }
  return found;
}

std::vector<std::string> World::NamesIn(const std::string& path) const {
  std::vector<std::string> names;
  const std::string prefix = path == "/" ? "/" : path + "/";
  for (auto at = files_.upper_bound(prefix);
       at != files_.end() && at->first.starts_with(prefix); ++at) {
    const std::string rest = at->first.substr(prefix.size());
    if (rest.find('/') == std::string::npos) {
      names.push_back(rest);
    }
  }
  return names;
}

World::File* World::FileAt(const std::string& path) {
  const auto pile = piles_.find(path);
  const auto file = files_.find(pile != piles_.end() && !pile->second.empty()
                                    ? mounts_.at(pile->second.back()).source
                                    : path);
  return file == files_.end() ? nullptr : &file->second;
}

int World::Make(const std::string& path, std::uint32_t mode, std::string text) {
  if (files_.contains(path)) {
    return EEXIST;
  }
  const auto above = Look(ParentOf(path));
  if (!above) {
    return ENOENT;
  }
  if (!S_ISDIR(above->file.mode)) {
    return ENOTDIR;
  }
  const bool in_base = paths::IsAtOrBelow(path, paths::kBase);
  files_[path] = {
      mode,           0, 0, ++last_inode_, in_base ? kBaseDevice : kRootDevice,
      std::move(text)};
  return 0;
}

int World::Remove(const std::string& path, bool directory) {
  const auto file = files_.find(path);
  const auto pile = piles_.find(path);
  if (file == files_.end()) {
    return ENOENT;
  }
  if (pile != piles_.end() && !pile->second.empty()) {
    return EBUSY;
  }
  if (S_ISDIR(file->second.mode) != directory) {
    return directory ? ENOTDIR : EISDIR;
  }
  if (!NamesIn(path).empty()) {
    return ENOTEMPTY;
  }
  files_.erase(file);
  return 0;
}

int World::Move(const std::string& path, const std::string& to) {
  if (!files_.contains(path)) {
    return ENOENT;
  }
  if (files_.contains(to)) {
    return EEXIST;
  }
  if (const auto pile = piles_.find(path);
      pile != piles_.end() && !pile->second.empty()) {
    return EBUSY;
  }
  MoveKeys(path, to, &files_);
  MoveKeys(path, to, &piles_);
  for (const auto& [point, pile] : piles_) {
    for (const std::uint64_t id : pile) {
      mounts_.at(id).facts.point = point;
    }
  }
  return 0;
}

std::uint64_t World::NewMount(const std::string& source, std::string type,
                              std::uint64_t device) {
  const std::uint64_t id = ++last_mount_;
  if (!source.starts_with('/')) {
    files_.try_emplace(source,
                       File{S_IFDIR | 0755, 0, 0, ++last_inode_, device, ""});
  }
  Mount& mount = mounts_[id];
  mount.source = source;
  mount.facts.id = id;
  mount.facts.type = std::move(type);
  mount.facts.device = device != 0 ? device : ++last_device_;
  mount.facts.root = "/";
  return id;
}

std::uint64_t World::CloneMount(const std::string& source) {
  const auto found = Look(source);
  if (!found) {
    return 0;
  }
  const Mount of = mounts_.at(found->mount_id);
  const std::string whose = found->mount_root ? of.source : source;
  const std::uint64_t id = NewMount(whose, of.facts.type, of.facts.device);
  exec::MountFacts& facts = mounts_[id].facts;
  facts.attributes = of.facts.attributes;
  facts.peer_group = of.facts.peer_group;
  facts.master = of.facts.master;
  facts.root = source.starts_with(paths::kBase) && !found->mount_root
                   ? source.substr(std::string_view(paths::kBase).size())
                   : source;
  return id;
}

World::Mount* World::MountOf(std::uint64_t id) {
  const auto found = mounts_.find(id);
  return found == mounts_.end() ? nullptr : &found->second;
}

int World::Attach(std::uint64_t id, const std::string& path, bool beneath) {
  Mount& mount = mounts_.at(id);
  if (!mount.facts.point.empty()) {
    return EINVAL;
  }
  if (!Look(path)) {
    return ENOENT;
  }
  std::vector<std::uint64_t>& pile = piles_[path];
  if (beneath && pile.empty()) {
    return EINVAL;
  }
  const std::uint64_t holder =
      beneath ? mounts_.at(pile.back()).facts.parent_id : HolderOf(path);
  mount.facts.point = path;
  mount.facts.parent_id = holder;
  if (mounts_.at(holder).facts.peer_group != 0 && mount.facts.peer_group == 0) {
    mount.facts.peer_group = ++last_group_;
  }
  if (beneath) {
    mounts_.at(pile.back()).facts.parent_id = id;
    pile.insert(pile.end() - 1, id);
  } else {
    pile.push_back(id);
  }
  return 0;
}

int World::Detach(const std::string& path, bool lazily) {
  const auto pile = piles_.find(path);
  if (pile == piles_.end() || pile->second.empty() || path == "/") {
    return EINVAL;
  }
  const std::uint64_t id = pile->second.back();
  for (const auto& [below, others] : piles_) {
    if (below.starts_with(path + "/") && !others.empty() && !lazily) {
      return EBUSY;
    }
  }
  pile->second.pop_back();
  mounts_.at(id).facts.point.clear();
  mounts_.at(id).facts.parent_id = 0;
  return 0;
}

void World::Change(std::uint64_t id, const exec::MountChange& change) {
  exec::MountFacts& facts = mounts_.at(id).facts;
  facts.attributes = (facts.attributes & ~change.clear) | change.set;
  if (change.propagation == MS_PRIVATE) {
    facts.peer_group = 0;
    facts.master = 0;
  } else if (change.propagation == MS_SHARED && facts.peer_group == 0) {
    facts.peer_group = ++last_group_;
  } else if (change.propagation == MS_SLAVE) {
    const bool alone =
        std::count_if(mounts_.begin(), mounts_.end(), [&](const auto& one) {
          return one.second.facts.peer_group == facts.peer_group;
        }) == 1;
    facts.master =
        facts.peer_group != 0 && !alone ? facts.peer_group : facts.master;
    facts.peer_group = 0;
  }
}

std::vector<std::uint64_t> World::Attached() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, mount] : mounts_) {
    if (!mount.facts.point.empty()) {
      ids.push_back(id);
    }
  }
  return ids;
}

std::string World::Mountinfo() const {
  std::string text;
  for (const std::uint64_t id : Attached()) {
    const exec::MountFacts& facts = mounts_.at(id).facts;
    text += std::to_string(id & 0xffff) + " " +
            std::to_string(facts.parent_id & 0xffff) + " 0:1 " + facts.root +
            " " + facts.point +
            " rw,nosuid,nodev shared:" + std::to_string(facts.peer_group) +
            " - " + facts.type + " x rw\n";
  }
  return text;
}

std::string World::Told() const {
  std::string text;
  for (const auto& [path, file] : files_) {
    if (!path.starts_with('/')) {
      continue;  // a mount's root that is not a path of the world
    }
    text += path + " " + std::to_string(file.mode) + " " + file.text + "\n";
  }
  for (const auto& [path, pile] : piles_) {
    for (const std::uint64_t id : pile) {
      text += path + " has " + mounts_.at(id).source + "\n";
    }
  }
  return text;
}

}  // namespace mountd::fuzz
