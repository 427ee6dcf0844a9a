// SPDX-License-Identifier: LGPL-2.1-or-later
// The input of mountd-csi-proxy: requests of CSI from an orchestrator, paths,
// and its options. The first byte says which.
#include <csi.pb.h>

#include <string>
#include <string_view>

#include "agent/mountd-csi-proxy/controller_forward.h"
#include "agent/mountd-csi-proxy/controller_values.h"
#include "agent/mountd-csi-proxy/plugin_server.h"
#include "agent/mountd-csi-proxy/request.h"
#include "mountd/base/names.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

namespace pb = ::csi::v1;
namespace proxy = mountd::csi_proxy;

// Parses a request, and returns whether its texts are accepted.
template <typename Request>
bool IsAccepted(std::string_view bytes, Request& request) {
  if (!request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return false;
  }
  const auto checked = proxy::CheckTexts(request);
  Require(checked || !checked.error().Message().empty(),
          "an error says nothing");
  return checked.has_value();
}

void CheckPath(const std::string& path) {
  const auto clean = proxy::CleanPath("path", path);
  if (!clean) {
    return;
  }
  Require(clean->front() == '/' && clean->back() != '/', "a path is not clean");
  Require(clean->find("/../") == std::string::npos, "a path leads upwards");
  Require(clean->find('\0') == std::string::npos, "a path has a NUL");
  const auto again = proxy::CleanPath("path", *clean);
  Require(again && *again == *clean, "a clean path is another");
}

void CheckPublish(std::string_view bytes) {
  pb::NodePublishVolumeRequest request;
  if (!IsAccepted(bytes, request)) {
    return;
  }
  CheckPath(request.target_path());
  Require(request.volume_id().find('\0') == std::string::npos,
          "a volume's id has a NUL");
  const auto usage =
      proxy::NodeUsageOf(request.volume_capability(), request.readonly());
  Require(!usage || !request.volume_capability().has_block(),
          "a block device is accepted");
  Require(!usage || usage->read_only || !request.readonly(),
          "a reader may write");
}

void CheckCreate(std::string_view bytes) {
  pb::CreateVolumeRequest request;
  if (!IsAccepted(bytes, request)) {
    return;
  }
  const auto creation = proxy::CreationOf(request);
  Require(!creation || (creation->secrets.empty() && !creation->name.empty() &&
                        !creation->usages.empty()),
          "a volume has no name, no usage, or secrets");
}

void CheckForwarded(std::string_view bytes) {
  pb::CreateSnapshotRequest request;
  if (!IsAccepted(bytes, request)) {
    return;
  }
  pb::CreateSnapshotRequest sent;
  Require(sent.ParseFromString(proxy::WithoutSecrets(request)),
          "a forwarded request is none");
  Require(sent.secrets().empty() && sent.name() == request.name() &&
              sent.source_volume_id() == request.source_volume_id(),
          "a forwarded request is another");
}

void CheckList(std::string_view bytes) {
  pb::ListVolumesRequest request;
  if (IsAccepted(bytes, request)) {
    const auto page = proxy::PageOf(request);
    Require(!page || page->max_entries <= 1000, "a page is too long");
  }
}

void CheckAddress(std::string_view text) {
  const auto address = proxy::ParseAddress(std::string(text), "");
  Require(!address || (IsValidName(address->plugin) &&
                       address->socket.starts_with('/')),
          "an address is none");
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  if (size == 0) {
    return 0;
  }
  const std::string_view rest = TextOf(data + 1, size - 1);
  switch (data[0]) {
    case 'p':
      CheckPublish(rest);
      break;
    case 'c':
      CheckCreate(rest);
      break;
    case 'f':
      CheckForwarded(rest);
      break;
    case 'l':
      CheckList(rest);
      break;
    case 'a':
      CheckAddress(rest);
      break;
    default:
      CheckPath(std::string(rest));
      break;
  }
  return 0;
}
