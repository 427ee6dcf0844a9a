// SPDX-License-Identifier: LGPL-2.1-or-later
#include <chrono>
#include <ostream>
#include <string>
#include <string_view>
#include <type_traits>

#include "agent/client/types_to_dict.h"
#include "agent/fields/value_fields.h"

namespace mountd::agent {
namespace {

constexpr std::string_view kRedacted = "<redacted>";

// Writes all that is not printable ASCII as \xNN, so that no text forges a line
// of a log or moves a terminal's cursor.
void PrintText(std::ostream& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out << '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out << '\\' << c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out << c;
    } else {
      out << "\\x" << kDigits[byte >> 4U] << kDigits[byte & 0xfU];
    }
  }
  out << '"';
}

template <typename M>
void PrintMember(std::ostream& out, const M& member) {
  if constexpr (std::is_same_v<M, bool>) {
    out << (member ? "true" : "false");
  } else if constexpr (std::is_integral_v<M>) {
    out << std::to_string(member);
  } else if constexpr (std::is_enum_v<M>) {
    PrintText(out, ToWire(member));
  } else if constexpr (std::is_same_v<M, std::string>) {
    PrintText(out, member);
  } else if constexpr (std::is_same_v<M, Timestamp>) {
    out << std::to_string(member.time_since_epoch().count()) << "us";
  } else if constexpr (std::is_same_v<M, std::chrono::milliseconds>) {
    out << std::to_string(member.count()) << "ms";
  } else if constexpr (requires { member.has_value(); }) {
    if (member) {
      PrintMember(out, *member);
    } else {
      out << "none";
    }
  } else if constexpr (requires { typename M::mapped_type; }) {
    const char* separator = "";
    out << '{';
    for (const auto& [key, value] : member) {
      out << separator;
      PrintText(out, key);
      out << ": ";
      PrintMember(out, value);
      separator = ", ";
    }
    out << '}';
  } else if constexpr (requires { member.begin(); }) {
    const char* separator = "";
    out << '[';
    for (const auto& element : member) {
      out << separator;
      PrintMember(out, element);
      separator = ", ";
    }
    out << ']';
  } else {
    out << member;
  }
}

// Prints the keys of a map, and only how many elements a list has.
template <typename M>
void PrintRedacted(std::ostream& out, const M& member) {
  if constexpr (requires { typename M::mapped_type; }) {
    const char* separator = "";
    out << '{';
    for (const auto& entry : member) {
      out << separator;
      PrintText(out, entry.first);
      out << ": " << kRedacted;
      separator = ", ";
    }
    out << '}';
  } else {
    out << '<' << std::to_string(member.size()) << " redacted>";
  }
}

template <typename T, typename F>
void PrintOne(std::ostream& out, const T& value, const F& field) {
  const auto& member = value.*field.member;
  if constexpr (requires { member.size(); }) {
    if (IsSensitive(field.key)) {
      PrintRedacted(out, member);
      return;
    }
  }
  PrintMember(out, member);
}

// "VolumeUser{allocation="web", alias="data"}"
template <typename T>
std::ostream& Print(std::ostream& out, std::string_view name, const T& value) {
  const char* separator = "";
  out << name << '{';
  ForEachField(MembersOf<T>::kList, [&](const auto& field) {
    using F = std::remove_cvref_t<decltype(field)>;
    out << separator;
    separator = ", ";
    if constexpr (F::kHow == Form::kPresent) {
      out << "has_";
    }
    if (*field.key != '\0') {
      out << field.key << '=';
    }
    PrintOne(out, value, field);
  });
  return out << '}';
}

}  // namespace

// The compiler cannot default this operator, because a member is a list of
// PluginStatus itself.
bool PluginStatus::operator==(const PluginStatus& other) const {
  bool equal = true;
  ForEachField(MembersOf<PluginStatus>::kList, [&](const auto& field) {
    equal = equal && this->*field.member == other.*field.member;
  });
  return equal;
}

std::ostream& operator<<(std::ostream& out, const AllocationOptions& value) {
  return Print(out, "AllocationOptions", value);
}

std::ostream& operator<<(std::ostream& out, const ReleasedVolume& value) {
  return Print(out, "ReleasedVolume", value);
}

std::ostream& operator<<(std::ostream& out, const Receipt& value) {
  return Print(out, "Receipt", value);
}

std::ostream& operator<<(std::ostream& out, const AllocationStatus& value) {
  return Print(out, "AllocationStatus", value);
}

std::ostream& operator<<(std::ostream& out, const AllocationEntry& value) {
  return Print(out, "AllocationEntry", value);
}

std::ostream& operator<<(std::ostream& out, const ReconciledAllocation& value) {
  return Print(out, "ReconciledAllocation", value);
}

std::ostream& operator<<(std::ostream& out, const Reconciliation& value) {
  return Print(out, "Reconciliation", value);
}

std::ostream& operator<<(std::ostream& out, const TreeResult& value) {
  return Print(out, "TreeResult", value);
}

std::ostream& operator<<(std::ostream& out,
                         const ControllerPublishSpec& value) {
  return Print(out, "ControllerPublishSpec", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeValidationSpec& value) {
  return Print(out, "VolumeValidationSpec", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeValidation& value) {
  return Print(out, "VolumeValidation", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeCreation& value) {
  return Print(out, "VolumeCreation", value);
}

std::ostream& operator<<(std::ostream& out, const PluginVolume& value) {
  return Print(out, "PluginVolume", value);
}

std::ostream& operator<<(std::ostream& out, const PageRequest& value) {
  return Print(out, "PageRequest", value);
}

std::ostream& operator<<(std::ostream& out, const PluginVolumePage& value) {
  return Print(out, "PluginVolumePage", value);
}

std::ostream& operator<<(std::ostream& out,
                         const ControllerExpansionSpec& value) {
  return Print(out, "ControllerExpansionSpec", value);
}

std::ostream& operator<<(std::ostream& out, const ControllerExpansion& value) {
  return Print(out, "ControllerExpansion", value);
}

std::ostream& operator<<(std::ostream& out, const CapacityQuery& value) {
  return Print(out, "CapacityQuery", value);
}

std::ostream& operator<<(std::ostream& out, const PluginCapacity& value) {
  return Print(out, "PluginCapacity", value);
}

std::ostream& operator<<(std::ostream& out, const ControllerCall& value) {
  return Print(out, "ControllerCall", value);
}

std::ostream& operator<<(std::ostream& out, const TmpfsOptions& value) {
  return Print(out, "TmpfsOptions", value);
}

std::ostream& operator<<(std::ostream& out, const IdExtent& value) {
  return Print(out, "IdExtent", value);
}

std::ostream& operator<<(std::ostream& out, const BindMountSpec& value) {
  return Print(out, "BindMountSpec", value);
}

std::ostream& operator<<(std::ostream& out, const InboxConfig& value) {
  return Print(out, "InboxConfig", value);
}

std::ostream& operator<<(std::ostream& out, const MountConfig& value) {
  return Print(out, "MountConfig", value);
}

std::ostream& operator<<(std::ostream& out, const RepairedMount& value) {
  return Print(out, "RepairedMount", value);
}

std::ostream& operator<<(std::ostream& out, const ReplacedMount& value) {
  return Print(out, "ReplacedMount", value);
}

std::ostream& operator<<(std::ostream& out, const MountStatus& value) {
  return Print(out, "MountStatus", value);
}

std::ostream& operator<<(std::ostream& out, const Port& value) {
  return Print(out, "Port", value);
}

std::ostream& operator<<(std::ostream& out, const NetworkSpec& value) {
  return Print(out, "NetworkSpec", value);
}

std::ostream& operator<<(std::ostream& out, const NetworkSpec::Host& value) {
  return Print(out, "NetworkSpec::Host", value);
}

std::ostream& operator<<(std::ostream& out, const NetworkStatus& value) {
  return Print(out, "NetworkStatus", value);
}

std::ostream& operator<<(std::ostream& out, const NetworkStatus::File& value) {
  return Print(out, "NetworkStatus::File", value);
}

std::ostream& operator<<(std::ostream& out, const OwedTeardown& value) {
  return Print(out, "OwedTeardown", value);
}

std::ostream& operator<<(std::ostream& out, const OperationStatus& value) {
  return Print(out, "OperationStatus", value);
}

std::ostream& operator<<(std::ostream& out, const OwedSummary& value) {
  return Print(out, "OwedSummary", value);
}

std::ostream& operator<<(std::ostream& out, const AddressUsage& value) {
  return Print(out, "AddressUsage", value);
}

std::ostream& operator<<(std::ostream& out, const Capabilities& value) {
  return Print(out, "Capabilities", value);
}

std::ostream& operator<<(std::ostream& out,
                         const Capabilities::HostPorts& value) {
  return Print(out, "Capabilities::HostPorts", value);
}

std::ostream& operator<<(std::ostream& out, const MethodStatistics& value) {
  return Print(out, "MethodStatistics", value);
}

std::ostream& operator<<(std::ostream& out, const PluginSpec& value) {
  return Print(out, "PluginSpec", value);
}

std::ostream& operator<<(std::ostream& out, const PluginSelection& value) {
  return Print(out, "PluginSelection", value);
}

std::ostream& operator<<(std::ostream& out, const PluginMount& value) {
  return Print(out, "PluginMount", value);
}

std::ostream& operator<<(std::ostream& out, const PluginRegistration& value) {
  return Print(out, "PluginRegistration", value);
}

std::ostream& operator<<(std::ostream& out, const PluginStatus& value) {
  return Print(out, "PluginStatus", value);
}

std::ostream& operator<<(std::ostream& out, const Holder& value) {
  return Print(out, "Holder", value);
}

std::ostream& operator<<(std::ostream& out, const Holders& value) {
  return Print(out, "Holders", value);
}

std::ostream& operator<<(std::ostream& out, const HandedOut& value) {
  return Print(out, "HandedOut", value);
}

std::ostream& operator<<(std::ostream& out, const HandedOutList& value) {
  return Print(out, "HandedOutList", value);
}

std::ostream& operator<<(std::ostream& out, const TaskMount& value) {
  return Print(out, "TaskMount", value);
}

std::ostream& operator<<(std::ostream& out, const TaskReport& value) {
  return Print(out, "TaskReport", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeUsage& value) {
  return Print(out, "VolumeUsage", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeSpec& value) {
  return Print(out, "VolumeSpec", value);
}

std::ostream& operator<<(std::ostream& out, const PublishedVolume& value) {
  return Print(out, "PublishedVolume", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeUse& value) {
  return Print(out, "VolumeUse", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeStats& value) {
  return Print(out, "VolumeStats", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeExpansion& value) {
  return Print(out, "VolumeExpansion", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeStatus& value) {
  return Print(out, "VolumeStatus", value);
}

std::ostream& operator<<(std::ostream& out, const VolumeUser& value) {
  return Print(out, "VolumeUser", value);
}

std::ostream& operator<<(std::ostream& out, const StagedVolume& value) {
  return Print(out, "StagedVolume", value);
}

std::ostream& operator<<(std::ostream& out, const IdRange& value) {
  return Print(out, "IdRange", value);
}

std::ostream& operator<<(std::ostream& out, const PortRange& value) {
  return Print(out, "PortRange", value);
}

std::ostream& operator<<(std::ostream& out, const SourceGrant& value) {
  return Print(out, "SourceGrant", value);
}

std::ostream& operator<<(std::ostream& out, const HostVolumeGrant& value) {
  return Print(out, "HostVolumeGrant", value);
}

std::ostream& operator<<(std::ostream& out, const FilesystemGrant& value) {
  return Print(out, "FilesystemGrant", value);
}

std::ostream& operator<<(std::ostream& out, const NetworkGrant& value) {
  return Print(out, "NetworkGrant", value);
}

std::ostream& operator<<(std::ostream& out, const CallNames& value) {
  return Print(out, "CallNames", value);
}

std::ostream& operator<<(std::ostream& out, const OperationSpan& value) {
  return Print(out, "OperationSpan", value);
}

std::ostream& operator<<(std::ostream& out, const NodeInfo& value) {
  return Print(out, "NodeInfo", value);
}

std::ostream& operator<<(std::ostream& out, const LeaseSpec& value) {
  return Print(out, "LeaseSpec", value);
}

std::ostream& operator<<(std::ostream& out, const Lease& value) {
  return Print(out, "Lease", value);
}

std::ostream& operator<<(std::ostream& out, const Fence& value) {
  return Print(out, "Fence", value);
}

std::ostream& operator<<(std::ostream& out, const LeaseChange& value) {
  return Print(out, "LeaseChange", value);
}

}  // namespace mountd::agent
