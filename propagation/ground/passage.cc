// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/passage.h"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

// The list as the kernel reads and writes it (linux/posix_acl_xattr.h): little
// endian, in the order of the tags.
struct PassageList {
  posix_acl_xattr_header header{};
  std::array<posix_acl_xattr_entry, 5> entries{};
};
static_assert(sizeof(PassageList) == 44);

PassageList ListFor(std::uint32_t uid) {
  // The entries of the owner, the group, the others and the mask name no id
  // (linux/posix_acl.h).
  constexpr auto kNobody = static_cast<std::uint32_t>(ACL_UNDEFINED_ID);
  const auto entry = [](unsigned tag, unsigned permissions, std::uint32_t id) {
    posix_acl_xattr_entry one{};
    one.e_tag = htole16(static_cast<std::uint16_t>(tag));
    one.e_perm = htole16(static_cast<std::uint16_t>(permissions));
    one.e_id = htole32(id);
    return one;
  };
  PassageList list;
  list.header.a_version = htole32(POSIX_ACL_XATTR_VERSION);
  list.entries = {
      entry(ACL_USER_OBJ, ACL_READ | ACL_WRITE | ACL_EXECUTE, kNobody),
      entry(ACL_USER, ACL_EXECUTE, uid), entry(ACL_GROUP_OBJ, 0, kNobody),
      entry(ACL_MASK, ACL_EXECUTE, kNobody), entry(ACL_OTHER, 0, kNobody)};
  return list;
}

std::string BytesOf(const PassageList& list) {
  std::string bytes(sizeof(list), '\0');
  std::memcpy(bytes.data(), &list, sizeof(list));
  return bytes;
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

Result<void> LetPass(const Context& context, int fd, std::uint32_t uid,
                     const std::string& object) {
  exec::Kernel& kernel = context.kernel;
  MOUNTD_ASSIGN(const FileFacts facts,
                Named(kernel.Stat(fd, ""), "statx", object));
  MOUNTD_ASSIGN(const std::string list,
                Named(kernel.ReadAcl(fd), "getxattr", object));
  const std::string wanted = BytesOf(ListFor(uid));
  if (!MayBecomePassage(facts) || (!list.empty() && list != wanted)) {
    return MakeError(
        Code::kFailedPrecondition, "mkdirat", object,
        "a file of another type, owner, mode or user has this name; remove it");
  }
  if (facts.gid != 0) {
    MOUNTD_TRY(Named(kernel.SetOwner(fd, 0, 0), "fchownat", object));
  }
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
                               const std::string& name, std::uint32_t uid,
                               const std::string& object, exec::Undo* undo) {
  // Mode 0700, so that nobody passes until the list is set.
  MOUNTD_ASSIGN(UniqueFd fd,
                MakeAndOpenDirectory(context, dir, name, 0700, object, undo));
  MOUNTD_TRY(LetPass(context, fd.get(), uid, object));
  return fd;
}

std::uint32_t PasserOf(const Context& context, int fd) {
  const exec::Sys<std::string> list = context.kernel.ReadAcl(fd);
  PassageList there;
  if (!list || list->size() != sizeof(there)) {
    return 0;
  }
  std::memcpy(&there, list->data(), sizeof(there));
  const std::uint32_t uid = le32toh(there.entries[1].e_id);
  return *list == BytesOf(ListFor(uid)) ? uid : 0;
}

}  // namespace mountd::propagation
