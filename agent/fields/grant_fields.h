// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/fields/field.h"

// The fields of what a user may use.
namespace mountd::agent {

template <>
struct FieldsOf<IdRange> {
  static constexpr auto kList =
      std::tuple(Key("first", &IdRange::first), Key("last", &IdRange::last));
};

template <>
struct FieldsOf<PortRange> {
  static constexpr auto kList = std::tuple(Key("first", &PortRange::first),
                                           Key("last", &PortRange::last));
};

template <>
struct FieldsOf<SourceGrant> {
  static constexpr auto kList = std::tuple(
      Key("name", &SourceGrant::name),
      Key("read_only_propagation", &SourceGrant::read_only_propagation),
      Key("writable_propagation", &SourceGrant::writable_propagation),
      Key("attributes", &SourceGrant::attributes),
      Key<Form::kRows>("ids", &SourceGrant::ids),
      Key("uids", &SourceGrant::uids), Key("limits", &SourceGrant::limits));
};

template <>
struct FieldsOf<HostVolumeGrant> {
  static constexpr auto kList =
      std::tuple(Key<Form::kSame>("", &HostVolumeGrant::source),
                 Key<Form::kPath>("path", &HostVolumeGrant::path),
                 Key("root_as_caller", &HostVolumeGrant::root_as_caller));
};

template <>
struct FieldsOf<FilesystemGrant> {
  static constexpr auto kList =
      std::tuple(Key<Form::kSame>("", &FilesystemGrant::source),
                 Key("type", &FilesystemGrant::type),
                 Key("options", &FilesystemGrant::options));
};

template <>
struct FieldsOf<NetworkGrant> {
  static constexpr auto kList = std::tuple(
      Key("network", &NetworkGrant::network), Key("mode", &NetworkGrant::mode),
      Key("ipv4", &NetworkGrant::ipv4), Key("ipv6", &NetworkGrant::ipv6),
      Key("mtu", &NetworkGrant::mtu), Key("unusable", &NetworkGrant::unusable),
      Key<Form::kRows>("host_ports", &NetworkGrant::host_ports),
      Key("host_namespaces", &NetworkGrant::host_namespaces),
      Key("limits", &NetworkGrant::limits));
};

}  // namespace mountd::agent
