// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/host_services.h"

namespace mountd::goplugin {
namespace {

class StopCall final : public grpc::ServerUnaryReactor {
 public:
  explicit StopCall(const StopRequest& stop) : stop_(stop) {
    Finish(grpc::Status::OK);
  }
  void OnDone() override {
    stop_.Make();
    delete this;
  }

 private:
  const StopRequest& stop_;
};

class BrokerCall final
    : public grpc::ServerBidiReactor<plugin::ConnInfo, plugin::ConnInfo> {
 public:
  BrokerCall() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (ok) {
      StartRead(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnDone() override { delete this; }

 private:
  plugin::ConnInfo message_;
};

class StdioCall final : public grpc::ServerWriteReactor<plugin::StdioData> {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* ControllerService::Shutdown(
    grpc::CallbackServerContext* /*context*/, const plugin::Empty* /*request*/,
    plugin::Empty* /*response*/) {
  return new StopCall(stop_);
}

grpc::ServerBidiReactor<plugin::ConnInfo, plugin::ConnInfo>*
BrokerService::StartStream(grpc::CallbackServerContext* /*context*/) {
  return new BrokerCall;
}

grpc::ServerWriteReactor<plugin::StdioData>* StdioService::StreamStdio(
    grpc::CallbackServerContext* /*context*/,
    const google::protobuf::Empty* /*request*/) {
  return new StdioCall;
}

}  // namespace mountd::goplugin
