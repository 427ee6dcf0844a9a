// SPDX-License-Identifier: LGPL-2.1-or-later
// The input between mountd, mountd-csi and plugins: messages and frames of the
// first two, plugins' answers, secrets, and scrubbed texts. The first byte says
// which.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "csi-node/csi-local/mount_table.h"
#include "csi-node/csi-local/request.h"
#include "csi-node/ipc/frame_socket.h"
#include "csi-node/ipc/message.h"
#include "csi-node/mountd-csi/controller_rpc.h"
#include "csi-node/mountd-csi/message_bounds.h"
#include "csi-node/mountd-csi/scrub.h"
#include "csi-node/mountd-csi/values_to_proto.h"
#include "csi-node/types/secrets.h"
#include "mountd/base/names.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

using csi::ControllerCall;

std::vector<std::uint8_t> BytesOf(std::string_view text) {
  return {text.begin(), text.end()};
}

void CheckMessages(std::string_view text) {
  const std::vector<std::uint8_t> bytes = BytesOf(text);
  if (const auto request = csi::ipc::DecodeRequest(bytes)) {
    Require(csi::ipc::Encode(*request) == bytes, "a request is another");
  }
  if (const auto reply = csi::ipc::DecodeReply(bytes)) {
    Require(csi::ipc::Encode(*reply) == bytes, "a reply is another");
  }
}

void CheckFrames(Input* input) {
  std::array<int, 2> fds{};
  Require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) == 0,
          "no pair of sockets");
  UniqueFd near(fds.at(0));
  UniqueFd far(fds.at(1));
  csi::ipc::FrameSocket socket(
      std::move(near), input->Flag() ? csi::ipc::FrameSocket::AcceptFds::kYes
                                     : csi::ipc::FrameSocket::AcceptFds::kNo);
  std::vector<csi::ipc::Frame> frames;
  for (bool good = true; good && !input->empty();) {
    const std::string_view some = input->Bytes(input->UpTo(200));
    if (!some.empty() &&
        ::send(far.get(), some.data(), some.size(), MSG_DONTWAIT) < 0) {
      break;
    }
    good = socket.Receive(&frames).has_value();
  }
  far.reset();
  IgnoreBecauseBestEffort(socket.Receive(&frames));
}

template <typename Message>
void CheckAnswer(std::string_view text) {
  Message message;
  if (!message.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    return;
  }
  if (csi::BeyondBounds(message) != nullptr) {
    return;
  }
  (void)csi::HasUnknownFields(message);
  const auto converted = csi::FromProto(message);
  (void)converted;
}

// Reads the answer as the RPCs pass it on: cleaned, bounded, in the requested
// form.
void CheckControllerAnswer(ControllerCall::Form form, std::string_view text) {
  ::csi::v1::ListVolumesResponse message;
  if (!message.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    return;
  }
  const auto read = csi::ReadController(form, {"secret"}, &message);
  if (read && form == ControllerCall::Form::kJson) {
    Require(IsValidUtf8(*read), "JSON that is no UTF-8");
  }
}

void CheckControllerCall(ControllerCall::Form form, Input* input) {
  constexpr const char* kMethods[] = {"CreateVolume",
                                      "DeleteVolume",
                                      "ControllerPublishVolume",
                                      "ListVolumes",
                                      "CreateSnapshot",
                                      "ControllerGetCapabilities",
                                      "ListSnapshots",
                                      "None"};
  ControllerCall call;
  call.rpc = input->OneOf(kMethods);
  call.form = form;
  call.request = std::string(input->Rest());
  const auto built = csi::BuildController(call, csi::Secrets());
  if (built) {
    Require(!csi::HasUnknownFields(built->message()),
            "a request has fields that nobody looked at");
    (void)built->MountFlags();
  }
}

void CheckSecrets(std::string_view text) {
  const UniqueFd memory(
      ::memfd_create("secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  Require(::write(memory.get(), text.data(), text.size()) ==
              static_cast<ssize_t>(text.size()),
          "no memory");
  ::fcntl(memory.get(), F_ADD_SEALS,
          F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  const auto secrets = csi::DecodeSecrets(memory);
  if (!secrets) {
    return;
  }
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [key, value] : secrets->entries()) {
    entries.emplace_back(key, value);
  }
  const auto again = csi::EncodeSecrets(entries);
  Require(again.has_value(), "secrets that nobody could have made");
}

void CheckScrub(Input* input) {
  const std::string secret = input->Text(32);
  const std::vector<std::string> flags = {"password=" + input->Text(16)};
  const std::string text(input->Rest());
  std::vector<std::string_view> hidden =
      csi::HiddenTexts(csi::Secrets(), flags);
  if (!secret.empty()) {
    hidden.emplace_back(secret);
  }
  const std::string scrubbed = csi::Scrub(text, hidden);
  Require(IsValidUtf8(scrubbed) && scrubbed.size() <= 1024,
          "a scrubbed text is too long, or no text");
  // The mark that replaces a secret may contain a short secret.
  constexpr std::string_view kMark = "[REDACTED]";
  for (const std::string_view one : hidden) {
    bool in_mark = one.size() < 4;
    for (const char c : one) {
      in_mark = in_mark || kMark.find(c) != std::string_view::npos ||
                c == '?' || static_cast<unsigned char>(c) <= 0x20 ||
                static_cast<unsigned char>(c) >= 0x7f;
    }
    Require(in_mark || scrubbed.find(one) == std::string::npos,
            "a secret is left in a text");
  }
}

// Feeds csi-local's own parsers.
void CheckLocal(Input* input) {
  const bool line = input->Flag();
  const std::string_view text = input->Rest();
  if (line) {
    if (const auto entry = csi_local::ParseMountEntry(text)) {
      (void)entry->HasSuperOption("ro");
    }
    return;
  }
  ::csi::v1::CreateVolumeRequest request;
  if (request.ParseFromArray(text.data(), static_cast<int>(text.size()))) {
    csi_local::VolumeRequest spec;
    if (csi_local::ParseCreate(request, &spec).ok()) {
      Require(!spec.name.empty() && spec.name.size() <= 128 &&
                  IsValidUtf8(spec.name),
              "a volume's name is none");
    }
  }
}

void CheckPluginAnswer(Input* input) {
  namespace pb = ::csi::v1;
  constexpr std::uint8_t kKinds = 11;
  const std::uint8_t kind = input->Byte() % kKinds;
  const std::string_view text = input->Rest();
  switch (kind) {
    case 0:
      return CheckAnswer<pb::ProbeResponse>(text);
    case 1:
      return CheckAnswer<pb::GetPluginInfoResponse>(text);
    case 2:
      return CheckAnswer<pb::NodeGetInfoResponse>(text);
    case 3:
      return CheckAnswer<pb::GetPluginCapabilitiesResponse>(text);
    case 4:
      return CheckAnswer<pb::ControllerGetCapabilitiesResponse>(text);
    case 5:
      return CheckAnswer<pb::NodeGetCapabilitiesResponse>(text);
    case 6:
      return CheckAnswer<pb::NodeExpandVolumeResponse>(text);
    case 7:
      return CheckAnswer<pb::NodeGetVolumeStatsResponse>(text);
    case 8:
      return CheckControllerAnswer(ControllerCall::Form::kJson, text);
    case 9:
      return CheckControllerAnswer(ControllerCall::Form::kBytes, text);
    default:
      return CheckAnswer<pb::NodeGetVolumeHealthResponse>(text);
  }
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  switch (input.Byte() % 8) {
    case 0:
      CheckMessages(input.Rest());
      break;
    case 1:
      CheckFrames(&input);
      break;
    case 2:
      CheckPluginAnswer(&input);
      break;
    case 3:
      CheckControllerCall(ControllerCall::Form::kJson, &input);
      break;
    case 4:
      CheckControllerCall(ControllerCall::Form::kBytes, &input);
      break;
    case 5:
      CheckSecrets(input.Rest());
      break;
    case 7:
      CheckLocal(&input);
      break;
    default:
      CheckScrub(&input);
      break;
  }
  return 0;
}
