// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/controller.h"

#include <algorithm>
#include <utility>

#include "csi-node/node/controller_rpcs.h"
#include "csi-node/node/rpc_retry.h"

namespace mountd::csi {
namespace {

// Numbers of PluginCapability.Service.Type.
constexpr int kControllerService = 1;
constexpr int kGroupControllerService = 3;

constexpr int kMaxUnderWay = 32;  // of one plugin
constexpr char kUnknownOutcome[] = "; the outcome is unknown, so call again";

bool Has(const std::vector<int>& all, int one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

std::string Described(const std::string& plugin) { return "plugin " + plugin; }

Result<void> CheckOffers(const PluginInstance& status,
                         const ControllerRpcTraits& rpc) {
  const int service =
      rpc.of_group ? kGroupControllerService : kControllerService;
  if (Has(status.capabilities.services, service) &&
      (rpc.needs == 0 || Has(status.capabilities.controller_rpcs, rpc.needs))) {
    return Ok();
  }
  return MakeError(Code::kNotSupported, std::string(rpc.name),
                   Described(status.record.id),
                   "the plugin does not offer this call");
}

// RESOURCE_EXHAUSTED of a controller is the plugin's refusal for want of room
// (CSI spec, "CreateVolume Errors"), which no repetition changes soon. The
// code of a node may come from gRPC half way (RpcError::IsFinal).
bool IsFinal(const RpcError& error) {
  return error.IsFinal() || error.code == RpcCode::kResourceExhausted;
}

// The outcome of one try. DataLoss ends the tries, because the plugin answered
// and the next answer would be lost as well.
struct Tried {
  RpcResult<std::string> outcome;

  explicit operator bool() const {
    return outcome || IsFinal(outcome.error()) ||
           outcome.error().code == RpcCode::kDataLoss;
  }
  const RpcError& error() const { return outcome.error(); }
};

std::string SubjectOf(const std::string& plugin, const std::string& volume) {
  return "volume " + VolumeKey::Derive(plugin, volume).str();
}

}  // namespace

class Controller::Slot {
 public:
  Slot(Controller& controller, std::string plugin)
      : controller_(controller), plugin_(std::move(plugin)) {
    const std::lock_guard lock(controller_.mutex_);
    count_ = ++controller_.under_way_[plugin_];
  }
  ~Slot() {
    const std::lock_guard lock(controller_.mutex_);
    if (--controller_.under_way_[plugin_] == 0) {
      controller_.under_way_.erase(plugin_);
    }
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  Result<void> Check(const ControllerRpcTraits& rpc) const {
    if (count_ <= kMaxUnderWay) {
      return Ok();
    }
    return MakeError(
        Code::kResourceExhausted, std::string(rpc.name), Described(plugin_),
        "too many calls of its controller are pending; call again later");
  }

 private:
  Controller& controller_;
  const std::string plugin_;
  int count_ = 0;
};

Controller::Controller(const TimeoutsConfig& timeouts, CsiClient& client,
                       Plugins& plugins, Volumes& volumes)
    : timeouts_(timeouts),
      client_(client),
      plugins_(plugins),
      volumes_(volumes) {}

// Looks up the plugin's channel in each try, because the channel of an earlier
// try may be gone.
RpcResult<std::string> Controller::Try(const std::string& plugin,
                                       const ControllerRpcTraits& rpc,
                                       const ControllerCall& call,
                                       const Context& context) {
  const auto once = [&](auto... /*unused*/) -> Tried {
    context.progress.At(Step::kPlugin);
    const Result<Plugins::Session> session = plugins_.UseController(plugin);
    if (!session) {
      return {RpcError{RpcCode::kUnavailable, session.error().detail}};
    }
    context.progress.At(Step::kController);
    Tried tried{client_.CallController(session->channel, call, context.secrets,
                                       Clock::now() + timeouts_.rpc)};
    // For ControllerPublishVolume the code means that this node can attach no
    // more volumes (CSI spec, "ControllerPublishVolume Errors"). The NodeInfo
    // has their number, so it may have changed.
    if (!tried.outcome &&
        tried.outcome.error().code == RpcCode::kResourceExhausted &&
        rpc.name == "ControllerPublishVolume") {
      plugins_.DoubtNodeInfo(plugin);
    }
    return tried;
  };
  if (!rpc.changes) {
    // Does not retry a call that only reads. For a list ABORTED means that its
    // token is not valid, and nothing is uncertain.
    return once().outcome;
  }
  return RetryUntilFinal(timeouts_.rpc_retries, context.cancelled, once,
                         context.progress)
      .outcome;
}

Result<std::string> Controller::Make(const std::string& plugin,
                                     const ControllerRpcTraits& rpc,
                                     const ControllerCall& call,
                                     const std::string& subject,
                                     const Context& context) {
  context.progress.At(Step::kPlugin);
  plugins_.AwaitFirstAttempt(plugin);
  MOUNTD_TRY(CheckNotCancelled(context.cancelled, call.rpc, Described(plugin)));
  MOUNTD_ASSIGN(const Plugins::Session session, plugins_.UseController(plugin));
  MOUNTD_TRY(CheckOffers(session.status, rpc));
  // Counts the call before the wait below, so that waiting calls are bounded,
  // too.
  const Slot slot(*this, plugin);
  MOUNTD_TRY(slot.Check(rpc));
  context.progress.At(Step::kQueue);
  const auto turn = subjects_.Lock(subject);
  RpcResult<std::string> outcome = Try(plugin, rpc, call, context);
  if (!outcome) {
    Error error = ToError(outcome.error(), call.rpc, Described(plugin));
    if (rpc.changes && !IsFinal(outcome.error())) {
      error.detail += kUnknownOutcome;
    }
    return error;
  }
  return *std::move(outcome);
}

template <typename T, typename Request, typename Read>
Result<T> Controller::Ask(const std::string& plugin, const Request& request,
                          const std::string& subject, const Context& context,
                          Read read) {
  const ControllerCall call = ToCall(request);
  const ControllerRpcTraits& rpc = *FindControllerRpc(call.rpc);
  MOUNTD_ASSIGN(const std::string answer,
                Make(plugin, rpc, call, subject, context));
  std::optional<T> result = read(answer);
  if (!result) {
    return MakeError(Code::kInternal, call.rpc, Described(plugin),
                     std::string("its answer violates the CSI specification") +
                         (rpc.changes ? kUnknownOutcome : ""));
  }
  return *std::move(result);
}

// Takes NotFound for success, because a volume that is not there needs no
// removal.
template <typename Request>
Result<void> Controller::Tell(const std::string& plugin, const Request& request,
                              const Context& context) {
  const ControllerCall call = ToCall(request);
  const Result<std::string> answer =
      Make(plugin, *FindControllerRpc(call.rpc), call,
           SubjectOf(plugin, request.volume_id), context);
  // A plugin that is not registered is NotFound, too, and is an error.
  if (!answer && (answer.error().code != Code::kNotFound ||
                  !plugins_.Get(plugin).has_value())) {
    return answer.error();
  }
  return Ok();
}

Result<StringMap> Controller::Publish(const std::string& plugin,
                                      const ControllerPublishRequest& request,
                                      const Context& context) {
  return Ask<StringMap>(plugin, request, SubjectOf(plugin, request.volume_id),
                        context, ReadPublishContext);
}

Result<void> Controller::Unpublish(const std::string& plugin,
                                   const ControllerUnpublishRequest& request,
                                   const Context& context) {
  if (request.node_id.empty()) {
    return MakeError(Code::kInvalidArgument, "ControllerUnpublishVolume",
                     Described(plugin),
                     "a node id is required, because without one the plugin "
                     "detaches the volume from all nodes");
  }
  // The node's part comes first, because writes to a mount whose device is
  // detached below it are lost.
  std::optional<KeyedLocks::Guard> unused;
  const std::optional<PluginStatus> status = plugins_.Get(plugin);
  // Without a node id the plugin may be on any node, so also on this node. A
  // volume in use here may be attached under an earlier node id of the plugin.
  const bool here = !status || status->MayCallThisNode(request.node_id);
  if (here) {
    MOUNTD_ASSIGN(KeyedLocks::Guard guard,
                  volumes_.LockUnused(plugin, request.volume_id));
    unused.emplace(std::move(guard));
  }
  return Tell(plugin, request, context);
}

Result<Validation> Controller::Validate(const std::string& plugin,
                                        const ValidateRequest& request,
                                        const Context& context) {
  return Ask<Validation>(plugin, request, SubjectOf(plugin, request.volume_id),
                         context, [&](const std::string& answer) {
                           return ReadValidation(answer, request);
                         });
}

Result<ControllerVolume> Controller::Create(const std::string& plugin,
                                            const CreateVolumeRequest& request,
                                            const Context& context) {
  return Ask<ControllerVolume>(plugin, request,
                               "name " + plugin + " " + request.name, context,
                               ReadCreatedVolume);
}

Result<void> Controller::Delete(const std::string& plugin,
                                const DeleteVolumeRequest& request,
                                const Context& context) {
  MOUNTD_ASSIGN(const KeyedLocks::Guard unused,
                volumes_.LockUnused(plugin, request.volume_id));
  return Tell(plugin, request, context);
}

Result<ControllerExpansion> Controller::Expand(
    const std::string& plugin, const ControllerExpandRequest& request,
    const Context& context) {
  return Ask<ControllerExpansion>(plugin, request,
                                  SubjectOf(plugin, request.volume_id), context,
                                  ReadExpansion);
}

Result<VolumePage> Controller::List(const std::string& plugin,
                                    const ListVolumesRequest& request,
                                    const Context& context) {
  return Ask<VolumePage>(
      plugin, request, "list " + plugin, context,
      [&](const std::string& answer) {
        std::optional<VolumePage> page = ReadVolumePage(answer);
        // A page with more entries than asked for breaks the CSI specification.
        if (page && page->volumes.size() >
                        static_cast<std::size_t>(request.max_entries)) {
          page.reset();
        }
        return page;
      });
}

Result<Capacity> Controller::GetCapacity(const std::string& plugin,
                                         const GetCapacityRequest& request,
                                         const Context& context) {
  return Ask<Capacity>(plugin, request, "capacity " + plugin, context,
                       ReadCapacity);
}

Result<std::string> Controller::HandOn(const std::string& plugin,
                                       const std::string& rpc,
                                       const std::string& request,
                                       const Context& context) {
  const ControllerRpcTraits* traits = FindControllerRpc(rpc);
  if (traits == nullptr || !traits->handed_on) {
    return MakeError(Code::kInvalidArgument, "call", Described(plugin),
                     "CallController does not offer this call");
  }
  return Make(
      plugin, *traits,
      {std::string(traits->name), ControllerCall::Form::kBytes, request},
      "handed on " + plugin, context);
}

}  // namespace mountd::csi
