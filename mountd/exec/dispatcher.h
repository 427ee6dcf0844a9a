// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"
#include "netns/network.h"
#include "propagation/mount_inspector.h"

namespace mountd::exec {

// Answers one request at a time: decodes, checks, carries out. Keeps no record
// of what it did. `kernel` and `config` must outlive it.
class Dispatcher {
 public:
  Dispatcher(Kernel& kernel, const Config& config);

  struct Answer {
    Reply reply;
    UniqueFd fd;  // to be sent beside it, if valid
  };
  // Never fails: what is wrong is in the reply.
  Answer Handle(std::span<const std::byte> message);

 private:
  Result<void> Carry(const Request& request, Answer* answer);
  Result<void> CarryMount(const Request& request, Answer* answer);
  Result<void> CarryPlugin(const Request& request, Answer* answer);
  Result<void> CarryNetwork(const Request& request, Answer* answer);
  Result<HelloReply> Hello();

  Kernel& kernel_;
  const Config& config_;
  std::unique_ptr<propagation::MountInspector> inspector_;
  netns::Sockets sockets_;
};

}  // namespace mountd::exec
