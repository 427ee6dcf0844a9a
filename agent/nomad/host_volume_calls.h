// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/client.h"
#include "agent/nomad/volume_place.h"
#include "agent/nomad/volume_request.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// A volume as a Nomad client learns of it.
struct CreatedVolume {
  bool operator==(const CreatedVolume&) const = default;

  std::string path;
  std::int64_t bytes = 0;  // 0: unknown
};

// Creates and deletes one volume at mountd. Nothing is kept but at mountd and
// in the volume: all names follow from the volume's id, and every call of
// mountd is idempotent. So the same call is right after a kill at any point,
// and Nomad's client repeats Create at each of its starts. Errors are those of
// the client's methods.
class HostVolumeCalls {
 public:
  HostVolumeCalls(agent::Client& client, const HostVolumeRequest& request)
      : client_(client),
        request_(request),
        place_(request.volumes_dir, request.id),
        allocation_("dhv-" + request.id) {}

  // NotSupported for another owner than this user, because mountd gives no
  // files of a volume away. FailedPrecondition if mountd.toml has no host
  // volume of that name for this user. A larger size than at first expands the
  // volume.
  Result<CreatedVolume> Create();
  // Busy while a process uses the volume; nothing has changed then, unless the
  // process has come at this moment. Unavailable
  // until the volume is detached. Keeps a declared host volume.
  Result<void> Delete();

 private:
  agent::VolumeUsage Usage() const;
  Result<CreatedVolume> FindDeclared();
  enum class Size { kAsked, kAny };
  Result<agent::PluginVolume> MakeVolume(Size size);
  Result<agent::PluginVolume> MakeLarger();
  Result<std::optional<std::string>> KnownVolume();
  Result<agent::PluginVolume> Expand(const std::string& volume);
  Result<void> CheckSize(const agent::PluginVolume& volume) const;
  Result<void> Publish(const agent::PluginVolume& volume);
  Result<void> Mount();
  Result<void> CheckUnused();
  Result<void> Release();

  agent::Client& client_;
  const HostVolumeRequest& request_;
  const VolumePlace place_;
  const std::string allocation_;
};

}  // namespace mountd::nomad
