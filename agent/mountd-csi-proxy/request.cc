// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/request.h"

#include <google/protobuf/message.h>
#include <strings.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "agent/mountd-csi-proxy/status.h"

namespace mountd::csi_proxy {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Capability = ::csi::v1::VolumeCapability;
using Mode = Capability::AccessMode;

constexpr std::size_t kMaxPath = 4095;
constexpr std::size_t kMaxComponent = 255;

bool HasNul(const std::string& text) {
  return text.find('\0') != std::string::npos;
}

Result<void> CheckField(const Message& message, const FieldDescriptor* field) {
  const Reflection* reflection = message.GetReflection();
  const bool is_text = field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  const int count =
      field->is_repeated() ? reflection->FieldSize(message, field) : 0;
  bool has_nul = is_text && !field->is_repeated() &&
                 HasNul(reflection->GetString(message, field));
  for (int i = 0; i < count; ++i) {
    has_nul =
        has_nul ||
        (is_text && HasNul(reflection->GetRepeatedString(message, field, i)));
    if (is_message) {
      MOUNTD_TRY(CheckTexts(reflection->GetRepeatedMessage(message, field, i)));
    }
  }
  if (is_message && !field->is_repeated()) {
    MOUNTD_TRY(CheckTexts(reflection->GetMessage(message, field)));
  }
  return has_nul ? Result<void>(
                       Invalid(field->name().c_str(), "must not have a NUL"))
                 : Ok();
}

const char* NameOf(Mode::Mode mode) {
  switch (mode) {
    case Mode::SINGLE_NODE_WRITER:
      return "single-node-writer";
    case Mode::SINGLE_NODE_READER_ONLY:
      return "single-node-reader-only";
    case Mode::MULTI_NODE_READER_ONLY:
      return "multi-node-reader-only";
    case Mode::MULTI_NODE_SINGLE_WRITER:
      return "multi-node-single-writer";
    case Mode::MULTI_NODE_MULTI_WRITER:
      return "multi-node-multi-writer";
    case Mode::SINGLE_NODE_SINGLE_WRITER:
      return "single-node-single-writer";
    case Mode::SINGLE_NODE_MULTI_WRITER:
      return "single-node-multi-writer";
    default:
      return nullptr;
  }
}

Result<void> CheckComponent(const char* field, std::string_view component) {
  if (component == "." || component == "..") {
    return Invalid(field, "must have no component . or ..");
  }
  if (component.size() > kMaxComponent) {
    return Invalid(field, "has a component of more than 255 bytes");
  }
  for (const char byte : component) {
    if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) {
      return Invalid(field, "must have no control character");
    }
  }
  return Ok();
}

}  // namespace

// A map's entry does not list its key and value as set, so this asks for each
// field of the type.
Result<void> CheckTexts(const Message& message) {
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool is_one_message =
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
        !field->is_repeated();
    // Descending into an absent message would not end for a type that contains
    // itself.
    if (!is_one_message || message.GetReflection()->HasField(message, field)) {
      MOUNTD_TRY(CheckField(message, field));
    }
  }
  return Ok();
}

Result<std::string> CleanPath(const char* field, const std::string& path) {
  if (path.empty()) {
    return Invalid(field, "is missing");
  }
  if (path[0] != '/') {
    return Invalid(field, "must be an absolute path");
  }
  if (path.size() > kMaxPath) {
    return Invalid(field, "has more than 4095 bytes");
  }
  std::string clean;
  for (std::size_t begin = 1; begin < path.size();) {
    const std::size_t slash = std::min(path.find('/', begin), path.size());
    const std::string component = path.substr(begin, slash - begin);
    begin = slash + 1;
    if (!component.empty()) {
      MOUNTD_TRY(CheckComponent(field, component));
      clean += "/" + component;
    }
  }
  return clean.empty() ? Result<std::string>(Invalid(field, "is the root"))
                       : Result<std::string>(std::move(clean));
}

Result<void> CheckVolume(const std::string& volume_id) {
  return volume_id.empty() ? Result<void>(Invalid("volume_id", "is missing"))
                           : Ok();
}

Result<agent::VolumeUsage> UsageOf(const Capability& capability,
                                   bool read_only) {
  if (!capability.has_mount() && !capability.has_block()) {
    return Invalid("volume_capability", "has no access_type");
  }
  const Mode::Mode mode = capability.access_mode().mode();
  const char* name = NameOf(mode);
  if (name == nullptr) {
    return Invalid("volume_capability", "has no access_mode that CSI knows");
  }
  agent::VolumeUsage usage;
  usage.access_mode = name;
  usage.read_only = read_only || mode == Mode::SINGLE_NODE_READER_ONLY ||
                    mode == Mode::MULTI_NODE_READER_ONLY;
  if (capability.has_block()) {
    usage.attachment_mode = "block-device";
    return usage;
  }
  const Capability::MountVolume& mount = capability.mount();
  usage.fs_type = mount.fs_type();
  usage.volume_mount_group = mount.volume_mount_group();
  usage.mount_flags = {mount.mount_flags().begin(), mount.mount_flags().end()};
  return usage;
}

Result<agent::VolumeUsage> NodeUsageOf(const Capability& capability,
                                       bool read_only) {
  if (capability.has_block()) {
    return Invalid("volume_capability",
                   "asks for a block device, and a task without root can open "
                   "no device node that was made for it; use a volume with a "
                   "file system");
  }
  return UsageOf(capability, read_only);
}

std::map<std::string, std::string> ToMap(const ProtoMap& map) {
  return {map.begin(), map.end()};
}

void Secrets::Wipe(std::map<std::string, std::string>& map) {
  for (auto& [key, value] : map) {
    ::explicit_bzero(value.data(), value.size());
  }
}

void Secrets::Wipe(ProtoMap& map) {
  for (auto& [key, value] : map) {
    ::explicit_bzero(value.data(), value.size());
  }
}

}  // namespace mountd::csi_proxy
