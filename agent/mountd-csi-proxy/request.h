// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>

#include <map>
#include <string>

#include "agent/types_volumes.h"
#include "mountd/base/result.h"

// Checks and reads requests of CSI.
namespace mountd::csi_proxy {

using ProtoMap = google::protobuf::Map<std::string, std::string>;

// InvalidArgument, with the field's name and never its content, if a text at
// any depth holds a NUL. D-Bus ends a text at its first NUL, so another volume
// than the caller's would be meant.
Result<void> CheckTexts(const google::protobuf::Message& message);

// Returns the path without empty components. InvalidArgument unless it is
// absolute, has a component, and no component is "." or "..", or has a control
// character.
Result<std::string> CleanPath(const char* field, const std::string& path);

// InvalidArgument for an id that is empty.
Result<void> CheckVolume(const std::string& volume_id);

// Returns how a volume is to be used. A reader's access mode makes it
// read-only. InvalidArgument for a capability without an access type or an
// access mode.
Result<agent::VolumeUsage> UsageOf(
    const ::csi::v1::VolumeCapability& capability, bool read_only);
// Returns the same for this node. InvalidArgument also for a block device, with
// the reason in words.
Result<agent::VolumeUsage> NodeUsageOf(
    const ::csi::v1::VolumeCapability& capability, bool read_only);

// The map as a std::map.
std::map<std::string, std::string> ToMap(const ProtoMap& map);

// Owns a copy of a request's secrets. Overwrites it in the destructor.
class Secrets {
 public:
  explicit Secrets(const ProtoMap& secrets) : map_(ToMap(secrets)) {}
  ~Secrets() { Wipe(map_); }
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;

  const std::map<std::string, std::string>& map() const { return map_; }

  // Overwrites the values.
  static void Wipe(std::map<std::string, std::string>& map);
  static void Wipe(ProtoMap& map);

 private:
  std::map<std::string, std::string> map_;
};

// Has a copy of the secrets in a value that is sent to mountd, as
// VolumeSpec::secrets, while it lives.
class LentSecrets {
 public:
  LentSecrets(const ProtoMap& secrets, std::map<std::string, std::string>& to)
      : to_(to) {
    to_ = ToMap(secrets);
  }
  ~LentSecrets() { Secrets::Wipe(to_); }
  LentSecrets(const LentSecrets&) = delete;
  LentSecrets& operator=(const LentSecrets&) = delete;

 private:
  std::map<std::string, std::string>& to_;
};

}  // namespace mountd::csi_proxy
