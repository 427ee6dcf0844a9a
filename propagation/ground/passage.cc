// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/passage.h"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

// The most entries of a list. A list without a group has one less.
constexpr std::size_t kMaxEntries = 6;

posix_acl_xattr_entry EntryOf(unsigned tag, unsigned permissions,
                              std::uint32_t id) {
  posix_acl_xattr_entry one{};
  one.e_tag = htole16(static_cast<std::uint16_t>(tag));
  one.e_perm = htole16(static_cast<std::uint16_t>(permissions));
  one.e_id = htole32(id);
  return one;
}

// Returns the list as the kernel reads and writes it
// (linux/posix_acl_xattr.h): little endian, in the order of the tags.
std::string ListFor(const Passage& passage) {
  // The entries of the owner, the group, the others and the mask name no id
  // (linux/posix_acl.h).
  constexpr auto kNobody = static_cast<std::uint32_t>(ACL_UNDEFINED_ID);
  std::array<posix_acl_xattr_entry, kMaxEntries> entries{};
  std::size_t count = 0;
  const auto add = [&](unsigned tag, unsigned permissions, std::uint32_t id) {
    entries.at(count++) = EntryOf(tag, permissions, id);
  };
  add(ACL_USER_OBJ, ACL_READ | ACL_WRITE | ACL_EXECUTE, kNobody);
  add(ACL_USER, ACL_EXECUTE, passage.uid);
  add(ACL_GROUP_OBJ, 0, kNobody);
  if (passage.group != 0) {
    add(ACL_GROUP, ACL_EXECUTE, passage.group);
  }
  add(ACL_MASK, ACL_EXECUTE, kNobody);
  add(ACL_OTHER, 0, kNobody);
  posix_acl_xattr_header header{};
  header.a_version = htole32(POSIX_ACL_XATTR_VERSION);
  std::string bytes(sizeof(header) + count * sizeof(entries[0]), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), entries.data(),
              count * sizeof(entries[0]));
  return bytes;
}

// Returns the id of the list's entry with this index.
std::uint32_t IdAt(const std::string& list, std::size_t index) {
  posix_acl_xattr_entry entry{};
  const std::size_t at = sizeof(posix_acl_xattr_header) + index * sizeof(entry);
  if (list.size() < at + sizeof(entry)) {
    return 0;
  }
  std::memcpy(&entry, list.data() + at, sizeof(entry));
  return le32toh(entry.e_id);
}

// Returns whom the list lets pass; nullopt if LetPass did not write the list.
std::optional<Passage> PassageIn(const std::string& list) {
  constexpr std::size_t kUser = 1;
  constexpr std::size_t kGroup = 3;
  Passage passage{IdAt(list, kUser), 0};
  if (list == ListFor(passage)) {
    return passage;
  }
  passage.group = IdAt(list, kGroup);
  return list == ListFor(passage) ? std::optional(passage) : std::nullopt;
}

// Returns whether EnsurePassage may complete this directory of root's. Its mode
// is 0700 before it has the list. The list's mask then shows as the group's
// mode, so the mode becomes 0710. Releases of mountd without lists made 0710
// with a group.
bool MayBecomePassage(const FileFacts& facts) {
  return (facts.mode == (S_IFDIR | 0700) || facts.mode == (S_IFDIR | 0710)) &&
         facts.uid == 0 && !facts.mount_root;
}

}  // namespace

Result<void> LetPass(const Context& context, int fd, const Passage& passage,
                     const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(fd, ""), "statx", object));
  MOUNTD_ASSIGN(const std::string list,
                Named(kernel.ReadAcl(fd), "getxattr", object));
  const std::optional<Passage> there = PassageIn(list);
  if (!MayBecomePassage(facts) ||
      (!list.empty() && (!there || there->uid != passage.uid))) {
    return MakeError(
        Code::kFailedPrecondition, "mkdirat", object,
        "a file of another type, owner, mode or user has this name; remove it");
  }
  if (facts.gid != 0) {
    MOUNTD_TRY(Named(kernel.SetOwner(fd, 0, 0), "fchownat", object));
  }
  const std::uint32_t group =
      passage.group != 0 || !there ? passage.group : there->group;
  const std::string wanted = ListFor({passage.uid, group});
  return list == wanted ? Ok()
                        : Named(kernel.SetAcl(fd, wanted), "setxattr", object);
}

Result<void> CheckKeepsLists(const Context& context, int fd,
                             const std::string& object) {
  const exec::Sys<std::string> list = context.kernel.ReadAcl(fd);
  if (exec::FailedWith(list, EOPNOTSUPP)) {
    return MakeError(
        Code::kFailedPrecondition, "check", object,
        "the kernel's tmpfs has no access control lists, which keep users from "
        "each other's allocations; use a kernel with CONFIG_TMPFS_POSIX_ACL");
  }
  return list ? Ok()
              : Result<void>(ErrnoError(list.error(), "getxattr", object));
}

Result<UniqueFd> EnsurePassage(const Context& context, int dir,
                               const std::string& name, const Passage& passage,
                               const std::string& object, exec::Undo* undo) {
  // Mode 0700, so that nobody passes until the list is set.
  MOUNTD_ASSIGN(UniqueFd fd,
                MakeAndOpenDirectory(context, dir, name, 0700, object, undo));
  MOUNTD_TRY(LetPass(context, fd.get(), passage, object));
  return fd;
}

Passage PassageOf(const Context& context, int fd) {
  const exec::Sys<std::string> list = context.kernel.ReadAcl(fd);
  return list ? PassageIn(*list).value_or(Passage{}) : Passage{};
}

}  // namespace mountd::propagation
