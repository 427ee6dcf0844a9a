// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "agent/client.h"
#include "agent/mountd-csi-proxy/calls.h"
#include "agent/mountd-csi-proxy/publication.h"
#include "agent/mountd-csi-proxy/request.h"
#include "agent/mountd-csi-proxy/status.h"
#include "mountd/base/worker_pool.h"

namespace mountd::csi_proxy {

// A plugin of mountd's for which the proxy stands. All its services share it.
// Thread-safe.
class ProxiedPlugin {
 public:
  ProxiedPlugin(std::string name, Calls& calls)
      : name_(std::move(name)), calls_(calls) {}

  using Outcome = Result<void>;

  const std::string& name() const { return name_; }

  // RPCs that may wait for the plugin at once, each with a thread of gRPC's.
  // One more is RESOURCE_EXHAUSTED, so that the RPCs that only look at the
  // plugin, such as Probe, always find a thread.
  static constexpr std::size_t kMostWaiting = 64;

  // Returns the plugin as mountd knows it. FailedPrecondition if mountd knows
  // no such plugin.
  Result<agent::PluginStatus> Status(const RpcTime& time);

  // Answers an RPC: checks the texts of the request, calls `work` with a client
  // and the RPC's time, and logs a failure. `work` returns a Result.
  template <typename Request, typename F>
  grpc::Status Answer(const char* rpc, const grpc::ServerContext& context,
                      const Request& request, const F& work) {
    const Wait wait(waiting_);
    return wait.admitted() ? AnswerAdmitted(rpc, context, request, work)
                           : Finish(rpc, TooMany(rpc));
  }
  // The same for an RPC about a target path, which `field` of the request has.
  // Calls of one path run one after the other, because a call whose caller has
  // gone must not go on under the next one.
  template <typename Request, typename F>
  grpc::Status AnswerAt(const char* rpc, const grpc::ServerContext& context,
                        const Request& request, const char* field,
                        const std::string& path, const F& work) {
    Result<std::string> clean = CleanPath(field, path);
    if (!clean) {
      return Finish(rpc, clean.error());
    }
    const Wait wait(waiting_);
    if (!wait.admitted()) {
      return Finish(rpc, TooMany(rpc));
    }
    const Publication publication(name_, *std::move(clean),
                                  calls_.options().reads_back);
    const KeyedLocks::Guard guard = targets_.Lock(publication.allocation());
    return AnswerAdmitted(rpc, context, request,
                          [&](agent::Client& client, const RpcTime& time) {
                            return work(client, time, publication);
                          });
  }
  // The same for an RPC that is answered from the plugin's status.
  template <typename F>
  grpc::Status AnswerFromStatus(const char* rpc,
                                const grpc::ServerContext& context,
                                const F& read) {
    const RpcTime time(context, calls_.options().longest);
    const auto status = Status(time);
    return Finish(rpc, status ? Drop(read(*status)) : Outcome(status.error()));
  }

  // Logs a failure, and returns it as a status.
  grpc::Status Finish(const char* rpc, const Outcome& outcome) const;

 private:
  // Counts an RPC among those that may wait for the plugin.
  class Wait {
   public:
    explicit Wait(std::atomic<std::size_t>& waiting)
        : waiting_(waiting), admitted_(waiting.fetch_add(1) < kMostWaiting) {}
    ~Wait() { --waiting_; }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    bool admitted() const { return admitted_; }

   private:
    std::atomic<std::size_t>& waiting_;
    const bool admitted_;
  };

  Error TooMany(const char* rpc) const {
    return MakeError(Code::kResourceExhausted, rpc, name_,
                     std::to_string(kMostWaiting) +
                         " other RPCs of the plugin wait; call again later");
  }
  template <typename Request, typename F>
  grpc::Status AnswerAdmitted(const char* rpc,
                              const grpc::ServerContext& context,
                              const Request& request, const F& work) {
    const RpcTime time(context, calls_.options().longest);
    return InTime(time, rpc, Checked(request, [&]() -> Outcome {
                    return KnownPlugin(
                        calls_.Work(name_, time,
                                    [&](agent::Client& client) -> Outcome {
                                      return Drop(work(client, time));
                                    }),
                        time);
                  }));
  }
  template <typename T>
  static Outcome Drop(const Result<T>& result) {
    return result ? Ok() : Outcome(result.error());
  }
  template <typename F>
  static Outcome Checked(const google::protobuf::Message& request,
                         const F& then) {
    Outcome checked = CheckTexts(request);
    return checked ? then() : checked;
  }
  // Finish, with gRPC's own code for an RPC whose deadline has passed. The
  // server and the client see a deadline at the same moment, and the code must
  // not depend on which of them is first.
  grpc::Status InTime(const RpcTime& time, const char* rpc,
                      const Outcome& outcome) const;
  // Turns a NotFound about the plugin into FailedPrecondition.
  Outcome KnownPlugin(Outcome outcome, const RpcTime& time);

  const std::string name_;
  Calls& calls_;
  KeyedLocks targets_;  // of target paths, by their allocations
  std::atomic<std::size_t> waiting_ = 0;
};

}  // namespace mountd::csi_proxy
