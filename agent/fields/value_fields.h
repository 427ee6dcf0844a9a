// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

#include "agent/fields/grant_fields.h"
#include "agent/fields/lease_fields.h"
#include "agent/fields/mount_fields.h"
#include "agent/fields/network_fields.h"
#include "agent/fields/node_fields.h"
#include "agent/fields/volume_fields.h"

// All members of each type of types.h. The lists of the other headers lack the
// arguments of the methods, which are no keys of a dictionary.
namespace mountd::agent {

// Returns true for members that may hold a secret: CSI says that mount flags
// may, and plugins put credentials into contexts. The request of a controller
// call contains such members.
constexpr bool IsSensitive(std::string_view key) {
  constexpr std::array<std::string_view, 5> kSensitive = {
      "mount_flags", "publish_context", "request", "secrets", "volume_context"};
  return std::find(kSensitive.begin(), kSensitive.end(), key) !=
         kSensitive.end();
}

template <typename T>
struct MembersOf {};

template <HasFields T>
struct MembersOf<T> {
  static constexpr auto kList = FieldsOf<T>::kList;
};

template <>
struct MembersOf<AllocationOptions> {
  static constexpr auto kList =
      std::tuple(Key("scope", &AllocationOptions::scope),
                 Key<Form::kFd>("cgroup", &AllocationOptions::cgroup),
                 Key("group", &AllocationOptions::group),
                 Key("lease_required", &AllocationOptions::lease_required));
};

template <>
struct MembersOf<CallNames> {
  static constexpr auto kList =
      std::tuple(Key("traceparent", &CallNames::traceparent),
                 Key("request_id", &CallNames::request_id));
};

template <>
struct MembersOf<LeaseSpec> {
  static constexpr auto kList = std::tuple(
      Key("allocation", &LeaseSpec::allocation),
      Key("scope", &LeaseSpec::scope), Key<Form::kFd>("pipe", &LeaseSpec::pipe),
      Key("timeout_ms", &LeaseSpec::timeout_ms), Key("keep", &LeaseSpec::keep),
      Key("stop_tasks", &LeaseSpec::stop_tasks));
};

template <>
struct MembersOf<Reconciliation> {
  static constexpr auto kList =
      std::tuple(Key("scope", &Reconciliation::scope),
                 Key("epoch", &Reconciliation::epoch),
                 Key("wanted", &Reconciliation::wanted),
                 Key("dry_run", &Reconciliation::dry_run));
};

template <std::size_t... kIndex>
constexpr auto MountFlagMembers(std::index_sequence<kIndex...> /*all*/) {
  return std::tuple(Key(std::get<kIndex>(kMountFlags).key,
                        std::get<kIndex>(kMountFlags).member)...);
}

template <>
struct MembersOf<BindMountSpec> {
  static constexpr auto kList = std::tuple_cat(
      kMountArguments, FieldsOf<BindMountSpec>::kList,
      MountFlagMembers(std::make_index_sequence<kMountFlags.size()>()));
};

template <>
struct MembersOf<NetworkSpec> {
  static constexpr auto kList =
      std::tuple_cat(std::tuple(Key("mode", &NetworkSpec::mode),
                                Key<Form::kRows>("ports", &NetworkSpec::ports)),
                     FieldsOf<NetworkSpec>::kList);
};

template <>
struct MembersOf<OwedSummary> {
  static constexpr auto kList = std::tuple(Key("count", &OwedSummary::count),
                                           Key("since", &OwedSummary::since));
};

template <>
struct MembersOf<PluginSpec> {
  static constexpr auto kList = std::tuple(
      Key("plugin", &PluginSpec::plugin), Key("type", &PluginSpec::type),
      Key("allocation", &PluginSpec::allocation),
      Key("mount_dir", &PluginSpec::mount_dir),
      Key("stage_publish_base_dir", &PluginSpec::stage_publish_base_dir),
      Key("bare_directories", &PluginSpec::bare_directories),
      Key("health_timeout_ms", &PluginSpec::health_timeout));
};

template <>
struct MembersOf<PluginSelection> {
  static constexpr auto kList =
      std::tuple(Key("type", &PluginSelection::type),
                 Key("allocation", &PluginSelection::allocation),
                 Key("force", &PluginSelection::force));
};

template <>
struct MembersOf<VolumeSpec> {
  static constexpr auto kList = std::tuple(
      Key("alias", &VolumeSpec::alias), Key("volume", &VolumeSpec::volume),
      Key("plugin", &VolumeSpec::plugin), Key("usage", &VolumeSpec::usage),
      Key("publish_context", &VolumeSpec::publish_context),
      Key("volume_context", &VolumeSpec::volume_context),
      Key("secrets", &VolumeSpec::secrets));
};

template <>
struct MembersOf<VolumeExpansion> {
  static constexpr auto kList =
      std::tuple(Key("required_bytes", &VolumeExpansion::required_bytes),
                 Key("limit_bytes", &VolumeExpansion::limit_bytes),
                 Key("secrets", &VolumeExpansion::secrets));
};

template <>
struct MembersOf<ControllerPublishSpec> {
  static constexpr auto kList =
      std::tuple(Key("plugin", &ControllerPublishSpec::plugin),
                 Key("volume", &ControllerPublishSpec::volume),
                 Key("node_id", &ControllerPublishSpec::node_id),
                 Key("usage", &ControllerPublishSpec::usage),
                 Key("volume_context", &ControllerPublishSpec::volume_context),
                 Key("secrets", &ControllerPublishSpec::secrets));
};

template <>
struct MembersOf<VolumeValidationSpec> {
  static constexpr auto kList = std::tuple(
      Key("plugin", &VolumeValidationSpec::plugin),
      Key("volume", &VolumeValidationSpec::volume),
      Key("usage", &VolumeValidationSpec::usage),
      Key("volume_context", &VolumeValidationSpec::volume_context),
      Key("parameters", &VolumeValidationSpec::parameters),
      Key("secrets", &VolumeValidationSpec::secrets),
      Key("mutable_parameters", &VolumeValidationSpec::mutable_parameters));
};

template <>
struct MembersOf<VolumeCreation> {
  static constexpr auto kList =
      std::tuple_cat(std::tuple(Key("plugin", &VolumeCreation::plugin),
                                Key("name", &VolumeCreation::name)),
                     FieldsOf<VolumeCreation>::kList,
                     std::tuple(Key("secrets", &VolumeCreation::secrets)));
};

template <>
struct MembersOf<PageRequest> {
  static constexpr auto kList =
      std::tuple(Key("max_entries", &PageRequest::max_entries),
                 Key("starting_token", &PageRequest::starting_token));
};

template <>
struct MembersOf<ControllerExpansionSpec> {
  static constexpr auto kList = std::tuple(
      Key("plugin", &ControllerExpansionSpec::plugin),
      Key("volume", &ControllerExpansionSpec::volume),
      Key("required_bytes", &ControllerExpansionSpec::required_bytes),
      Key("limit_bytes", &ControllerExpansionSpec::limit_bytes),
      Key("usage", &ControllerExpansionSpec::usage),
      Key("secrets", &ControllerExpansionSpec::secrets));
};

template <>
struct MembersOf<CapacityQuery> {
  static constexpr auto kList =
      std::tuple(Key("usages", &CapacityQuery::usages),
                 Key("parameters", &CapacityQuery::parameters),
                 Key("topology", &CapacityQuery::topology));
};

template <>
struct MembersOf<ControllerCall> {
  static constexpr auto kList = std::tuple(
      Key("plugin", &ControllerCall::plugin), Key("rpc", &ControllerCall::rpc),
      Key("request", &ControllerCall::request),
      Key("secrets", &ControllerCall::secrets));
};

}  // namespace mountd::agent
