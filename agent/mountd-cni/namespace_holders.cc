// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/namespace_holders.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>

namespace mountd::cni_plugin {
namespace {

namespace fs = std::filesystem;

constexpr char kProc[] = "/proc";

// Returns "" if the link is gone or may not be read.
std::string LinkAt(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? "" : target.string();
}

// Compares the inode numbers in fdinfo (Linux 5.14). A file's link only names
// the path by which it was opened, and a stat of the file itself may wait for a
// file server. So a file with the same number on another file system counts,
// too.
bool HasOpen(const fs::path& process, const std::string& inode) {
  std::error_code error;
  fs::directory_iterator files(process / "fdinfo", error);
  while (!error && files != fs::directory_iterator()) {
    std::ifstream facts(files->path());
    for (std::string word; facts >> word;) {
      if (word == "ino:" && facts >> word && word == inode) {
        return true;
      }
    }
    files.increment(error);
  }
  return false;
}

// Reads /proc/PID/mountinfo: id, parent, device, root, mount point.
bool HasMounted(const fs::path& process, const std::string& netns,
                const std::string& pin) {
  std::ifstream mounts(process / "mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string id;
    std::string parent;
    std::string device;
    std::string root;
    std::string point;
    words >> id >> parent >> device >> root >> point;
    if (root == netns && (pin.empty() || !point.ends_with(pin))) {
      return true;
    }
  }
  return false;
}

bool IsNumber(const std::string& name) {
  return !name.empty() &&
         name.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

bool IsHeld(std::uint64_t netns_inode, const std::string& pin) {
  const std::string inode = std::to_string(netns_inode);
  const std::string netns = "net:[" + inode + "]";
  std::set<std::string> seen;  // mount namespaces
  std::error_code error;
  fs::directory_iterator entries(kProc, error);
  while (!error && entries != fs::directory_iterator()) {
    const fs::path& process = entries->path();
    if (IsNumber(process.filename())) {
      const std::string mount_namespace = LinkAt(process / "ns" / "mnt");
      const bool is_new = seen.insert(mount_namespace).second;
      if (LinkAt(process / "ns" / "net") == netns || HasOpen(process, inode) ||
          (is_new && HasMounted(process, netns, pin))) {
        return true;
      }
    }
    entries.increment(error);
  }
  // After an error the search is incomplete, so the namespace counts as held.
  return static_cast<bool>(error);
}

}  // namespace mountd::cni_plugin
