// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fakes/injecting_calls.h"

namespace mountd::exec {

// Passes on the calls about files.
class InjectingFiles : public InjectingCalls {
 public:
  Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                     std::uint64_t resolve) override {
    return Pass<UniqueFd>(
        "Open", [&] { return kernel_.Open(dir, path, flags, resolve); });
  }
  Sys<FileFacts> Stat(int dir, const std::string& name) override {
    return Pass<FileFacts>("Stat", [&]() -> Sys<FileFacts> {
      Sys<FileFacts> facts = kernel_.Stat(dir, name);
      struct statx stx = {};
      const int flags = AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW |
                        (name.empty() ? AT_EMPTY_PATH : 0);
      if (facts && hide_unique_ids_ &&
          ::statx(dir, name.c_str(), flags, STATX_MNT_ID, &stx) == 0) {
        facts->mount_id = stx.stx_mnt_id;
        facts->mount_id_is_unique = false;
      }
      return facts;
    });
  }
  Sys<FileFacts> StatLinked(int dir, const std::string& name) override {
    return Pass<FileFacts>("StatLinked",
                           [&] { return kernel_.StatLinked(dir, name); });
  }
  Sys<std::uint64_t> LinkedMountId(int dir, const std::string& name) override {
    return Pass<std::uint64_t>(
        "LinkedMountId", [&] { return kernel_.LinkedMountId(dir, name); });
  }
  Sys<void> MakeDirectory(int dir, const std::string& name,
                          mode_t mode) override {
    return Pass<void>("MakeDirectory",
                      [&] { return kernel_.MakeDirectory(dir, name, mode); });
  }
  Sys<void> MakeFile(int dir, const std::string& name, mode_t mode) override {
    return Pass<void>("MakeFile",
                      [&] { return kernel_.MakeFile(dir, name, mode); });
  }
  Sys<void> MakeLink(const std::string& text, int dir,
                     const std::string& name) override {
    return Pass<void>("MakeLink",
                      [&] { return kernel_.MakeLink(text, dir, name); });
  }
  Sys<std::string> ReadLink(int dir, const std::string& name) override {
    return Pass<std::string>("ReadLink",
                             [&] { return kernel_.ReadLink(dir, name); });
  }
  Sys<void> RemoveFile(int dir, const std::string& name) override {
    return Pass<void>("RemoveFile",
                      [&] { return kernel_.RemoveFile(dir, name); });
  }
  Sys<void> RemoveDirectory(int dir, const std::string& name) override {
    return Pass<void>("RemoveDirectory",
                      [&] { return kernel_.RemoveDirectory(dir, name); });
  }
  Sys<void> Rename(int dir, const std::string& name, int new_dir,
                   const std::string& new_name) override {
    return Pass<void>(
        "Rename", [&] { return kernel_.Rename(dir, name, new_dir, new_name); });
  }
  Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) override {
    return Pass<void>("SetOwner",
                      [&] { return kernel_.SetOwner(fd, uid, gid); });
  }
  Sys<void> SetMode(int fd, mode_t mode) override {
    return Pass<void>("SetMode", [&] { return kernel_.SetMode(fd, mode); });
  }
  Sys<std::string> ReadAcl(int fd) override {
    return Pass<std::string>("ReadAcl", [&] { return kernel_.ReadAcl(fd); });
  }
  Sys<void> SetAcl(int fd, std::string_view acl) override {
    return Pass<void>("SetAcl", [&] { return kernel_.SetAcl(fd, acl); });
  }
  Sys<std::vector<std::string>> List(int dir, std::size_t limit) override {
    return Pass<std::vector<std::string>>(
        "List", [&] { return kernel_.List(dir, limit); });
  }
  Sys<std::vector<OrderedName>> ListAfter(int dir, std::uint64_t after,
                                          std::size_t limit) override {
    return Pass<std::vector<OrderedName>>(
        "ListAfter", [&] { return kernel_.ListAfter(dir, after, limit); });
  }
  Sys<void> Lock(int fd) override {
    return Pass<void>("Lock", [&] { return kernel_.Lock(fd); });
  }
  Sys<std::string> ReadFile(int dir, const std::string& name,
                            std::size_t limit) override {
    return Pass<std::string>("ReadFile", [&]() -> Sys<std::string> {
      const bool table = name.starts_with("tcp") || name.starts_with("udp");
      if (hide_socket_tables_ && table) {
        return EACCES;
      }
      return kernel_.ReadFile(dir, name, limit);
    });
  }
  Sys<bool> IsMemory(int fd) override {
    return Pass<bool>("IsMemory", [&] { return kernel_.IsMemory(fd); });
  }
  Sys<std::string> ReadMemory(int fd, std::size_t limit) override {
    return Pass<std::string>("ReadMemory",
                             [&] { return kernel_.ReadMemory(fd, limit); });
  }
  Sys<void> Write(int fd, std::string_view text) override {
    return Pass<void>("Write", [&] { return kernel_.Write(fd, text); });
  }
  Sys<void> WriteAs(int dir, const std::string& name, uid_t uid,
                    std::string_view text) override {
    return Pass<void>("WriteAs",
                      [&] { return kernel_.WriteAs(dir, name, uid, text); });
  }
  Sys<std::string> ReadSetting(const char* path) override {
    return Pass<std::string>("ReadSetting",
                             [&] { return kernel_.ReadSetting(path); });
  }
  Sys<void> WriteSetting(const char* path, std::string_view text) override {
    return Pass<void>("WriteSetting",
                      [&] { return kernel_.WriteSetting(path, text); });
  }
  Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) override {
    return Pass<UniqueFd>("MakeMemory",
                          [&] { return kernel_.MakeMemory(content); });
  }

  Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) override {
    return Pass<UniqueFd>("OpenKernfs",
                          [&] { return kernel_.OpenKernfs(fs, id); });
  }

 protected:
  using InjectingCalls::InjectingCalls;
};

}  // namespace mountd::exec
