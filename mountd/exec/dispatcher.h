// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mountd/config/config.h"
#include "mountd/kernel/kernel.h"
#include "mountd/plan/message.h"
#include "netns/plans/network.h"
#include "propagation/ground/mount_inspector.h"
#include "propagation/idmap.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/residence.h"

namespace mountd::exec {

// Answers one request at a time: decodes, checks and carries it out. Keeps no
// record of past plans. So if it cannot send an answer, it undoes that plan.
// `kernel` and `config` outlive the Dispatcher.
class Dispatcher {
 public:
  Dispatcher(Kernel& kernel, const Config& config);

  struct Answer {
    Reply reply;
    UniqueFd fd;  // sent beside the reply, if valid
  };
  using Sender = std::function<Result<void>(const Answer&)>;
  using Fds = std::vector<UniqueFd>;
  // Carries out one request and calls `send` once. At the end closes `fds`,
  // which came beside the message. Fails only if `send` fails, and then undoes
  // the plan. Errors of the request itself are in the reply.
  Result<void> Handle(std::span<const std::byte> message, const Fds& fds,
                      const Sender& send);

  // Makes one object in advance that later requests need. Called between
  // requests, again and again while it returns true.
  bool MakeAhead();
  // Called when no request came for some time.
  void RestForAWhile();

 private:
  // Sends the answer from within the plan.
  using SendNow = std::function<Result<void>()>;

  Result<void> Carry(const Request& request, const Fds& fds, Answer* answer,
                     const SendNow& send);
  Result<void> CarryAlone(const Request& request, const Fds& fds,
                          Answer* answer);
  Result<void> CarryMount(const Request& request, const Fds& fds,
                          Answer* answer, const SendNow& send);
  Result<void> CarryPlugin(const Request& request, Answer* answer,
                           const SendNow& send);
  Result<void> CarryNetwork(const Request& request, const Fds& fds,
                            Answer* answer, const SendNow& send);
  Result<netns::KeptSockets> KeptSocketsOf(const Request& request,
                                           const Fds& fds);
  Result<void> CarryTask(const Request& request, const Fds& fds,
                         Answer* answer);
  Result<void> CarryTree(const Request& request, const Fds& fds,
                         Answer* answer);
  Result<void> CarryHealth(const Request& request, Answer* answer);
  Result<HelloReply> Hello();
  propagation::Context ContextOf();

  Kernel& kernel_;
  const Config& config_;
  // Made by the first plan.
  std::unique_ptr<propagation::MountInspector> inspector_;
  netns::Kept networks_;
  propagation::IdMaps id_maps_;
  propagation::Residence residence_;
  propagation::CheckedSources checked_;
};

}  // namespace mountd::exec
