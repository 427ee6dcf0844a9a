// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cerrno>
#include <string>
#include <vector>

#include "mountd/kernel/kernel.h"

namespace mountd::fuzz {

// A kernel that refuses every call. Targets override the calls that they need.
class RefusingKernel : public exec::Kernel {
 public:
  exec::Sys<UniqueFd> Open(int /*dir*/, const std::string& /*path*/,
                           int /*flags*/, std::uint64_t /*resolve*/) override {
    return ENOSYS;
  }
  exec::Sys<exec::FileFacts> Stat(int /*dir*/,
                                  const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<exec::FileFacts> StatLinked(int /*dir*/,
                                        const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<std::uint64_t> LinkedMountId(int /*dir*/,
                                         const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<void> MakeDirectory(int /*dir*/, const std::string& /*name*/,
                                mode_t /*mode*/) override {
    return ENOSYS;
  }
  exec::Sys<void> MakeFile(int /*dir*/, const std::string& /*name*/,
                           mode_t /*mode*/) override {
    return ENOSYS;
  }
  exec::Sys<void> MakeLink(const std::string& /*text*/, int /*dir*/,
                           const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<std::string> ReadLink(int /*dir*/,
                                  const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<void> RemoveFile(int /*dir*/,
                             const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<void> RemoveDirectory(int /*dir*/,
                                  const std::string& /*name*/) override {
    return ENOSYS;
  }
  exec::Sys<void> Rename(int /*dir*/, const std::string& /*name*/,
                         int /*new_dir*/,
                         const std::string& /*new_name*/) override {
    return ENOSYS;
  }
  exec::Sys<void> SetOwner(int /*fd*/, uid_t /*uid*/, gid_t /*gid*/) override {
    return ENOSYS;
  }
  exec::Sys<void> SetMode(int /*fd*/, mode_t /*mode*/) override {
    return ENOSYS;
  }
  exec::Sys<std::string> ReadAcl(int /*fd*/) override { return ENOSYS; }
  exec::Sys<void> SetAcl(int /*fd*/, std::string_view /*acl*/) override {
    return ENOSYS;
  }
  exec::Sys<std::vector<std::string>> List(int /*dir*/,
                                           std::size_t /*limit*/) override {
    return ENOSYS;
  }
  exec::Sys<std::vector<exec::OrderedName>> ListAfter(
      int /*dir*/, std::uint64_t /*after*/, std::size_t /*limit*/) override {
    return ENOSYS;
  }
  exec::Sys<void> Lock(int /*fd*/) override { return ENOSYS; }
  exec::Sys<std::string> ReadFile(int /*dir*/, const std::string& /*name*/,
                                  std::size_t /*limit*/) override {
    return ENOSYS;
  }
  exec::Sys<void> Write(int /*fd*/, std::string_view /*text*/) override {
    return ENOSYS;
  }
  exec::Sys<void> WriteAs(int /*dir*/, const std::string& /*name*/,
                          uid_t /*uid*/, std::string_view /*text*/) override {
    return ENOSYS;
  }
  exec::Sys<bool> IsMemory(int /*fd*/) override { return ENOSYS; }
  exec::Sys<std::string> ReadMemory(int /*fd*/,
                                    std::size_t /*limit*/) override {
    return ENOSYS;
  }
  exec::Sys<std::string> ReadSetting(const char* /*path*/) override {
    return ENOSYS;
  }
  exec::Sys<void> WriteSetting(const char* /*path*/,
                               std::string_view /*text*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> OpenKernfs(int /*fs*/, std::uint64_t /*id*/) override {
    return ENOSYS;
  }
  exec::Sys<bool> HasEnded(int /*pidfd*/) override { return ENOSYS; }
  exec::Sys<UniqueFd> OpenFilesystem(const char* /*type*/) override {
    return ENOSYS;
  }
  exec::Sys<void> ConfigureFilesystem(int /*fs*/, const char* /*key*/,
                                      const char* /*value*/) override {
    return ENOSYS;
  }
  exec::Sys<void> CreateFilesystem(int /*fs*/) override { return ENOSYS; }
  exec::Sys<UniqueFd> MountFilesystem(int /*fs*/,
                                      unsigned /*attributes*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> CloneTree(int /*fd*/, bool /*recursive*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> LockTree(int /*tree*/,
                               std::chrono::milliseconds /*limit*/) override {
    return ENOSYS;
  }
  exec::Sys<void> SetMount(int /*tree*/, bool /*recursive*/,
                           const exec::MountChange& /*change*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> NewUserNamespace(
      const std::string& /*uid_map*/, const std::string& /*gid_map*/) override {
    return ENOSYS;
  }
  exec::Sys<void> AttachTree(int /*tree*/, int /*target*/) override {
    return ENOSYS;
  }
  exec::Sys<void> AttachBeneath(int /*tree*/, int /*target*/) override {
    return ENOSYS;
  }
  exec::Sys<void> JoinGroup(int /*from*/, int /*fd*/) override {
    return ENOSYS;
  }
  exec::Sys<void> Unmount(int /*parent*/, const std::string& /*name*/,
                          int /*flags*/) override {
    return ENOSYS;
  }
  bool CanMountBeneath() override { return false; }
  exec::Sys<exec::MountFacts> MountById(std::uint64_t /*id*/) override {
    return ENOSYS;
  }
  exec::Sys<std::vector<std::uint64_t>> MountsBelow(
      std::uint64_t /*id*/, std::uint64_t /*after*/) override {
    return ENOSYS;
  }
  exec::Sys<std::uint64_t> MountNamespaceOf(int /*process*/) override {
    return ENOTTY;
  }
  exec::Sys<std::vector<exec::MountNamespaceName>> MountNamespaces() override {
    return ENOTTY;
  }
  exec::Sys<std::vector<exec::MountFacts>> MountsOfNamespace(
      std::uint64_t /*id*/) override {
    return ENOENT;
  }
  exec::Sys<std::uint8_t> RunChild(
      const std::function<int()>& /*body*/, std::span<const int> /*kept*/,
      std::chrono::milliseconds /*limit*/) override {
    return ENOSYS;
  }
  exec::Sys<void> NewMountNamespace() override { return ENOSYS; }
  exec::Sys<void> EnterMountNamespace(int /*mount_namespace*/) override {
    return ENOSYS;
  }
  exec::Sys<std::uint64_t> OwnerOf(int /*name_space*/) override {
    return ENOSYS;
  }
  exec::Sys<uid_t> OwnerUidOf(int /*name_space*/) override { return ENOSYS; }
  exec::Sys<std::uint64_t> NamespaceTypeOf(int /*name_space*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> WatchMounts(int /*mount_namespace*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> MakeMemory(
      std::span<const std::byte> /*content*/) override {
    return ENOSYS;
  }
  exec::Sys<exec::ProbeOutcome> ProbeFilesystem(
      int /*fd*/, std::chrono::milliseconds /*deadline*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> ConnectUnix(int /*file*/) override { return ENOSYS; }
  exec::Sys<ucred> PeerOf(int /*socket*/) override { return ENOSYS; }
  exec::Sys<UniqueFd> PeerProcess(int /*socket*/) override { return ENOSYS; }
  exec::Sys<exec::NetNamespace> NewNetNamespace() override { return ENOSYS; }
  exec::Sys<UniqueFd> OpenNetlinkIn(int /*netns*/, int /*protocol*/) override {
    return ENOSYS;
  }
  exec::Sys<UniqueFd> OpenNetlink(int /*protocol*/) override { return ENOSYS; }
  exec::Sys<void> Subscribe(int /*netlink*/, unsigned /*group*/) override {
    return ENOSYS;
  }
  exec::Sys<void> Send(int /*socket*/,
                       std::span<const std::byte> /*bytes*/) override {
    return ENOSYS;
  }
  exec::Sys<std::size_t> Receive(int /*socket*/,
                                 std::span<std::byte> /*into*/) override {
    return ENOSYS;
  }
  exec::Sys<void> RunNft(const std::string& /*commands*/) override {
    return ENOSYS;
  }
};

}  // namespace mountd::fuzz
