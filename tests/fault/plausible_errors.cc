// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/plausible_errors.h"

#include <cerrno>
#include <map>
#include <set>

#include "csi-node/types/csi_client.h"
#include "mountd/base/error.h"

namespace mountd::testing {
namespace {

using Errors = std::map<std::string, std::vector<int>>;

// Plausible errnos by method of the kernel seam. Each method has several, and
// none says anything false about an object.
const Errors& OfKernel() {
  static const Errors errors = {
      {"Open", {EMFILE, ENOMEM, EIO}},
      {"Stat", {ENOMEM, EIO}},
      {"StatLinked", {ENOMEM, EIO}},
      {"LinkedMountId", {ENOMEM, EIO}},
      {"MakeDirectory", {ENOSPC, ENOMEM}},
      {"MakeFile", {ENOSPC, EDQUOT}},
      {"MakeLink", {ENOSPC, EIO}},
      {"ReadLink", {EIO, ENOMEM}},
      {"RemoveFile", {EIO, ENOMEM}},
      {"RemoveDirectory", {EIO, ENOMEM}},
      {"Rename", {ENOSPC, EIO}},
      {"SetOwner", {EIO, EDQUOT}},
      {"SetMode", {EIO, ENOMEM}},
      {"ReadAcl", {ENOMEM, EIO}},
      {"SetAcl", {ENOSPC, ENOMEM}},
      {"List", {EMFILE, ENOMEM}},
      {"ListAfter", {EMFILE, ENOMEM}},
      {"Lock", {EWOULDBLOCK, ENOLCK}},
      {"ReadFile", {EIO, ENOMEM}},
      {"IsMemory", {EIO, ENOMEM}},
      {"ReadMemory", {EIO, ENOMEM}},
      {"Write", {ENOSPC, EIO}},
      {"ReadSetting", {EIO, EMFILE}},
      {"WriteSetting", {EIO, ENOMEM}},
      {"OpenKernfs", {EMFILE, ENOMEM}},
      {"HasEnded", {ENOMEM, EIO}},
      {"OpenFilesystem", {EMFILE, ENOMEM}},
      {"ConfigureFilesystem", {ENOMEM, EIO}},
      {"CreateFilesystem", {ENOMEM, EIO}},
      {"MountFilesystem", {ENOMEM, EMFILE}},
      {"CloneTree", {ENOSPC, EMFILE}},
      {"LockTree", {ENOSPC, ETIMEDOUT}},
      {"SetMount", {ENOMEM, EIO}},
      {"NewUserNamespace", {ENOSPC, EAGAIN}},
      {"AttachTree", {ENOSPC, ENOMEM}},
      {"AttachBeneath", {ENOSPC, ENOMEM}},
      {"JoinGroup", {EINVAL, ENOMEM}},
      {"Unmount", {EBUSY, ENOMEM}},
      {"MountById", {ENOMEM, EIO}},
      {"MountsBelow", {ENOMEM, EIO}},
      {"MountNamespaceOf", {EMFILE, ENOMEM}},
      {"MountNamespaces", {EMFILE, ENOMEM}},
      {"MountsOfNamespace", {ENOMEM, EIO}},
      {"RunChild", {EAGAIN, ETIMEDOUT, ECHILD}},
      {"NewMountNamespace", {ENOSPC, ENOMEM}},
      {"EnterMountNamespace", {EINVAL, ENOMEM}},
      {"OwnerOf", {EMFILE, ENOMEM}},
      {"OwnerUidOf", {EMFILE, ENOMEM}},
      {"NamespaceTypeOf", {EIO, ENOMEM}},
      {"WatchMounts", {EMFILE, ENOMEM}},
      {"MakeMemory", {ENOMEM, EMFILE}},
      {"WriteAs", {ENOMEM, ENODEV}},
      {"ProbeFilesystem", {EAGAIN, ECHILD}},
      {"ConnectUnix", {EAGAIN, EMFILE}},
      {"PeerOf", {ENOMEM, EIO}},
      {"PeerProcess", {EMFILE, ENOMEM}},
      {"NewNetNamespace", {ENOSPC, ENOMEM}},
      {"OpenNetlinkIn", {EMFILE, ENOMEM}},
      {"OpenNetlink", {ENOBUFS, EMFILE}},
      {"Subscribe", {ENOMEM, ENOBUFS}},
      {"Send", {ENOBUFS, ENOMEM}},
      // The request was carried out, but the caller cannot know: the socket has
      // no room for the answer, or the answer is lost.
      {"Receive", {ENOBUFS, EAGAIN}},
      {"RunNft", {ENOMEM, ENOBUFS}},
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
    // No answer that is lost on its way is a final one.
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

bool OnlyLooks(const std::string& step) {
  static const std::set<std::string> kLooks = {
      "Open",        "Stat",       "StatLinked",       "LinkedMountId",
      "ReadLink",    "ReadAcl",    "List",             "ListAfter",
      "Lock",        "ReadFile",   "IsMemory",         "ReadMemory",
      "ReadSetting", "OpenKernfs", "HasEnded",         "MountById",
      "MountsBelow", "OwnerOf",    "MountNamespaceOf", "MountNamespaces",
      "OwnerUidOf",  "PeerOf",     "NamespaceTypeOf",  "MountsOfNamespace",
      "PeerProcess", "Receive"};
  return kLooks.contains(step);
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
