// SPDX-License-Identifier: LGPL-2.1-or-later
// What agents' tools read: a job's file, plugins' answers on snapshots, and
// what a container runtime tells the CNI plugin. The first byte says which.
#include <string>
#include <string_view>

#include "agent/cni_plugin/attachment_ids.h"
#include "agent/cni_plugin/config.h"
#include "agent/cni_plugin/environment.h"
#include "agent/mountctl/job.h"
#include "agent/mountctl/snapshot_message.h"
#include "mountd/base/names.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

void CheckJob(std::string_view text) {
  const auto job = agent::ParseJob(text, "job.toml");
  Require(job || !job.error().Message().empty(), "an error says nothing");
}

void CheckWords(std::string_view text) {
  agent::BindMountSpec mount;
  (void)agent::ParseSource(text, mount);
  (void)agent::ParseExtent(text);
  (void)agent::ParsePropagation(text);
  if (const auto id = cni_plugin::ParseAllocationId(text)) {
    const std::string again =
        id->ifname.empty() ? id->allocation
                           : cni_plugin::MarkerOf(id->allocation, id->ifname);
    Require(again == text, "an id is another");
  }
  IgnoreBecauseBestEffort(cni_plugin::AddressesInArgs(std::string(text)));
}

void CheckSnapshots(std::string_view text) {
  IgnoreBecauseBestEffort(agent::DecodeCreateSnapshot(text));
  IgnoreBecauseBestEffort(agent::DecodeListSnapshots(text));
}

// CNI_* come first, a line each, and then stdin.
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
    default:
      CheckWords(text);
      break;
  }
  return 0;
}
