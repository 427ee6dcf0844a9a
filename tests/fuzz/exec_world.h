// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/kernel/kernel.h"

namespace mountd::fuzz {

// Models files and mounts of a host's kernel as far as an executor asks: files
// by their absolute paths, and a pile of mounts at each path. A mount does not
// hide what it covers, and the content of a mounted directory is found at the
// directory's own path only. That is enough to let plans succeed.
class World {
 public:
  struct File {
    std::uint32_t mode = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint64_t inode = 0;
    std::uint64_t device = 0;
    std::string text;   // a link's target, or a file's content
    std::string acl{};  // "": none
    friend bool operator==(const File&, const File&) = default;
  };
  struct Mount {
    exec::MountFacts facts;
    std::string source;  // the path whose file is its root
  };
  // A file as it is found at a path.
  struct Found {
    File file;
    std::uint64_t mount_id = 0;
    bool mount_root = false;
  };

  static constexpr std::uint64_t kRootDevice = 0xfe01;
  static constexpr std::uint64_t kBaseDevice = 0x2d;
  static constexpr std::uint64_t kNsfsDevice = 0x4;

  World();

  std::optional<Found> Look(const std::string& path) const;
  // Returns all names right below the path.
  std::vector<std::string> NamesIn(const std::string& path) const;

  // Return 0 or an errno.
  int Make(const std::string& path, std::uint32_t mode, std::string text = "");
  int Remove(const std::string& path, bool directory);
  int Move(const std::string& path, const std::string& to);
  File* FileAt(const std::string& path);  // looks at mounts, too

  // Returns a mount of `source` that is attached nowhere.
  std::uint64_t NewMount(const std::string& source, std::string type,
                         std::uint64_t device);
  std::uint64_t CloneMount(const std::string& source);
  Mount* MountOf(std::uint64_t id);
  int Attach(std::uint64_t id, const std::string& path, bool beneath);
  int Detach(const std::string& path, bool lazily);
  void Change(std::uint64_t id, const exec::MountChange& change);
  std::vector<std::uint64_t> Attached() const;
  std::string Mountinfo() const;

  // Returns the world as text. Two worlds with the same text are the same for
  // every later plan.
  std::string Told() const;

 private:
  std::uint64_t HolderOf(const std::string& path) const;

  std::map<std::string, File> files_;
  std::map<std::uint64_t, Mount> mounts_;
  std::map<std::string, std::vector<std::uint64_t>> piles_;
  std::uint64_t last_inode_ = 1000;
  std::uint64_t last_mount_ = 0x80000100;
  std::uint64_t last_group_ = 10;
  std::uint64_t last_device_ = 0x100;
};

}  // namespace mountd::fuzz
