// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/fields/field.h"
#include "agent/types_controller.h"

// The fields of volumes, plugins, and what plugins' controllers answer.
namespace mountd::agent {

template <>
struct FieldsOf<VolumeUsage> {
  static constexpr auto kList =
      std::tuple(Key("read_only", &VolumeUsage::read_only),
                 Key("access_mode", &VolumeUsage::access_mode),
                 Key("attachment_mode", &VolumeUsage::attachment_mode),
                 Key("fs_type", &VolumeUsage::fs_type),
                 Key("volume_mount_group", &VolumeUsage::volume_mount_group),
                 Key("mount_flags", &VolumeUsage::mount_flags));
};

template <>
struct FieldsOf<PublishedVolume> {
  static constexpr auto kList =
      std::tuple(Key<Form::kPath>("host_path", &PublishedVolume::host_path),
                 Key("read_only", &PublishedVolume::read_only),
                 Key("is_device", &PublishedVolume::is_device),
                 Key("device_major", &PublishedVolume::device_major),
                 Key("device_minor", &PublishedVolume::device_minor),
                 Key("device_rule", &PublishedVolume::device_rule));
};

template <>
struct FieldsOf<VolumeUse> {
  static constexpr auto kList = std::tuple(
      Key("unit", &VolumeUse::unit), Key("total", &VolumeUse::total),
      Key("used", &VolumeUse::used), Key("available", &VolumeUse::available));
};

template <>
struct FieldsOf<VolumeStats> {
  static constexpr auto kList =
      std::tuple(Key<Form::kRows>("usage", &VolumeStats::usage),
                 Key("abnormal", &VolumeStats::abnormal),
                 Key("condition", &VolumeStats::condition),
                 Key<Form::kPresent>("abnormal", &VolumeStats::has_condition));
};

template <>
struct FieldsOf<VolumeStatus> {
  static constexpr auto kList = std::tuple(
      Key("alias", &VolumeStatus::alias), Key("plugin", &VolumeStatus::plugin),
      Key("volume", &VolumeStatus::volume), Key("state", &VolumeStatus::state),
      Key("read_only", &VolumeStatus::read_only),
      Key<Form::kPath>("host_path", &VolumeStatus::host_path));
};

template <>
struct FieldsOf<VolumeUser> {
  static constexpr auto kList =
      std::tuple(Key("allocation", &VolumeUser::allocation),
                 Key("alias", &VolumeUser::alias));
};

template <>
struct FieldsOf<StagedVolume> {
  static constexpr auto kList = std::tuple(
      Key("plugin", &StagedVolume::plugin),
      Key("volume", &StagedVolume::volume), Key("state", &StagedVolume::state),
      Key("attachment_mode", &StagedVolume::attachment_mode),
      Key("access_mode", &StagedVolume::access_mode),
      Key("fs_type", &StagedVolume::fs_type),
      Key("needs_secrets", &StagedVolume::needs_secrets),
      Key<Form::kRows>("users", &StagedVolume::users),
      Key("abnormal", &StagedVolume::abnormal),
      Key("condition", &StagedVolume::condition),
      Key<Form::kPresent>("abnormal", &StagedVolume::has_condition));
};

template <>
struct FieldsOf<PluginMount> {
  static constexpr auto kList =
      std::tuple(Key<Form::kPath>("host_path", &PluginMount::host_path),
                 Key("task_path", &PluginMount::task_path),
                 Key("read_only", &PluginMount::read_only),
                 Key("propagation", &PluginMount::propagation));
};

template <>
struct FieldsOf<NodeInfo> {
  static constexpr auto kList = std::tuple(
      Key("node_id", &NodeInfo::node_id),
      Key("max_volumes", &NodeInfo::max_volumes),
      Key("topology", &NodeInfo::topology), Key("changed", &NodeInfo::changed));
};

template <>
struct FieldsOf<PluginRegistration> {
  static constexpr auto kList =
      std::tuple(Key<Form::kPath>("host_path", &PluginRegistration::host_path),
                 Key("endpoint", &PluginRegistration::endpoint),
                 Key<Form::kRows>("mounts", &PluginRegistration::mounts));
};

template <>
struct FieldsOf<PluginStatus> {
  static constexpr auto kList = std::tuple(
      Key("id", &PluginStatus::id), Key("type", &PluginStatus::type),
      Key("uid", &PluginStatus::uid),
      Key("allocation", &PluginStatus::allocation),
      Key("state", &PluginStatus::state), Key("reason", &PluginStatus::reason),
      Key("provider", &PluginStatus::provider),
      Key("vendor_version", &PluginStatus::vendor_version),
      Key("node_id", &PluginStatus::node_id),
      Key("max_volumes", &PluginStatus::max_volumes),
      Key("topology", &PluginStatus::topology),
      Key<Form::kNodeRpcs>("node_capabilities",
                           &PluginStatus::node_capabilities),
      Key<Form::kControllerRpcs>("controller_capabilities",
                                 &PluginStatus::controller_capabilities),
      Key<Form::kServices>("plugin_capabilities",
                           &PluginStatus::plugin_capabilities),
      Key("generation", &PluginStatus::generation),
      Key("mount_dir", &PluginStatus::mount_dir),
      Key("stage_publish_base_dir", &PluginStatus::stage_publish_base_dir),
      Key("bare_directories", &PluginStatus::bare_directories),
      Key("update_time", &PluginStatus::update_time),
      Key("instances", &PluginStatus::instances));
};

template <>
struct FieldsOf<VolumeCreation> {
  static constexpr auto kList =
      std::tuple(Key("required_bytes", &VolumeCreation::required_bytes),
                 Key("limit_bytes", &VolumeCreation::limit_bytes),
                 Always("usages", &VolumeCreation::usages),
                 Key("parameters", &VolumeCreation::parameters),
                 Key("mutable_parameters", &VolumeCreation::mutable_parameters),
                 Key("source_snapshot", &VolumeCreation::source_snapshot),
                 Key("source_volume", &VolumeCreation::source_volume),
                 Key("requisite", &VolumeCreation::requisite),
                 Key("preferred", &VolumeCreation::preferred));
};

template <>
struct FieldsOf<VolumeValidation> {
  static constexpr auto kList =
      std::tuple(Key("confirmed", &VolumeValidation::confirmed),
                 Key("message", &VolumeValidation::message));
};

template <>
struct FieldsOf<PluginVolume> {
  static constexpr auto kList =
      std::tuple(Key("volume", &PluginVolume::volume),
                 Key("capacity_bytes", &PluginVolume::capacity_bytes),
                 Key("volume_context", &PluginVolume::volume_context),
                 Key("source_snapshot", &PluginVolume::source_snapshot),
                 Key("source_volume", &PluginVolume::source_volume),
                 Key("topology", &PluginVolume::topology),
                 Key("published_node_ids", &PluginVolume::published_node_ids),
                 Key("abnormal", &PluginVolume::abnormal),
                 Key("condition", &PluginVolume::condition),
                 Key<Form::kPresent>("abnormal", &PluginVolume::has_condition));
};

template <>
struct FieldsOf<PluginVolumePage> {
  static constexpr auto kList =
      std::tuple(Key("volumes", &PluginVolumePage::volumes),
                 Key("next_token", &PluginVolumePage::next_token));
};

template <>
struct FieldsOf<ControllerExpansion> {
  static constexpr auto kList =
      std::tuple(Key("capacity_bytes", &ControllerExpansion::capacity_bytes),
                 Key("node_expansion_required",
                     &ControllerExpansion::node_expansion_required));
};

template <>
struct FieldsOf<PluginCapacity> {
  static constexpr auto kList = std::tuple(
      Key("available_bytes", &PluginCapacity::available_bytes),
      Key("maximum_volume_bytes", &PluginCapacity::maximum_volume_bytes),
      Key("minimum_volume_bytes", &PluginCapacity::minimum_volume_bytes));
};

}  // namespace mountd::agent
