// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "csi-node/node/plugins.h"
#include "csi-node/node/volumes.h"
#include "csi-node/types/csi_client.h"
#include "csi-node/types/csi_controller.h"
#include "mountd/base/caller.h"
#include "mountd/base/progress.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/config/config.h"

namespace mountd::csi {

struct ControllerRpcTraits;  // a row of the table of RPCs

// Makes the calls of plugins' controllers, for agents whose server decides
// about volumes elsewhere. Records nothing of these calls, and passes the
// plugin's answers on.
//
// Serializes the calls on one volume, the CreateVolume calls for one name, and
// the HandOn calls of one plugin. Repeats a call that changes something until
// its answer is final, within a budget. If there is no final answer, the error
// says that the outcome is not known, and the caller may repeat the call.
// NotSupported, without a try, if the plugin does not offer the call.
//
// Thread-safe; methods block.
class Controller {
 public:
  Controller(const TimeoutsConfig& timeouts, CsiClient& client,
             Plugins& plugins, Volumes& volumes);

  // Goes with each call, and outlives the call.
  struct Context {
    const UniqueFd& secrets;
    const CancelToken& cancelled;
    Progress progress{};
  };

  // Returns the publish context, which is opaque.
  Result<StringMap> Publish(const std::string& plugin,
                            const ControllerPublishRequest& request,
                            const Context& context);
  // InvalidArgument if the request has no node, because that would mean all
  // nodes. Busy if the node is this one and the volume is staged here.
  // NOT_FOUND is success.
  Result<void> Unpublish(const std::string& plugin,
                         const ControllerUnpublishRequest& request,
                         const Context& context);
  Result<Validation> Validate(const std::string& plugin,
                              const ValidateRequest& request,
                              const Context& context);
  Result<ControllerVolume> Create(const std::string& plugin,
                                  const CreateVolumeRequest& request,
                                  const Context& context);
  // Busy while the volume is staged on this node. NOT_FOUND is success.
  Result<void> Delete(const std::string& plugin,
                      const DeleteVolumeRequest& request,
                      const Context& context);
  Result<ControllerExpansion> Expand(const std::string& plugin,
                                     const ControllerExpandRequest& request,
                                     const Context& context);
  // Returns a page of at most `request.max_entries`, which is 1 to 1000.
  Result<VolumePage> List(const std::string& plugin,
                          const ListVolumesRequest& request,
                          const Context& context);
  Result<Capacity> GetCapacity(const std::string& plugin,
                               const GetCapacityRequest& request,
                               const Context& context);
  // Makes any other call, with its messages as protobuf's bytes.
  // InvalidArgument if `rpc` is one of the calls above, belongs to the Node
  // service, or does not exist.
  Result<std::string> HandOn(const std::string& plugin, const std::string& rpc,
                             const std::string& request,
                             const Context& context);

 private:
  class Slot;  // counts one of a plugin's calls under way

  Result<std::string> Make(const std::string& plugin,
                           const ControllerRpcTraits& rpc,
                           const ControllerCall& call,
                           const std::string& subject, const Context& context);
  // Makes the call that the request is, as Make does, and returns
  // `read(answer)`.
  template <typename T, typename Request, typename Read>
  Result<T> Ask(const std::string& plugin, const Request& request,
                const std::string& subject, const Context& context, Read read);
  template <typename Request>
  Result<void> Tell(const std::string& plugin, const Request& request,
                    const Context& context);
  RpcResult<std::string> Try(const std::string& plugin,
                             const ControllerRpcTraits& rpc,
                             const ControllerCall& call,
                             const Context& context);

  const TimeoutsConfig& timeouts_;
  CsiClient& client_;
  Plugins& plugins_;
  Volumes& volumes_;
  KeyedLocks subjects_;
  std::mutex mutex_;
  std::map<std::string, int> under_way_;  // mutex_; by plugin
};

}  // namespace mountd::csi
