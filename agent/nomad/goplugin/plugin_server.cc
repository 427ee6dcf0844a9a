// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/plugin_server.h"

#include <grpc/support/time.h>
#include <grpcpp/health_check_service_interface.h>
#include <sys/stat.h>

#include <utility>

#include "agent/nomad/goplugin/certificate.h"

namespace mountd::goplugin {
namespace {

// The name that hosts ask about.
constexpr char kHealthName[] = "plugin";

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(
    const HostOffer& offer, const Certificate& certificate) {
  if (offer.client_certificate.empty()) {
    return grpc::InsecureServerCredentials();
  }
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = offer.client_certificate;
  options.pem_key_cert_pairs = {{certificate.key_pem, certificate.pem}};
  return grpc::SslServerCredentials(options);
}

}  // namespace

Result<std::unique_ptr<PluginServer>> PluginServer::Start(
    const HostOffer& offer, int version,
    const std::vector<grpc::Service*>& services, const StopRequest& stop) {
  MOUNTD_ASSIGN(SocketPlace place, SocketPlace::Make(offer));
  Certificate certificate;
  if (!offer.client_certificate.empty()) {
    MOUNTD_ASSIGN(certificate, MakeCertificate());
  }
  std::unique_ptr<PluginServer> made(new PluginServer(std::move(place), stop));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + made->socket(),
                           CredentialsOf(offer, certificate));
  // A host sends and takes messages of any size.
  builder.SetMaxReceiveMessageSize(-1);
  builder.SetMaxSendMessageSize(-1);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.RegisterService(&made->controller_);
  builder.RegisterService(&made->broker_);
  builder.RegisterService(&made->stdio_);
  for (grpc::Service* service : services) {
    builder.RegisterService(service);
  }
  // umask sets the mode before the socket exists.
  const mode_t old_mask = ::umask(0177);
  made->server_ = builder.BuildAndStart();
  ::umask(old_mask);
  if (made->server_ == nullptr) {
    return MakeError(Code::kUnavailable, "listen", made->socket(),
                     "gRPC cannot listen there, or cannot read the host's "
                     "certificate");
  }
  made->server_->GetHealthCheckService()->SetServingStatus(kHealthName, true);
  MOUNTD_TRY(made->place_.OpenToGroup(offer));
  made->handshake_ =
      HandshakeLine(offer, {version, made->socket(), certificate.der});
  return made;
}

PluginServer::~PluginServer() {
  if (server_ != nullptr) {
    server_->Shutdown(gpr_now(GPR_CLOCK_MONOTONIC));
    server_->Wait();
  }
}

}  // namespace mountd::goplugin
