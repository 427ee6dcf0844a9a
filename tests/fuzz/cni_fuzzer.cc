// SPDX-License-Identifier: LGPL-2.1-or-later
// The JSON of CNI networks: mountd's requests to the runner and its answers,
// root's configuration, plugins' answers, and records. The first byte says
// which.
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/trace_parent.h"
#include "mountd/networks/cni_documents.h"
#include "netns/cni/documents/addresses.h"
#include "netns/cni/documents/limits.h"
#include "netns/cni/documents/names.h"
#include "netns/cni/documents/plugin_error.h"
#include "netns/cni/documents/plugin_result.h"
#include "netns/cni/documents/request.h"
#include "netns/cni/network_list.h"
#include "netns/cni/options.h"
#include "netns/cni/record.h"
#include "netns/cni/request_bounds.h"
#include "tests/fuzz/fuzz_input.h"

namespace mountd::fuzz {
namespace {

using cni::Json;

void CheckList(const std::string& text) {
  const auto list = cni::ParseNetworkList(text, "net.conflist");
  if (!list) {
    return;
  }
  Require(cni::IsNetworkName(list->name), "a network's name is none");
  Require(!list->versions.empty(), "a network of no version");
  for (const Json& plugin : list->plugins) {
    Require(cni::IsPluginType(cni::TypeOf(plugin)),
            "a plugin's type leads elsewhere");
  }
  const auto again = cni::FromJson(cni::ToJson(*list), "record");
  Require(again && cni::ToJson(*again) == cni::ToJson(*list),
          "a network is kept as another");
}

void CheckRequest(const std::string& text) {
  const auto request = cni::ParseRequest(text);
  if (!request) {
    return;
  }
  Require(request->network.empty() || cni::IsNetworkName(request->network),
          "a request's network is none");
  Require(request->attachment.ifname.empty() ||
              cni::IsInterfaceName(request->attachment.ifname),
          "a request's interface is none");
  Require(request->args.find('\0') == std::string::npos &&
              request->args.size() <= cni::kMaxArgsBytes,
          "arguments that are no variable");
  const auto parent = ParseTraceParent(request->traceparent);
  Require(request->traceparent.empty() ||
              (parent && ToText(*parent) == request->traceparent),
          "a trace that is no variable");
  cni::RequestBounds bounds;
  bounds.network = "net";
  bounds.container_id = "web";
  bounds.host_ports = cni::ParsePorts("8000-8100");
  const auto bounded = cni::Bounded(bounds, "add", *request);
  if (bounded) {
    Require(
        bounded->network == "net" && bounded->attachment.container_id == "web",
        "a request out of its bounds is taken");
    const Json ports = bounded->capabilities.value("portMappings", Json());
    for (const Json& port : ports.is_array() ? ports : Json::array()) {
      const auto number = port.value("hostPort", std::uint64_t{0});
      Require(number >= 8000 && number <= 8100, "a port out of its bounds");
    }
  }
}

void CheckResult(const std::string& text) {
  const auto json = cni::ParseObject(text, cni::kOutputBounds, "result");
  if (!json) {
    return;
  }
  const cni::PluginError error = cni::ReadPluginError(*json, "ADD", "bridge");
  Require(cni::IsPlainText(error.error.detail), "an error's words are odd");
  for (const char* version : {"0.4.0", "1.0.0", "1.1.0"}) {
    const auto result = cni::ReadPluginResult(*json, version);
    if (!result) {
      continue;
    }
    Json told = cni::ToJson(*result);
    for (const auto& interface : result->interfaces) {
      Require(cni::IsPlainText(interface.name), "an interface's name is odd");
    }
    if (result->version != "0.4.0") {
      const auto again = cni::ReadPluginResult(told, result->version);
      Require(again && cni::ToJson(*again) == told, "a result is another");
    }
    IgnoreBecauseBestEffort(cni::StatusOf(*result, "eth0"));
    // The runner answers like this, and mountd reads the answer.
    const Json answer = {{"result", told}};
    IgnoreBecauseBestEffort(ReadCniAttachment(answer.dump(), "eth0"));
  }
}

void CheckRecord(const std::string& text) {
  const auto json = cni::ParseObject(text, cni::kRecordBounds, "record");
  if (!json) {
    return;
  }
  const cni::Attachment attachment{"web", "eth0"};
  const auto record = cni::ReadRecord(*json, attachment);
  if (record) {
    const auto again = cni::ReadRecord(cni::ToJson(*record), attachment);
    Require(again && cni::ToJson(*again) == cni::ToJson(*record),
            "a record is another");
  }
}

void CheckAnswers(const std::string& text) {
  IgnoreBecauseBestEffort(ReadCniOutcome(text));
  IgnoreBecauseBestEffort(ReadCniListing(text));
  const auto attachment = ReadCniAttachment(text, "eth0");
  if (attachment) {
    Require(ReadCniOutcome(text).has_value(), "an error is an attachment");
  }
}

void CheckOptions(std::string_view text) {
  std::vector<std::string> words = {"mountd-cni-run"};
  while (!text.empty() && words.size() < 32) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    // argv ends where a C string does.
    words.emplace_back(std::string(text.substr(0, end)).c_str());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  const auto options =
      cni::ParseOptions(static_cast<int>(words.size()), argv.data());
  if (options && !options->help) {
    Require(!options->verb.empty() && options->deadline.count() > 0 &&
                options->attempts > 0,
            "options without a verb, or an end");
  }
}

void CheckWords(const std::string& text) {
  if (const auto address = cni::ParseIpAddress(text)) {
    const auto again = cni::ParseIpAddress(address->text);
    Require(again && again->text == address->text, "an address is another");
  }
  if (const auto cidr = cni::ParseCidr(text)) {
    const auto again = cni::ParseCidr(cidr->ToText());
    Require(again && again->ToText() == cidr->ToText(), "a range is another");
  }
  if (const auto ports = cni::ParsePorts(text)) {
    for (const NumberRange& range : *ports) {
      Require(
          range.first >= 1 && range.first <= range.last && range.last <= 65'535,
          "ports out of bounds");
    }
  }
  const std::string scrubbed = cni::Scrubbed(text, 64);
  Require(scrubbed.size() <= 64 && cni::IsPlainText(scrubbed),
          "what was scrubbed is no plain text");
  IgnoreBecauseBestEffort(cni::ParsePluginConfig(text, "plugin.conf"));
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  if (size == 0) {
    return 0;
  }
  const std::string text(TextOf(data + 1, size - 1));
  // A letter keeps corpora readable: l, r, p, k, a, o; anything else is words.
  switch (data[0]) {
    case 'l':
      CheckList(text);
      break;
    case 'r':
      CheckRequest(text);
      break;
    case 'p':
      CheckResult(text);
      break;
    case 'k':
      CheckRecord(text);
      break;
    case 'a':
      CheckAnswers(text);
      break;
    case 'o':
      CheckOptions(text);
      break;
    default:
      CheckWords(text);
      break;
  }
  return 0;
}
