// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/grpc_log.h"

#include <grpc/support/log.h>

#include <string>

namespace mountd::goplugin {
namespace {

Hclog* of_grpc = nullptr;

void Log(gpr_log_func_args* message) {
  of_grpc->Write(message->severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarn
                                                             : LogLevel::kDebug,
                 message->message, {{"grpc", message->file}});
}

}  // namespace

void LogGrpcTo(Hclog& log) {
  of_grpc = &log;
  ::gpr_set_log_function(&Log);
}

}  // namespace mountd::goplugin
