// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/fields/mount_fields.h"
#include "agent/fields/network_fields.h"
#include "agent/fields/volume_fields.h"

// The fields of allocations, their releases, operations and the node.
namespace mountd::agent {

template <>
struct FieldsOf<ReleasedVolume> {
  static constexpr auto kList =
      std::tuple(Key("plugin", &ReleasedVolume::plugin),
                 Key("volume", &ReleasedVolume::volume),
                 Key("unstaged", &ReleasedVolume::unstaged));
};

template <>
struct FieldsOf<Receipt> {
  static constexpr auto kList =
      std::tuple(Key("allocation", &Receipt::allocation),
                 Key("released_at", &Receipt::released_at),
                 Key("node_detached", &Receipt::node_detached),
                 Key<Form::kRows>("volumes", &Receipt::volumes),
                 Key<Form::kPairs>("owed", &Receipt::owed),
                 Key("serial", &Receipt::serial),
                 Key("traceparent", &Receipt::traceparent),
                 Key("request_id", &Receipt::request_id));
};

template <>
struct FieldsOf<AllocationStatus> {
  static constexpr auto kList = std::tuple(
      Key("id", &AllocationStatus::id), Key("uid", &AllocationStatus::uid),
      Key("scope", &AllocationStatus::scope),
      Key("state", &AllocationStatus::state),
      Key<Form::kPath>("host_path", &AllocationStatus::host_path),
      Key("networks", &AllocationStatus::networks),
      Key("volumes", &AllocationStatus::volumes),
      Key("mounts", &AllocationStatus::mounts),
      Key("inboxes", &AllocationStatus::inboxes),
      Key("group", &AllocationStatus::group));
};

// A row of ListAllocations.
template <>
struct FieldsOf<AllocationEntry> {
  static constexpr auto kList = std::tuple(
      Key("id", &AllocationEntry::id), Key("uid", &AllocationEntry::uid),
      Key("scope", &AllocationEntry::scope),
      Key("state", &AllocationEntry::state));
};

template <>
struct FieldsOf<ReconciledAllocation> {
  static constexpr auto kList =
      std::tuple(Key("allocation", &ReconciledAllocation::allocation),
                 Key("outcome", &ReconciledAllocation::outcome),
                 Key("reason", &ReconciledAllocation::reason),
                 Key("needs", &ReconciledAllocation::needs),
                 Key("holders", &ReconciledAllocation::holders));
};

template <>
struct FieldsOf<TreeResult> {
  static constexpr auto kList = std::tuple(Key("done", &TreeResult::done),
                                           Key("left", &TreeResult::left));
};

// A row of ListOwed.
template <>
struct FieldsOf<OwedTeardown> {
  static constexpr auto kList =
      std::tuple(Key("id", &OwedTeardown::id), Key("kind", &OwedTeardown::kind),
                 Key("object", &OwedTeardown::object),
                 Key("reason", &OwedTeardown::reason),
                 Key("attempts", &OwedTeardown::attempts),
                 Key("since", &OwedTeardown::since));
};

template <>
struct FieldsOf<OperationSpan> {
  static constexpr auto kList = std::tuple(
      Key("name", &OperationSpan::name), Key("kind", &OperationSpan::kind),
      Key("span_id", &OperationSpan::span_id),
      Key("parent_span_id", &OperationSpan::parent_span_id),
      Key("start_ns", &OperationSpan::start_ns),
      Key("end_ns", &OperationSpan::end_ns),
      Key("error", &OperationSpan::error));
};

template <>
struct FieldsOf<OperationStatus> {
  static constexpr auto kList = std::tuple(
      Key("id", &OperationStatus::id), Key("method", &OperationStatus::method),
      Key("object", &OperationStatus::object),
      Key("uid", &OperationStatus::uid),
      Key("elapsed_ms", &OperationStatus::elapsed),
      Key("waiters", &OperationStatus::waiters),
      Key("cancelled", &OperationStatus::cancelled),
      Key("step", &OperationStatus::step), Key("done", &OperationStatus::done),
      Key("total", &OperationStatus::total),
      Key("attempt", &OperationStatus::attempt),
      Key("error", &OperationStatus::error),
      Key("traceparent", &OperationStatus::traceparent),
      Key("request_id", &OperationStatus::request_id),
      Key("span_id", &OperationStatus::span_id),
      Key("spans", &OperationStatus::spans),
      Key("spans_left_out", &OperationStatus::spans_left_out));
};

template <>
struct FieldsOf<AddressUsage> {
  static constexpr auto kList =
      std::tuple(Key("capacity", &AddressUsage::capacity),
                 Key("free", &AddressUsage::free));
};

template <>
struct FieldsOf<Capabilities::HostPorts> {
  static constexpr auto kList =
      std::tuple(Key("first", &Capabilities::HostPorts::first),
                 Key("last", &Capabilities::HostPorts::last),
                 Key("free", &Capabilities::HostPorts::free));
};

template <>
struct FieldsOf<Capabilities> {
  static constexpr auto kList = std::tuple(
      Key("version", &Capabilities::version),
      Key("kernel", &Capabilities::kernel),
      Key("network_modes", &Capabilities::network_modes),
      Key("addresses", &Capabilities::addresses),
      Key<Form::kRows>("host_ports", &Capabilities::host_ports),
      Key("cni_plugins", &Capabilities::cni_plugins),
      Key("propagation", &Capabilities::propagation),
      Key("source_types", &Capabilities::source_types),
      Key("features", &Capabilities::features),
      Key("missing", &Capabilities::missing),
      Key("stuck_executors", &Capabilities::stuck_executors),
      Key("stores_set_aside", &Capabilities::stores_set_aside),
      Key<Form::kPath>("mount_namespace", &Capabilities::mount_namespace),
      Key("mount_reserve", &Capabilities::mount_reserve),
      Key<Form::kMillis32>("owed_warning_ms", &Capabilities::owed_warning),
      Key("administrator", &Capabilities::administrator),
      Key("rules", &Capabilities::rules));
};

// A row of GetStatistics.
template <>
struct FieldsOf<MethodStatistics> {
  static constexpr auto kList =
      std::tuple(Key("method", &MethodStatistics::method),
                 Key("calls", &MethodStatistics::calls),
                 Key("errors", &MethodStatistics::errors),
                 Key("p50_us", &MethodStatistics::p50_us),
                 Key("p99_us", &MethodStatistics::p99_us));
};

}  // namespace mountd::agent
