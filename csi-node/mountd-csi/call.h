// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/ipc/message.h"
#include "csi-node/mountd-csi/plugin_channel.h"
#include "csi-node/mountd-csi/rpc_queue.h"
#include "csi-node/types/secrets.h"

namespace mountd::csi {

// One request of mountd to a plugin, from its start to its answer. Runs on the
// loop's thread only. Keeps itself alive until it is done.
class Call : public std::enable_shared_from_this<Call> {
 public:
  using Done = std::function<void(ipc::Reply)>;

  // Calls `done` exactly once, on the loop's thread, from within Begin or
  // later, never from within Cancel.
  static std::shared_ptr<Call> Make(std::shared_ptr<PluginChannel> channel,
                                    ipc::Request request, Secrets secrets,
                                    RpcQueue* queue, Done done);

  // Call once.
  void Begin();
  // Makes the reply kCancelled, unless an answer is on its way already.
  void Cancel();

  const std::shared_ptr<PluginChannel>& channel() const { return channel_; }

 private:
  Call() = default;

  void StartCapabilities();
  void StartControllerCapabilities();
  void StartNodeCapabilities();

  // Makes one RPC by the stub's Async<method>. Passes the answer to `then` if
  // there is one. With `unimplemented_is_empty`, takes UNIMPLEMENTED for an
  // empty answer, because the plugin lacks the service then.
  template <typename Stub, typename Message, typename Response>
  using AsyncMethod =
      std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
          grpc::ClientContext*, const Message&, grpc::CompletionQueue*);
  template <typename Stub, typename Message, typename Response, typename Then>
  void Unary(Stub* stub, AsyncMethod<Stub, Message, Response> method,
             Message message, Then then, bool unimplemented_is_empty = false);
  // Makes an RPC whose response is empty.
  template <typename Stub, typename Message, typename Response>
  void UnaryForNothing(Stub* stub, AsyncMethod<Stub, Message, Response> method,
                       Message message);
  // Finishes with the answer that FromProto makes of the response.
  template <typename Stub, typename Message, typename Response>
  void UnaryForAnswer(Stub* stub, AsyncMethod<Stub, Message, Response> method,
                      Message message = Message());

  // Sets the RPC's deadline, and notes the RPC for Cancel. False if it is too
  // late; the call has failed then.
  bool Prepare(const std::shared_ptr<grpc::ClientContext>& context);

  void StartController();

  void Finish(ipc::Answer answer);
  // Returns the texts that no reply may show.
  std::vector<std::string_view> Hidden() const;
  void Fail(const RpcError& error);
  void FailWith(const grpc::Status& status);

  std::shared_ptr<PluginChannel> channel_;
  ipc::Request request_;
  Secrets secrets_;
  RpcQueue* queue_ = nullptr;
  Done done_;
  PluginCapabilities capabilities_;
  std::vector<std::string> mount_flags_;  // of the request; no reply shows them
  std::shared_ptr<grpc::ClientContext> context_;  // of the RPC in flight
  bool cancelled_ = false;
};

}  // namespace mountd::csi
