// SPDX-License-Identifier: LGPL-2.1-or-later
// The input of agents' tools: a job file, plugins' answers on snapshots, a
// container runtime's input to the CNI plugin, a shim's messages, and a
// driver's record of a task. The first byte says which.
#include <set>
#include <string>
#include <string_view>

#include "agent/driver/oci/task_record.h"
#include "agent/driver/protocol/message.h"
#include "agent/driver/shim/shim.h"
#include "agent/mountctl/commands/port_text.h"
#include "agent/mountctl/job/directory.h"
#include "agent/mountctl/job/job.h"
#include "agent/mountctl/job/task.h"
#include "agent/mountctl/output/snapshot_message.h"
#include "agent/mountd-cni/attachment_ids.h"
#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/environment.h"
#include "agent/mountd-cni/mac_address.h"
#include "mountd/base/names.h"
#include "netns/cni/documents/addresses.h"
#include "netns/cni/documents/go_json.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

void CheckJob(std::string_view text) {
  const auto job = agent::ParseJob(text, "job.toml");
  Require(job || !job.error().Message().empty(), "an error says nothing");
}

void CheckWords(std::string_view text) {
  agent::BindMountSpec mount;
  (void)agent::ParseMountSource(text, mount);
  (void)agent::ParseExtent(text);
  (void)agent::ParsePropagation(text);
  const auto duration = agent::ParseDuration(text);
  Require(!duration || duration->count() >= 0, "a duration is negative");
  const auto port = agent::ParsePort(text);
  Require(port || !port.error().Message().empty(), "an error says nothing");
  if (const auto id = cni_plugin::ParseAllocationId(text)) {
    const std::string again =
        id->ifname.empty() ? id->allocation
                           : cni_plugin::MarkerOf(id->allocation, id->ifname);
    Require(again == text, "an id is another");
  }
  for (const char* key : {"IP", "MAC"}) {
    IgnoreBecauseBestEffort(cni_plugin::ValuesInArgs(std::string(text), key));
  }
  if (const auto address = cni_plugin::AddressOfMac(std::string(text))) {
    Require(cni::ParseIpAddress(*address).has_value(), "an address is none");
  }
}

// Requires that one member of each name is left, so that reading the text again
// changes nothing.
void CheckNames(const cni::Json& value) {
  if (value.is_object()) {
    std::set<std::string> names;
    for (const auto& [key, member] : value.items()) {
      Require(names.insert(cni::FoldedName(key)).second, "a name is twice");
    }
  }
  if (value.is_structured()) {
    for (const cni::Json& member : value) {
      CheckNames(member);
    }
  }
}

void CheckSnapshots(std::string_view text) {
  IgnoreBecauseBestEffort(agent::DecodeCreateSnapshot(text));
  IgnoreBecauseBestEffort(agent::DecodeListSnapshots(text));
}

void CheckShimMessage(std::string_view text) {
  const auto message = shim::Message::Parse(text);
  if (!message) {
    Require(!message.error().Message().empty(), "an error says nothing");
    return;
  }
  const auto again = shim::Message::Parse(message->bytes());
  Require(again && again->kind() == message->kind(), "a message is another");
  (void)message->Number(shim::Tag::kSignalNumber);
  (void)message->Texts(shim::Tag::kRuntime);
  (void)message->ToError();
}

void CheckTaskRecord(std::string_view text) {
  const auto record = driver::ParseRecord(std::string(text));
  if (!record) {
    Require(!record.error().Message().empty(), "an error says nothing");
    return;
  }
  const std::string written = driver::RecordText(*record);
  const auto again = driver::ParseRecord(written);
  Require(again && driver::RecordText(*again) == written,
          "a record is another");
}

// The CNI_* variables come first, a line each, and then stdin.
void CheckConfig(std::string_view text) {
  cni_plugin::Environment environment;
  for (std::string* variable :
       {&environment.command, &environment.container_id, &environment.netns,
        &environment.ifname, &environment.args}) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    *variable = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const bool checked = cni_plugin::CheckEnvironment(environment).has_value();
  const std::string& command = environment.command;
  if (checked && (command == "ADD" || command == "CHECK" || command == "DEL")) {
    const std::string allocation =
        cni_plugin::AllocationOf(environment.container_id);
    Require(IsValidName(allocation), "an allocation's name is none");
    const auto id = cni_plugin::ParseAllocationId(allocation);
    Require(id && id->allocation == allocation, "an id is not its own");
  }
  const auto document = cni_plugin::ParseDocument(text);
  if (!document) {
    return;
  }
  CheckNames(*document);
  const auto again = cni_plugin::ParseDocument(cni::ToText(*document));
  Require(again && *again == *document, "a document is another");
  (void)cni_plugin::AnswerVersion(*document);
  const auto config = cni_plugin::ParseConfig(*document, environment);
  if (config) {
    Require(cni_plugin::IsOurVersion(config->version) &&
                config->timeout.count() > 0,
            "a configuration of no version, or without an end");
  }
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  if (size == 0) {
    return 0;
  }
  const std::string_view text = TextOf(data + 1, size - 1);
  switch (data[0]) {
    case 'j':
      CheckJob(text);
      break;
    case 's':
      CheckSnapshots(text);
      break;
    case 'c':
      CheckConfig(text);
      break;
    case 'm':
      CheckShimMessage(text);
      break;
    case 't':
      CheckTaskRecord(text);
      break;
    case 'o':
      (void)mountd::shim::ParseOomKills(text);
      break;
    default:
      CheckWords(text);
      break;
  }
  return 0;
}
