// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_filesystem.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <span>

namespace mountd {
namespace {

constexpr std::size_t kMaxSource = 1024;
constexpr std::size_t kMaxValue = 255;
constexpr char kCredentialsDir[] = "/etc/mountd/";

enum class Value { kNone, kNumber, kWord, kCredentials };

struct Option {
  std::string_view name;
  Value value = Value::kNone;
  // The allowed values, separated by "|"; empty: any value of that kind.
  std::string_view choices{};
};

using Options = std::span<const Option>;
using enum Value;

// Options of every type. mountd sets ro by `read_only`, and nosuid and nodev
// always.
constexpr Option kAny[] = {{"noexec"},      {"noatime"},  {"nodiratime"},
                           {"relatime"},    {"lazytime"}, {"sync"},
                           {"strictatime"}, {"dirsync"}};

// Lacks bg, because with bg the mount may come later, when mountd no longer
// waits for it and could not own it.
constexpr Option kNfs[] = {{"vers", kWord},
                           {"nfsvers", kWord},
                           {"minorversion", kNumber},
                           {"proto", kWord},
                           {"sec", kWord},
                           {"xprtsec", kWord},
                           {"clientaddr", kWord},
                           {"port", kNumber},
                           {"rsize", kNumber},
                           {"wsize", kNumber},
                           {"timeo", kNumber},
                           {"retrans", kNumber},
                           {"retry", kNumber},
                           {"acregmin", kNumber},
                           {"acregmax", kNumber},
                           {"acdirmin", kNumber},
                           {"acdirmax", kNumber},
                           {"actimeo", kNumber},
                           {"nconnect", kNumber},
                           {"max_connect", kNumber},
                           {"namlen", kNumber},
                           {"soft"},
                           {"softerr"},
                           {"softreval"},
                           {"hard"},
                           {"lock"},
                           {"nolock"},
                           {"ac"},
                           {"noac"},
                           {"cto"},
                           {"nocto"},
                           {"acl"},
                           {"noacl"},
                           {"rdirplus"},
                           {"nordirplus"},
                           {"sharecache"},
                           {"nosharecache"},
                           {"resvport"},
                           {"noresvport"},
                           {"fg"},
                           {"lookupcache", kWord, "all|none|pos|positive"},
                           {"local_lock", kWord, "all|flock|posix|none"}};

// Lacks password, which would be in mountd's memory, and cruid, which uses
// another user's ticket.
constexpr Option kCifs[] = {{"credentials", kCredentials},
                            {"username", kWord},
                            {"domain", kWord},
                            {"vers", kWord},
                            {"sec", kWord},
                            {"iocharset", kWord},
                            {"cache", kWord, "none|strict|loose"},
                            {"uid", kNumber},
                            {"gid", kNumber},
                            {"file_mode", kNumber},
                            {"dir_mode", kNumber},
                            {"port", kNumber},
                            {"rsize", kNumber},
                            {"wsize", kNumber},
                            {"bsize", kNumber},
                            {"actimeo", kNumber},
                            {"acregmax", kNumber},
                            {"acdirmax", kNumber},
                            {"echo_interval", kNumber},
                            {"max_channels", kNumber},
                            {"multichannel"},
                            {"forceuid"},
                            {"forcegid"},
                            {"hard"},
                            {"soft"},
                            {"seal"},
                            {"serverino"},
                            {"noserverino"},
                            {"nobrl"},
                            {"mfsymlinks"}};

constexpr Option kCeph[] = {
    {"name", kWord},
    {"secretfile", kCredentials},
    {"fs", kWord},
    {"mds_namespace", kWord},
    {"mon_addr", kWord},
    {"rsize", kNumber},
    {"wsize", kNumber},
    {"rasize", kNumber},
    {"mount_timeout", kNumber},
    {"acl"},
    {"noacl"},
    {"dcache"},
    {"nodcache"},
    {"dirstat"},
    {"nodirstat"},
    {"rbytes"},
    {"norbytes"},
    {"noshare"},
    {"ms_mode", kWord, "legacy|crc|secure|prefer-crc|prefer-secure"},
    {"recover_session", kWord, "no|clean"}};

// Lacks trans=fd, which names the executor's descriptors, and trans=unix, which
// names a socket of the host.
constexpr Option k9p[] = {{"trans", kWord, "virtio|tcp|rdma|xen"},
                          {"version", kWord, "9p2000|9p2000.u|9p2000.L"},
                          {"cache", kWord, "none|loose|fscache|mmap|readahead"},
                          {"access", kWord},
                          {"uname", kWord},
                          {"aname", kWord},
                          {"msize", kNumber},
                          {"port", kNumber},
                          {"dfltuid", kNumber},
                          {"dfltgid", kNumber},
                          {"posixacl"}};

constexpr Option kVirtiofs[] = {{"dax", kWord, "always|never|inode"}};

// Lacks errors=panic, because a user who can write the image could stop the
// host. Lacks journals on other devices.
constexpr Option kExt4[] = {{"errors", kWord, "continue|remount-ro"},
                            {"data", kWord, "ordered|journal|writeback"},
                            {"commit", kNumber},
                            {"stripe", kNumber},
                            {"barrier", kNumber},
                            {"discard"},
                            {"nodiscard"},
                            {"acl"},
                            {"noacl"},
                            {"user_xattr"},
                            {"nouser_xattr"},
                            {"noload"},
                            {"delalloc"},
                            {"nodelalloc"},
                            {"journal_checksum"},
                            {"usrquota"},
                            {"grpquota"},
                            {"prjquota"}};

constexpr Option kXfs[] = {
    {"inode64"},         {"inode32"},          {"largeio"},
    {"nolargeio"},       {"norecovery"},       {"nouuid"},
    {"discard"},         {"nodiscard"},        {"swalloc"},
    {"uquota"},          {"gquota"},           {"pquota"},
    {"uqnoenforce"},     {"gqnoenforce"},      {"pqnoenforce"},
    {"noquota"},         {"logbufs", kNumber}, {"logbsize", kWord},
    {"allocsize", kWord}};

// Lacks device, which names another device.
constexpr Option kBtrfs[] = {{"subvol", kWord},
                             {"subvolid", kNumber},
                             {"compress", kWord},
                             {"compress-force", kWord},
                             {"ssd"},
                             {"nossd"},
                             {"discard"},
                             {"nodiscard"},
                             {"autodefrag"},
                             {"noautodefrag"},
                             {"commit", kNumber},
                             {"flushoncommit"},
                             {"noflushoncommit"},
                             {"datasum"},
                             {"nodatasum"},
                             {"datacow"},
                             {"nodatacow"},
                             {"acl"},
                             {"noacl"}};

constexpr Option kSquashfs[] = {{"threads", kWord},
                                {"errors", kWord, "continue"}};

constexpr Option kErofs[] = {
    {"user_xattr"},
    {"nouser_xattr"},
    {"acl"},
    {"noacl"},
    {"cache_strategy", kWord, "disabled|readahead|readaround"}};

// Options that the kernel and libfuse take for every FUSE server. A server has
// further options of its own. Only bindfs and sshfs have lists of these,
// because their listed options are known to run no program and to read no other
// file.
constexpr Option kFuse[] = {{"allow_other"},
                            {"default_permissions"},
                            {"max_read", kNumber},
                            {"blksize", kNumber}};
// Lacks resolve-symlinks, which leads out of the source.
constexpr Option kBindfs[] = {{"map", kWord},
                              {"force-user", kWord},
                              {"force-group", kWord},
                              {"mirror", kWord},
                              {"mirror-only", kWord},
                              {"perms", kWord},
                              {"create-for-user", kWord},
                              {"create-for-group", kWord},
                              {"chown-ignore"},
                              {"chown-deny"},
                              {"chgrp-ignore"},
                              {"chgrp-deny"},
                              {"chmod-ignore"},
                              {"chmod-deny"},
                              {"xattr-none"},
                              {"xattr-ro"},
                              {"ctime-from-mtime"}};
// Lacks ssh_command and ssh's own options, because those can name programs.
constexpr Option kSshfs[] = {{"IdentityFile", kCredentials},
                             {"UserKnownHostsFile", kCredentials},
                             {"port", kNumber},
                             {"reconnect"},
                             {"ServerAliveInterval", kNumber},
                             {"ServerAliveCountMax", kNumber},
                             {"idmap", kWord, "none|user"},
                             {"uid", kNumber},
                             {"gid", kNumber},
                             {"umask", kNumber}};

struct Type {
  Options options;
  bool on_device = false;
};

const std::map<std::string_view, Type>& Types() {
  static const std::map<std::string_view, Type> types = {
      {"nfs", {kNfs}},
      {"nfs4", {kNfs}},
      {"cifs", {kCifs}},
      {"ceph", {kCeph}},
      {"9p", {k9p}},
      {"virtiofs", {kVirtiofs}},
      {"ext4", {kExt4, true}},
      {"xfs", {kXfs, true}},
      {"btrfs", {kBtrfs, true}},
      {"squashfs", {kSquashfs, true}},
      {"erofs", {kErofs, true}}};
  return types;
}

constexpr std::string_view kFusePrefix = "fuse.";

// Returns the lists of a type, the general one last.
std::array<Options, 3> ListsOf(const std::string& type) {
  if (!type.starts_with(kFusePrefix)) {
    const auto found = Types().find(type);
    return {
        found == Types().end() ? Options() : found->second.options, {}, kAny};
  }
  const std::string_view server = std::string_view(type).substr(5);
  const Options own = server == "bindfs"  ? Options(kBindfs)
                      : server == "sshfs" ? Options(kSshfs)
                                          : Options();
  return {own, kFuse, kAny};
}

bool IsOf(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           more.find(c) != std::string_view::npos;
  });
}

bool HasDots(std::string_view path) {
  return path.find("/../") != std::string_view::npos || path.ends_with("/..") ||
         path.find("/./") != std::string_view::npos || path.ends_with("/.") ||
         path.find("//") != std::string_view::npos;
}

bool IsChoice(std::string_view choices, std::string_view value) {
  while (!choices.empty()) {
    const std::size_t end = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, end) == value) {
      return true;
    }
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return false;
}

bool Takes(const Option& option, std::string_view value) {
  if (value.empty() || value.size() > kMaxValue) {
    return false;
  }
  switch (option.value) {
    case kNone:
      return false;
    case kNumber:
      return IsOf(value, "") &&
             value.find_first_not_of("0123456789") == std::string_view::npos;
    case kWord:
      return option.choices.empty() ? IsOf(value, "._:@+=/-")
                                    : IsChoice(option.choices, value);
    case kCredentials:
      // Without dots the path stays below kCredentialsDir.
      return value.starts_with(kCredentialsDir) && !HasDots(value) &&
             value.size() > sizeof(kCredentialsDir) - 1 && IsOf(value, "._/-");
  }
  return false;
}

}  // namespace

std::string FaultOfType(const std::string& type) {
  if (Types().contains(type)) {
    return "";
  }
  const bool fuse = type.starts_with(kFusePrefix) && type.size() <= 64 &&
                    type.size() > kFusePrefix.size() &&
                    IsOf(std::string_view(type).substr(5), "_-") &&
                    type[kFusePrefix.size()] != '-';
  return fuse ? "" : "must be a known type or fuse.NAME";
}

bool IsOnDevice(const std::string& type) {
  const auto found = Types().find(type);
  return found != Types().end() && found->second.on_device;
}

std::string FaultOfSource(const std::string& type, const std::string& source) {
  // A helper would take a leading '-' for an option.
  if (source.empty() || source.size() > kMaxSource || source.front() == '-' ||
      !IsOf(source, "._:@+=/~%[]-")) {
    return "must be a word of letters, digits and ._:@+=/~%[]-";
  }
  if (IsOnDevice(type) && (source.front() != '/' || HasDots(source))) {
    return "must be the absolute path of a device or an image";
  }
  return "";
}

std::string FaultOfOption(const std::string& type, const std::string& option) {
  const std::size_t equals = option.find('=');
  const std::string_view name = std::string_view(option).substr(0, equals);
  for (const Options& list : ListsOf(type)) {
    const auto found =
        std::find_if(list.begin(), list.end(),
                     [&](const Option& one) { return one.name == name; });
    if (found == list.end()) {
      continue;
    }
    if (equals == std::string::npos) {
      return found->value == kNone ? "" : "needs a value";
    }
    if (Takes(*found, std::string_view(option).substr(equals + 1))) {
      return "";
    }
    return found->value == kCredentials
               ? "must name a file below " + std::string(kCredentialsDir)
               : "cannot have this value";
  }
  return "is not allowed for " + type;
}

bool IsShownOption(const std::string& type, const std::string& option) {
  const std::string_view name =
      std::string_view(option).substr(0, option.find('='));
  for (const Options& list : ListsOf(type)) {
    const auto found =
        std::find_if(list.begin(), list.end(),
                     [&](const Option& one) { return one.name == name; });
    if (found != list.end()) {
      return found->value == kNone || found->value == kNumber ||
             (found->value == kWord && !found->choices.empty());
    }
  }
  return false;
}

}  // namespace mountd
