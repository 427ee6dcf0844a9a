// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"
#include "netns/network.h"
#include "propagation/idmap.h"
#include "propagation/kernel_filesystems.h"
#include "propagation/mount_inspector.h"
#include "propagation/residence.h"

namespace mountd::exec {

// Answers one request at a time: decodes, checks, carries out. Keeps no record
// of what it did, so what it could not tell anybody it undoes. `kernel` and
// `config` must outlive it.
class Dispatcher {
 public:
  Dispatcher(Kernel& kernel, const Config& config);

  struct Answer {
    Reply reply;
    UniqueFd fd;  // to be sent beside it, if valid
  };
  using Sender = std::function<Result<void>(const Answer&)>;
  using Fds = std::vector<UniqueFd>;
  // `fds` came beside the message and are closed at the end. Calls `send` once.
  // Fails only as that does: what is wrong with the request is in the reply.
  // What was made for it is undone then.
  Result<void> Handle(std::span<const std::byte> message, const Fds& fds,
                      const Sender& send);

  // Between requests: makes one thing that later ones will need, and is called
  // again while it says so.
  bool MakeAhead();
  // Nothing was asked for some time.
  void RestForAWhile();

 private:
  // Sends the answer as it is, from within the plan.
  using SendNow = std::function<Result<void>()>;

  Result<void> Carry(const Request& request, const Fds& fds, Answer* answer,
                     const SendNow& send);
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
  std::unique_ptr<propagation::MountInspector> inspector_;  // since a plan
  netns::Kept networks_;
  propagation::IdMaps id_maps_;
  propagation::Residence residence_;
  propagation::CheckedSources checked_;
};

}  // namespace mountd::exec
