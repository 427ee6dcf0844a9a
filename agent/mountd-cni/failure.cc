// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/failure.h"

#include "netns/cni/documents/names.h"

namespace mountd::cni_plugin {
namespace {

constexpr int kFirstOwnCode = 100;
constexpr std::size_t kMaxMessageBytes = 1024;

}  // namespace

Failure FailureOf(const Error& error) {
  switch (error.code) {
    case Code::kUnavailable:
    case Code::kBusy:
    case Code::kInProgress:
    case Code::kDeadlineExceeded:
      return {cni::kTryAgainLater, error.Message()};
    default:
      return {kFirstOwnCode + static_cast<int>(error.code), error.Message()};
  }
}

cni::Json ToJson(const Failure& failure, const std::string& version) {
  return {{"cniVersion", version},
          {"code", failure.code},
          {"msg", cni::Scrubbed(failure.message, kMaxMessageBytes)}};
}

}  // namespace mountd::cni_plugin
