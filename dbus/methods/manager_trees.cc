// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/stat.h>

#include "dbus/methods/manager_serve.h"
#include "dbus/receive/inbound.h"
#include "mountd/closer/passed_fd.h"

// ManagerAdaptor's methods on trees of files.
namespace mountd::dbus {
namespace {

// A directory that came with a call. Calls on the same directory have the same
// identity.
struct PassedDirectory {
  std::shared_ptr<UniqueFd> fd;
  std::string identity;  // "<device>:<inode>"
};

Result<PassedDirectory> DirectoryFrom(const sdbus::UnixFd& given) {
  PassedDirectory directory;
  directory.fd = TakePassed(given.get());
  const std::optional<PassedFile> file = LookAt(directory.fd->get());
  if (!file) {
    return ErrnoError(errno, "statx", "directory");
  }
  if (!S_ISDIR(file->mode)) {
    return MakeError(Code::kInvalidArgument, "check", "directory",
                     "must be a directory");
  }
  directory.identity = FileIdentityOf(directory.fd->get());
  return directory;
}

}  // namespace

void ManagerAdaptor::RemoveTree(sdbus::Result<Dict>&& answer,
                                sdbus::UnixFd directory, Dict options) {
  Serve<TreeResult>(
      std::move(answer), "RemoveTree",
      [&]() -> Result<Decoded<TreeResult>> {
        Decoded<TreeResult> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const PassedDirectory passed, DirectoryFrom(directory));
        call.strand = "tree " + passed.identity;
        call.arguments = Arguments::Of(passed.identity);
        call.work = [fd = passed.fd](Services& services,
                                     const CallContext& context) {
          return services.trees.RemoveTree(context, *fd);
        };
        return call;
      },
      [](const TreeResult& result) {
        return Dict{{"done", Value(result.done)}};
      });
}

void ManagerAdaptor::ChownTree(sdbus::Result<Dict>&& answer,
                               sdbus::UnixFd directory, std::uint32_t uid,
                               std::uint32_t gid, Dict options) {
  Serve<TreeResult>(
      std::move(answer), "ChownTree",
      [&]() -> Result<Decoded<TreeResult>> {
        Decoded<TreeResult> call;
        MOUNTD_ASSIGN(call.patience, OnlyPatience(options));
        MOUNTD_ASSIGN(const PassedDirectory passed, DirectoryFrom(directory));
        call.strand = "tree " + passed.identity;
        call.arguments = Arguments::Of(passed.identity, std::to_string(uid),
                                       std::to_string(gid));
        call.work = [fd = passed.fd, uid, gid](Services& services,
                                               const CallContext& context) {
          return services.trees.ChownTree(context, *fd, uid, gid);
        };
        return call;
      },
      [](const TreeResult& result) {
        return Dict{{"done", Value(result.done)}, {"left", Value(result.left)}};
      });
}

}  // namespace mountd::dbus
