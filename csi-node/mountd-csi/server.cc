// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/mountd-csi/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "csi-node/types/secrets.h"

namespace mountd::csi {
namespace {

constexpr std::size_t kMaxConnections = 16;
constexpr std::size_t kMaxChannels = 256;  // per connection
constexpr std::size_t kMaxCalls = 1024;    // per connection
constexpr std::size_t kMaxUnsent = std::size_t{16} << 20U;
constexpr std::chrono::seconds kDrain{1};

ipc::Reply MakeReply(std::uint64_t id, RpcCode code, std::string message) {
  ipc::Reply reply;
  reply.id = id;
  reply.code = code;
  reply.message = std::move(message);
  return reply;
}

}  // namespace

Server::Server(UniqueFd listener, uid_t peer, Steps* steps)
    : listener_(std::move(listener)),
      peer_(peer),
      steps_(steps),
      queue_(&poster_) {
  // Sets O_NONBLOCK, because accept must not block if a client has closed its
  // connection again.
  const int flags = ::fcntl(listener_.get(), F_GETFL);
  if (flags >= 0) {
    ::fcntl(listener_.get(), F_SETFL, flags | O_NONBLOCK);
  }
}

Server::~Server() = default;

void Server::Adopt(UniqueFd socket) {
  connections_.emplace(++next_serial_,
                       std::make_unique<Connection>(std::move(socket)));
}

bool Server::Run(const UniqueFd& stop) {
  bool stopped = false;
  while (!stopped) {
    if (!Turn(stop.get(), -1, &stopped)) {
      return false;
    }
  }
  for (const auto& [serial, connection] : connections_) {
    CancelAll(connection.get());
  }
  const Clock::time_point end = Clock::now() + kDrain;
  while (calls_in_flight_ > 0 && Clock::now() < end) {
    // poll ignores a negative fd, so a second signal changes nothing.
    if (!Turn(-1, 50, &stopped)) {
      return false;
    }
  }
  return true;
}

bool Server::Turn(int stop_fd, int timeout_ms, bool* stopped) {
  std::vector<pollfd> fds{{stop_fd, POLLIN, 0},
                          {poster_.fd(), POLLIN, 0},
                          {listener_.get(), POLLIN, 0}};
  const std::size_t first = fds.size();
  std::vector<std::uint64_t> serials;
  for (const auto& [serial, connection] : connections_) {
    short events = POLLIN;
    if (connection->frames.HasQueued()) {
      events = POLLIN | POLLOUT;
    }
    fds.push_back({connection->frames.fd(), events, 0});
    serials.push_back(serial);
  }
  if (::poll(fds.data(), fds.size(), timeout_ms) < 0) {
    return errno == EINTR;
  }
  if (fds[0].revents != 0) {
    *stopped = true;
  }
  if (fds[1].revents != 0) {
    poster_.RunPosted();
  }
  // Only DropBroken removes connections, so each serial still has one.
  for (std::size_t i = 0; i < serials.size(); ++i) {
    if (fds[first + i].revents != 0) {
      Serve(serials[i], connections_.at(serials[i]).get(),
            fds[first + i].revents);
    }
  }
  if (fds[2].revents != 0) {
    Accept();
  }
  DropBroken();
  return true;
}

void Server::Accept() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.valid()) {
    return;
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != peer_ || connections_.size() >= kMaxConnections) {
    return;
  }
  Adopt(std::move(socket));
}

void Server::Serve(std::uint64_t serial, Connection* connection, short events) {
  if ((events & POLLOUT) != 0 && !connection->frames.Flush()) {
    connection->broken = true;
    return;
  }
  std::vector<ipc::Frame> frames;
  const Result<void> received = connection->frames.Receive(&frames);
  for (ipc::Frame& frame : frames) {
    if (!connection->broken) {
      Handle(serial, connection, std::move(frame));
    }
  }
  if (!received) {
    connection->broken = true;
  }
}

void Server::Handle(std::uint64_t serial, Connection* connection,
                    ipc::Frame frame) {
  Result<ipc::Request> request = ipc::DecodeRequest(frame.payload);
  if (!request) {
    connection->broken = true;
    return;
  }
  switch (request->method) {
    case ipc::Method::kOpen:
      Open(connection, *request, std::move(frame.fd));
      return;
    case ipc::Method::kClose: {
      const auto found = connection->channels.find(request->channel.plugin);
      if (found != connection->channels.end() &&
          found->second.generation == request->channel.generation) {
        CloseChannel(connection, request->channel.plugin);
      }
      Answer(connection, MakeReply(request->id, RpcCode::kOk, {}));
      return;
    }
    default:
      StartCall(serial, connection, std::move(*request), std::move(frame.fd));
      return;
  }
}

void Server::Open(Connection* connection, const ipc::Request& request,
                  UniqueFd fd) {
  const auto found = connection->channels.find(request.channel.plugin);
  if (found != connection->channels.end() &&
      found->second.generation >= request.channel.generation) {
    Answer(
        connection,
        MakeReply(request.id, RpcCode::kAlreadyExists,
                  "this or a newer generation of the channel is already open"));
    return;
  }
  if (connection->channels.size() >= kMaxChannels) {
    Answer(connection, MakeReply(request.id, RpcCode::kResourceExhausted,
                                 "too many channels are open"));
    return;
  }
  RpcResult<std::shared_ptr<PluginChannel>> channel =
      MakePluginChannel(std::move(fd));
  if (!channel) {
    Answer(connection, MakeReply(request.id, channel.error().code,
                                 channel.error().message));
    return;
  }
  // A plugin has one channel, so the new channel replaces an older one.
  CloseChannel(connection, request.channel.plugin);
  connection->channels[request.channel.plugin] = {request.channel.generation,
                                                  std::move(*channel)};
  Answer(connection, MakeReply(request.id, RpcCode::kOk, {}));
}

void Server::CloseChannel(Connection* connection, const std::string& plugin) {
  const auto found = connection->channels.find(plugin);
  if (found == connection->channels.end()) {
    return;
  }
  for (const auto& [id, call] : connection->calls) {
    if (call->channel() == found->second.channel) {
      call->Cancel();
    }
  }
  connection->channels.erase(found);
}

void Server::StartCall(std::uint64_t serial, Connection* connection,
                       ipc::Request request, UniqueFd fd) {
  const std::uint64_t id = request.id;
  const auto found = connection->channels.find(request.channel.plugin);
  if (found == connection->channels.end() ||
      found->second.generation != request.channel.generation) {
    Answer(connection,
           MakeReply(id, RpcCode::kUnavailable,
                     "the channel is gone: it is not open in mountd-csi"));
    return;
  }
  if (connection->calls.size() >= kMaxCalls) {
    Answer(connection,
           MakeReply(
               id, RpcCode::kResourceExhausted,
               "too many calls are pending at mountd-csi; call again later"));
    return;
  }
  // mountd never uses an id twice, so the peer breaks the protocol.
  if (connection->calls.count(id) != 0) {
    connection->broken = true;
    return;
  }
  Secrets secrets;
  if (fd.valid()) {
    Result<Secrets> decoded = DecodeSecrets(fd);
    if (!decoded) {
      Answer(connection, MakeReply(id, RpcCode::kInvalidArgument,
                                   "secrets: " + decoded.error().detail));
      return;
    }
    secrets = std::move(*decoded);
  }
  if (const RpcCode code = BeginStep("request"); code != RpcCode::kOk) {
    Answer(connection, MakeReply(id, code, "as a test has it"));
    return;
  }
  ++calls_in_flight_;
  const std::shared_ptr<Call> call = Call::Make(
      found->second.channel, std::move(request), std::move(secrets), &queue_,
      [this, serial](const ipc::Reply& reply) { OnDone(serial, reply); });
  // Adds the call before Begin, because Begin may already finish the call.
  connection->calls[id] = call;
  EndStep();
  call->Begin();
}

void Server::OnDone(std::uint64_t serial, const ipc::Reply& reply) {
  --calls_in_flight_;
  const auto found = connections_.find(serial);
  if (found == connections_.end()) {
    return;
  }
  found->second->calls.erase(reply.id);
  const RpcCode code = BeginStep("answer");
  Answer(found->second.get(),
         code == RpcCode::kOk ? reply
                              : MakeReply(reply.id, code, "as a test has it"));
  EndStep();
}

RpcCode Server::BeginStep(std::string_view step) {
  return steps_ == nullptr ? RpcCode::kOk
                           : static_cast<RpcCode>(steps_->Begin(step));
}

void Server::EndStep() {
  if (steps_ != nullptr) {
    steps_->End();
  }
}

void Server::Answer(Connection* connection, const ipc::Reply& reply) {
  if (connection->broken) {
    return;
  }
  // A peer that does not read must not fill the memory.
  if (connection->frames.queued_bytes() > kMaxUnsent ||
      !connection->frames.Queue({ipc::Encode(reply), UniqueFd()}) ||
      !connection->frames.Flush()) {
    connection->broken = true;
  }
}

void Server::CancelAll(Connection* connection) {
  for (const auto& [id, call] : connection->calls) {
    call->Cancel();
  }
}

void Server::DropBroken() {
  for (auto item = connections_.begin(); item != connections_.end();) {
    if (item->second->broken) {
      CancelAll(item->second.get());
      item = connections_.erase(item);
    } else {
      ++item;
    }
  }
}

}  // namespace mountd::csi
