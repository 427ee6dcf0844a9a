// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>

#include "agent/fields/field.h"

// The fields of mounts, of tasks' views of mounts, and of their users.
namespace mountd::agent {

// An attribute that a caller can ask for: an option of BindMount, a flag of
// mountctl mount and a key of a job's mounts.
struct MountFlag {
  const char* key;
  bool BindMountSpec::*member;
  const char* help;
};
inline constexpr std::array kMountFlags = {
    MountFlag{"noexec", &BindMountSpec::noexec,
              "Refuse to execute programs on it"},
    MountFlag{"noatime", &BindMountSpec::noatime,
              "Do not update access times on it"},
    MountFlag{"nosymfollow", &BindMountSpec::nosymfollow,
              "Do not follow symbolic links in it"},
};

template <>
struct FieldsOf<IdExtent> {
  static constexpr auto kList = std::tuple(Key("on_disk", &IdExtent::on_disk),
                                           Key("shown", &IdExtent::shown),
                                           Key("count", &IdExtent::count));
};

template <>
struct FieldsOf<TmpfsOptions> {
  static constexpr auto kList = std::tuple(
      Always("size", &TmpfsOptions::size), Key("inodes", &TmpfsOptions::inodes),
      Key("mode", &TmpfsOptions::mode), Key("uid", &TmpfsOptions::uid),
      Key("gid", &TmpfsOptions::gid), Key("noswap", &TmpfsOptions::noswap));
};

// The options of BindMount, beside kMountFlags.
template <>
struct FieldsOf<BindMountSpec> {
  static constexpr auto kList = std::tuple(
      Key("task_path", &BindMountSpec::task_path),
      Key<Form::kRows>("idmap", &BindMountSpec::id_map),
      Key<Form::kRows>("uidmap", &BindMountSpec::uid_map),
      Key<Form::kRows>("gidmap", &BindMountSpec::gid_map),
      Key<Form::kSame>("", &BindMountSpec::tmpfs),
      Key<Form::kFd>("directory", &BindMountSpec::directory),
      Key<Form::kFd>("source_directory", &BindMountSpec::source_directory),
      Key<Form::kFd>("container", &BindMountSpec::container));
};

// The arguments of BindMount, which are keys in BindMounts.
inline constexpr auto kMountArguments = std::tuple(
    Always("task", &BindMountSpec::task), Always("name", &BindMountSpec::name),
    Always("source_type", &BindMountSpec::source_type),
    Always("source", &BindMountSpec::source),
    Always("read_only", &BindMountSpec::read_only),
    Always("propagation", &BindMountSpec::propagation));

template <>
struct FieldsOf<MountConfig> {
  static constexpr auto kList =
      std::tuple(Key<Form::kPath>("host_path", &MountConfig::host_path),
                 Key("task_path", &MountConfig::task_path),
                 Key("read_only", &MountConfig::read_only),
                 Key("propagation", &MountConfig::propagation),
                 Key("required_rootfs_propagation",
                     &MountConfig::required_rootfs_propagation),
                 Key("mount_id", &MountConfig::mount_id),
                 Key("peer_group", &MountConfig::peer_group),
                 Key("master", &MountConfig::master));
};

template <>
struct FieldsOf<MountStatus> {
  static constexpr auto kList = std::tuple(
      Key("task", &MountStatus::task), Key("name", &MountStatus::name),
      Key("source_type", &MountStatus::source_type),
      Key("source", &MountStatus::source), Key("state", &MountStatus::state),
      Key("health", &MountStatus::health),
      Key<Form::kSame>("", &MountStatus::config));
};

template <>
struct FieldsOf<Holder> {
  static constexpr auto kList = std::tuple(
      Key("pid", &Holder::pid), Key("uid", &Holder::uid),
      Key("command", &Holder::command), Key("how", &Holder::how),
      Key("in_cgroup", &Holder::in_cgroup), Key("copy", &Holder::copy));
};

template <>
struct FieldsOf<Holders> {
  static constexpr auto kList =
      std::tuple(Key("holders", &Holders::holders), Key("more", &Holders::more),
                 Key("complete", &Holders::complete));
};

template <>
struct FieldsOf<HandedOut> {
  static constexpr auto kList = std::tuple(
      Key("kind", &HandedOut::kind),
      Key("source_type", &HandedOut::source_type),
      Key("source", &HandedOut::source), Key("task", &HandedOut::task),
      Key("mount_id", &HandedOut::mount_id),
      Key<Form::kSame>("", &HandedOut::holders));
};

template <>
struct FieldsOf<HandedOutList> {
  static constexpr auto kList =
      std::tuple(Key("descriptors", &HandedOutList::descriptors),
                 Key("complete", &HandedOutList::complete));
};

template <>
struct FieldsOf<ReplacedMount> {
  static constexpr auto kList =
      std::tuple(Key<Form::kSame>("", &ReplacedMount::config),
                 Key("replaced_mount_id", &ReplacedMount::replaced_mount_id),
                 Key("old_holders", &ReplacedMount::old_holders));
};

template <>
struct FieldsOf<RepairedMount> {
  static constexpr auto kList =
      std::tuple(Key<Form::kSame>("", &RepairedMount::config),
                 Key("replaced_mount_id", &RepairedMount::replaced_mount_id),
                 Key("reaches_task", &RepairedMount::reaches_task),
                 Key("reason", &RepairedMount::reason),
                 Key("old_holders", &RepairedMount::old_holders));
};

template <>
struct FieldsOf<InboxConfig> {
  static constexpr auto kList =
      std::tuple(Key<Form::kPath>("host_path", &InboxConfig::host_path),
                 Key("propagation", &InboxConfig::propagation),
                 Key("required_rootfs_propagation",
                     &InboxConfig::required_rootfs_propagation));
};

template <>
struct FieldsOf<TaskMount> {
  static constexpr auto kList = std::tuple(
      Key("name", &TaskMount::name), Key("verdict", &TaskMount::verdict),
      Key("reason", &TaskMount::reason),
      Key("read_only", &TaskMount::read_only),
      Key("nosuid", &TaskMount::nosuid), Key("nodev", &TaskMount::nodev),
      Key("noexec", &TaskMount::noexec),
      Key("nosymfollow", &TaskMount::nosymfollow),
      Key("peer_group", &TaskMount::peer_group),
      Key("master", &TaskMount::master));
};

template <>
struct FieldsOf<TaskReport> {
  static constexpr auto kList =
      std::tuple(Key("ok", &TaskReport::ok), Key("mounts", &TaskReport::mounts),
                 Key("mount_namespace", &TaskReport::mount_namespace),
                 Key("own_user_namespace", &TaskReport::own_user_namespace));
};

}  // namespace mountd::agent
