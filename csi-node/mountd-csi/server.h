// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "csi-node/ipc/frame_socket.h"
#include "csi-node/ipc/message.h"
#include "csi-node/mountd-csi/call.h"
#include "csi-node/mountd-csi/plugin_channel.h"
#include "csi-node/mountd-csi/poster.h"
#include "csi-node/mountd-csi/rpc_queue.h"
#include "mountd/base/steps.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi {

// The server of mountd-csi. Accepts connections from one user, opens channels
// on each connection, makes calls on each channel. When a connection ends,
// closes its channels and cancels its calls. Runs on one thread.
class Server {
 public:
  // `listener` is a listening unix stream socket. `peer` is the only user that
  // is served. Each call of mountd and each answer to one is a step of `steps`.
  Server(UniqueFd listener, uid_t peer, Steps* steps = nullptr);
  ~Server();

  // Serves a connection that the caller has made (for tests).
  void Adopt(UniqueFd socket);

  // Runs until `stop` (a signalfd) is readable, then cancels the calls in
  // flight and waits up to a second for them. False if the loop itself failed.
  bool Run(const UniqueFd& stop);

 private:
  struct Channel {
    std::uint64_t generation = 0;
    std::shared_ptr<PluginChannel> channel;
  };
  struct Connection {
    explicit Connection(UniqueFd socket)
        : frames(std::move(socket), ipc::FrameSocket::AcceptFds::kYes) {}

    ipc::FrameSocket frames;
    std::map<std::string, Channel> channels;               // by plugin
    std::map<std::uint64_t, std::shared_ptr<Call>> calls;  // by request id
    bool broken = false;
  };

  // Does one poll and handles its events; false if poll failed.
  bool Turn(int stop_fd, int timeout_ms, bool* stopped);
  void Accept();
  void Serve(std::uint64_t serial, Connection* connection, short events);
  void Handle(std::uint64_t serial, Connection* connection, ipc::Frame frame);
  void Open(Connection* connection, const ipc::Request& request, UniqueFd fd);
  void CloseChannel(Connection* connection, const std::string& plugin);
  void StartCall(std::uint64_t serial, Connection* connection,
                 ipc::Request request, UniqueFd fd);
  void Answer(Connection* connection, const ipc::Reply& reply);
  // Returns kOk, or the code that the step has to fail with.
  RpcCode BeginStep(std::string_view step);
  void EndStep();
  void OnDone(std::uint64_t serial, const ipc::Reply& reply);
  void DropBroken();
  void CancelAll(Connection* connection);

  UniqueFd listener_;
  const uid_t peer_;
  Steps* const steps_;  // may be null
  Poster poster_;
  std::uint64_t next_serial_ = 0;
  // The connections by their serials, so that a late answer to a lost
  // connection finds no connection.
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::size_t calls_in_flight_ = 0;
  // Destroyed first, so that no RPC is in flight while the others are
  // destroyed.
  RpcQueue queue_;
};

}  // namespace mountd::csi
