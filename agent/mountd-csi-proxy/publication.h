// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/client.h"
#include "agent/mountd-csi-proxy/calls.h"
#include "mountd/base/result.h"

namespace mountd::csi_proxy {

// A target path of a plugin, as an allocation of mountd with one volume and one
// mount. Its name follows from the two, so nothing has to be kept. Errors are
// those of the client's methods.
class Publication {
 public:
  // `path` is a CleanPath. `reads_back`: CallOptions.
  Publication(const std::string& plugin, std::string path,
              bool reads_back = true);

  const std::string& allocation() const { return allocation_; }

  // Publishes the volume and mounts it on the path's directory. Removes what it
  // made after an error that is final; after another one, such as InProgress,
  // the same call continues, and Unpublish removes all. Unavailable while an
  // earlier volume of this path is not detached yet. FailedPrecondition if
  // nothing is mounted at the path in the end, because the owner has renamed
  // the directory of an earlier call, and the mount with it.
  Result<void> Publish(agent::Client& client, agent::VolumeSpec& spec) const;

  // Succeeds when the volume is detached, and when nothing was published. Tries
  // for half a minute while processes use the volume (Busy) or its plugin is
  // away (Unavailable). FailedPrecondition if another volume is published here.
  Result<void> Unpublish(agent::Client& client, const std::string& volume,
                         const RpcTime& time) const;

  // NotFound unless that volume is published here.
  Result<void> CheckPublished(agent::Client& client,
                              const std::string& volume) const;

 private:
  Result<void> CheckDetached(agent::Client& client) const;
  Result<void> CheckReceipt(const agent::Receipt& receipt) const;
  Result<void> Make(agent::Client& client, const agent::VolumeSpec& spec) const;
  Result<void> CheckMounted() const;
  void UndoUnlessMounted(agent::Client& client) const;
  Result<void> Release(agent::Client& client) const;

  const std::string plugin_;
  const std::string path_;
  const std::string allocation_;
  const bool reads_back_;
};

// The alias of the volume in its allocation.
inline constexpr char kAlias[] = "volume";

}  // namespace mountd::csi_proxy
