// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/plausible_errors.h"

#include <cerrno>
#include <map>
#include <set>

#include "csi-node/csi_client.h"
#include "mountd/base/error.h"

namespace mountd::testing {
namespace {

using Errors = std::map<std::string, std::vector<int>>;

// By the kernel seam's methods.
const Errors& OfKernel() {
  static const Errors errors = {
      {"Open", {EMFILE}},
      {"Stat", {ENOMEM}},
      {"StatLinked", {ENOMEM}},
      {"LinkedMountId", {ENOMEM}},
      {"MakeDirectory", {ENOSPC}},
      {"MakeFile", {ENOSPC}},
      {"MakeLink", {ENOSPC}},
      {"ReadLink", {EIO}},
      {"RemoveFile", {EIO}},
      {"RemoveDirectory", {EIO}},
      {"Rename", {ENOSPC}},
      {"SetOwner", {EIO}},
      {"SetMode", {EIO}},
      {"ReadAcl", {ENOMEM}},
      {"SetAcl", {ENOSPC}},
      {"List", {EMFILE}},
      {"ListAfter", {EMFILE}},
      {"Lock", {EWOULDBLOCK, ENOLCK}},
      {"ReadFile", {EIO}},
      {"IsMemory", {EIO}},
      {"ReadMemory", {EIO}},
      {"Write", {ENOSPC}},
      {"ReadSetting", {EIO}},
      {"WriteSetting", {EIO}},
      {"OpenKernfs", {EMFILE}},
      {"HasEnded", {ENOMEM}},
      {"OpenFilesystem", {EMFILE}},
      {"ConfigureFilesystem", {ENOMEM}},
      {"CreateFilesystem", {ENOMEM}},
      {"MountFilesystem", {ENOMEM}},
      {"CloneTree", {ENOSPC, EMFILE}},
      {"SetMount", {ENOMEM}},
      {"NewUserNamespace", {ENOSPC, EAGAIN}},
      {"AttachTree", {ENOSPC, ENOMEM}},
      {"AttachBeneath", {ENOSPC}},
      {"JoinGroup", {EINVAL}},
      {"Unmount", {EBUSY}},
      {"MountById", {ENOMEM}},
      {"MountsBelow", {ENOMEM}},
      {"MountNamespaceOf", {EMFILE}},
      {"MountNamespaces", {EMFILE, ENOMEM}},
      {"MountsOfNamespace", {ENOMEM}},
      {"RunChild", {EAGAIN, ETIMEDOUT}},
      {"NewMountNamespace", {ENOSPC, ENOMEM}},
      {"EnterMountNamespace", {EINVAL}},
      {"OwnerOf", {EMFILE}},
      {"OwnerUidOf", {EMFILE}},
      {"NamespaceTypeOf", {EIO}},
      {"WatchMounts", {EMFILE}},
      {"MakeMemory", {ENOMEM}},
      {"ProbeFilesystem", {EAGAIN}},
      {"ConnectUnix", {EAGAIN}},
      {"PeerOf", {ENOMEM}},
      {"PeerProcess", {EMFILE}},
      {"NewNetNamespace", {ENOSPC}},
      {"OpenNetlinkIn", {EMFILE}},
      {"OpenNetlink", {ENOBUFS}},
      {"Subscribe", {ENOMEM}},
      {"Send", {ENOBUFS}},
      // Done, and not known to be: the socket has no room for the answer, or
      // the answer is lost.
      {"Receive", {ENOBUFS, EAGAIN}},
      {"RunNft", {ENOMEM}},
  };
  return errors;
}

const std::vector<int>& OfPlan() {
  static const std::vector<int> codes = {static_cast<int>(Code::kUnavailable),
                                         static_cast<int>(Code::kInternal)};
  return codes;
}

const std::vector<int>& OfRpc() {
  static const std::vector<int> codes = {
      static_cast<int>(csi::RpcCode::kUnavailable),
      static_cast<int>(csi::RpcCode::kInternal),
      static_cast<int>(csi::RpcCode::kInvalidArgument)};
  return codes;
}

}  // namespace

std::vector<int> PlausibleErrors(StepProcess process, const std::string& step) {
  if (process == StepProcess::kExecutor) {
    const auto found = OfKernel().find(step);
    return found == OfKernel().end() ? std::vector<int>() : found->second;
  }
  if (process == StepProcess::kCsi) {
    // Of an answer that is lost on its way none is final.
    return step == "request"
               ? OfRpc()
               : std::vector<int>{static_cast<int>(csi::RpcCode::kUnavailable)};
  }
  if (step.starts_with("plan ")) {
    return OfPlan();
  }
  if (step.starts_with("rpc ")) {
    return OfRpc();
  }
  return step.starts_with("store ") ? std::vector<int>{ENOSPC, EIO}
                                    : std::vector<int>();
}

bool IsTruthful(const std::string& told, StepAction action,
                const std::string& step) {
  static const std::set<std::string> kOfOthers = {
      "NotFound", "AlreadyExists", "PermissionDenied", "InvalidArgument",
      "NotSupported"};
  const bool plugins_word =
      action == StepAction::kFail &&
      (step.starts_with("rpc ") || step == "request" || step == "answer");
  return plugins_word || !kOfOthers.contains(told);
}

}  // namespace mountd::testing
