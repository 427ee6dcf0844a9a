// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/ipc/message.h"
#include "csi-node/mountd_csi/plugin_channel.h"
#include "csi-node/mountd_csi/rpc_queue.h"
#include "csi-node/secrets.h"

namespace mountd::csi {

// One request of mountd's on its way to a plugin and back. Used on the loop's
// thread only. Keeps itself alive until it is done.
class Call : public std::enable_shared_from_this<Call> {
 public:
  using Done = std::function<void(ipc::Reply)>;

  // `done` is called exactly once, on the loop's thread, from within Begin or
  // later, never from within Cancel.
  static std::shared_ptr<Call> Make(std::shared_ptr<PluginChannel> channel,
                                    ipc::Request request, Secrets secrets,
                                    RpcQueue* queue, Done done);

  // Once.
  void Begin();
  // The reply is then kCancelled, unless an answer was on its way already.
  void Cancel();

  const std::shared_ptr<PluginChannel>& channel() const { return channel_; }

 private:
  Call() = default;

  void StartCapabilities();
  void StartControllerCapabilities();
  void StartNodeCapabilities();

  // Makes one RPC by the stub's Async<method>; `then` gets the answer if there
  // is one. With `unimplemented_is_empty` a plugin without the service answers
  // nothing.
  template <typename Stub, typename Message, typename Response>
  using AsyncMethod =
      std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
          grpc::ClientContext*, const Message&, grpc::CompletionQueue*);
  template <typename Stub, typename Message, typename Response, typename Then>
  void Unary(Stub* stub, AsyncMethod<Stub, Message, Response> method,
             Message message, Then then, bool unimplemented_is_empty = false);
  // For a response that says nothing.
  template <typename Stub, typename Message, typename Response>
  void UnaryForNothing(Stub* stub, AsyncMethod<Stub, Message, Response> method,
                       Message message);
  // Finishes with what FromProto makes of the response.
  template <typename Stub, typename Message, typename Response>
  void UnaryForAnswer(Stub* stub, AsyncMethod<Stub, Message, Response> method,
                      Message message = Message());

  // Sets the RPC's deadline and makes it the one to cancel; false, and the call
  // has failed, if it is too late.
  bool Prepare(const std::shared_ptr<grpc::ClientContext>& context);

  void StartController();

  void Finish(ipc::Answer answer);
  // What no text that leaves may show.
  std::vector<std::string_view> Hidden() const;
  void Fail(const RpcError& error);
  void FailWith(const grpc::Status& status);

  std::shared_ptr<PluginChannel> channel_;
  ipc::Request request_;
  Secrets secrets_;
  RpcQueue* queue_ = nullptr;
  Done done_;
  PluginCapabilities capabilities_;
  std::vector<std::string> mount_flags_;  // of the request: no text shows them
  std::shared_ptr<grpc::ClientContext> context_;  // of the RPC in flight
  bool cancelled_ = false;
};

}  // namespace mountd::csi
