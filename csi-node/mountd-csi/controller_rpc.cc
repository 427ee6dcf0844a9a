// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/controller_rpc.h"

#include <google/protobuf/util/json_util.h>

#include <array>
#include <utility>

#include "csi-node/ipc/message.h"
#include "csi-node/mountd-csi/message_bounds.h"
#include "csi-node/mountd-csi/scrub.h"
#include "csi-node/mountd-csi/values_to_proto.h"

namespace mountd::csi {

using google::protobuf::Message;
using ProtoMap = google::protobuf::Map<std::string, std::string>;

struct ControllerRpc {
  std::string_view service;
  std::string_view name;
  std::unique_ptr<Message> (*new_request)();
  std::unique_ptr<Message> (*new_response)();
  // Returns the request's secrets; null if its type has none.
  ProtoMap* (*secrets)(Message*);
};

namespace {

template <typename T>
std::unique_ptr<Message> New() {
  return std::make_unique<T>();
}

template <typename Request>
ProtoMap* SecretsOf(Message* message) {
  if constexpr (requires(Request request) { request.mutable_secrets(); }) {
    return static_cast<Request*>(message)->mutable_secrets();
  } else {
    return nullptr;
  }
}

#define MOUNTD_RPC(service, name)                                    \
  ControllerRpc {                                                    \
    service, #name, New<pb::name##Request>, New<pb::name##Response>, \
        SecretsOf<pb::name##Request>                                 \
  }
#define MOUNTD_CONTROLLER(name) MOUNTD_RPC("Controller", name)
#define MOUNTD_GROUP(name) MOUNTD_RPC("GroupController", name)

constexpr std::array kRpcs = {
    MOUNTD_CONTROLLER(CreateVolume),
    MOUNTD_CONTROLLER(DeleteVolume),
    MOUNTD_CONTROLLER(ControllerPublishVolume),
    MOUNTD_CONTROLLER(ControllerUnpublishVolume),
    MOUNTD_CONTROLLER(ValidateVolumeCapabilities),
    MOUNTD_CONTROLLER(ListVolumes),
    MOUNTD_CONTROLLER(GetCapacity),
    MOUNTD_CONTROLLER(ControllerExpandVolume),
    MOUNTD_CONTROLLER(ControllerGetVolume),
    MOUNTD_CONTROLLER(ControllerModifyVolume),
    MOUNTD_CONTROLLER(ControllerListVolumeHealth),
    MOUNTD_CONTROLLER(ControllerGetVolumeHealth),
    MOUNTD_CONTROLLER(CreateSnapshot),
    MOUNTD_CONTROLLER(DeleteSnapshot),
    MOUNTD_CONTROLLER(ListSnapshots),
    MOUNTD_CONTROLLER(GetSnapshot),
    MOUNTD_GROUP(GroupControllerGetCapabilities),
    MOUNTD_GROUP(CreateVolumeGroupSnapshot),
    MOUNTD_GROUP(DeleteVolumeGroupSnapshot),
    MOUNTD_GROUP(GetVolumeGroupSnapshot),
};

#undef MOUNTD_GROUP
#undef MOUNTD_CONTROLLER
#undef MOUNTD_RPC

const ControllerRpc* Find(std::string_view name) {
  for (const ControllerRpc& rpc : kRpcs) {
    if (rpc.name == name) {
      return &rpc;
    }
  }
  return nullptr;
}

bool Parse(const ControllerCall& call, Message* message) {
  if (call.form == ControllerCall::Form::kJson) {
    // JsonStringToMessage refuses unknown fields by default.
    return google::protobuf::util::JsonStringToMessage(call.request, message)
        .ok();
  }
  return message->ParseFromString(call.request) && !HasUnknownFields(*message);
}

RpcError Invalid(std::string text) {
  return {RpcCode::kInvalidArgument, std::move(text)};
}

RpcError BadAnswer(const std::string& why) {
  return {RpcCode::kDataLoss, "the plugin's answer is not valid: " + why};
}

}  // namespace

ControllerMessage::~ControllerMessage() {
  if (message_ != nullptr) {
    if (ProtoMap* secrets = rpc_->secrets(message_.get())) {
      WipeSecrets(secrets);
    }
  }
}

std::string ControllerMessage::path() const {
  return "/csi.v1." + std::string(rpc_->service) + "/" +
         std::string(rpc_->name);
}

std::unique_ptr<Message> ControllerMessage::NewResponse() const {
  return rpc_->new_response();
}

std::vector<std::string> ControllerMessage::MountFlags() const {
  std::vector<std::string> flags;
  ForEachText(message_.get(), "mount_flags", [&](const std::string& flag) {
    flags.push_back(flag);
    return flag;
  });
  return flags;
}

// No error's text quotes the request, because the request may hold a secret.
RpcResult<ControllerMessage> BuildController(const ControllerCall& call,
                                             const Secrets& secrets) {
  const ControllerRpc* rpc = Find(call.rpc);
  if (rpc == nullptr) {
    return RpcError{RpcCode::kUnimplemented,
                    "a controller has no RPC of this name"};
  }
  ControllerMessage request(*rpc, rpc->new_request());
  auto* message = const_cast<Message*>(&request.message());
  const bool parsed = Parse(call, message);
  ProtoMap* to = rpc->secrets(message);
  // Secrets may only come by the memfd, because a request may have been in a
  // log.
  if (to != nullptr && !to->empty()) {
    return Invalid(
        "secrets must be passed in the option secrets, not in the request");
  }
  if (!parsed) {
    return Invalid("the request must be a valid " + std::string(rpc->name) +
                   "Request");
  }
  if (!secrets.empty() && to == nullptr) {
    return Invalid(std::string(rpc->name) + " takes no secrets");
  }
  for (const auto& [key, value] : secrets.entries()) {
    (*to)[std::string(key)].assign(value);
  }
  return request;
}

RpcResult<std::string> ReadController(
    ControllerCall::Form form, const std::vector<std::string_view>& hidden,
    Message* response) {
  if (response->ByteSizeLong() > kMaxResponse) {
    return BadAnswer("the answer is too large");
  }
  ForEachText(response, "message",
              [&](const std::string& text) { return Scrub(text, hidden); });
  if (const char* why = BeyondBounds(*response)) {
    return BadAnswer(why);
  }
  std::string text;
  if (form == ControllerCall::Form::kBytes) {
    text = response->SerializeAsString();
  } else {
    google::protobuf::util::JsonPrintOptions options;
    // ipc/controller_json.cc reads the names of csi.proto and enumerations as
    // numbers.
    options.preserve_proto_field_names = true;
    options.always_print_enums_as_ints = true;
    if (!google::protobuf::util::MessageToJsonString(*response, &text, options)
             .ok()) {
      return BadAnswer("the answer cannot be written as JSON");
    }
  }
  if (text.size() > ipc::kMaxControllerAnswer) {
    return BadAnswer("the answer is too large");
  }
  return text;
}

}  // namespace mountd::csi
