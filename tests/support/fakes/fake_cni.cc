// SPDX-License-Identifier: LGPL-2.1-or-later
//
// FakeExecutor's answers in place of mountd-cni-run.
#include "mountd/base/memory_file.h"
#include "netns/cni/documents/json.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::exec {
namespace {

using cni::Json;

constexpr cni::TextBounds kBounds{std::size_t{1} << 20U, 16, 65'536};

std::string VerbOf(CniVerb verb) {
  switch (verb) {
    case CniVerb::kAdd:
      return "add";
    case CniVerb::kCheck:
      return "check";
    case CniVerb::kDel:
      return "del";
    case CniVerb::kGc:
      return "gc";
    case CniVerb::kStatus:
      return "status";
    case CniVerb::kList:
      break;
  }
  return "list";
}

std::string AttachmentOf(const Json& request) {
  return cni::FindText(request, "container_id").value_or("") + "/" +
         cni::FindText(request, "ifname").value_or("");
}

std::string Failed(Code code, const std::string& detail) {
  return cni::ToText(Json{{"ok", false},
                          {"code", CodeName(code)},
                          {"op", "CHECK"},
                          {"object", "attachment"},
                          {"detail", detail},
                          {"plugin", "fake"},
                          {"left", Json::array()}});
}

std::string Succeeded(Json members) {
  members["ok"] = true;
  return cni::ToText(members);
}

Json UsualResult(const std::string& ifname, std::size_t number) {
  return {{"cniVersion", "1.0.0"},
          {"interfaces",
           {{{"name", "veth0"}, {"mac", "0a:00:00:00:00:01"}},
            {{"name", ifname},
             {"mac", "0a:00:00:00:00:02"},
             {"sandbox", "/run/netns/x"}}}},
          {"ips",
           {{{"address", "10.99.0." + std::to_string(number) + "/24"},
             {"gateway", "10.99.0.1"},
             {"interface", 1}}}},
          {"routes", {{{"dst", "0.0.0.0/0"}}}},
          {"dns", Json::object()}};
}

}  // namespace

std::string FakeExecutor::AnswerCniLocked(const CniPlan& plan,
                                          const std::string& text) {
  const auto parsed = cni::ParseObject(text, kBounds, "request");
  const Json request = parsed ? *parsed : Json::object();
  const std::string attachment = AttachmentOf(request);
  switch (plan.verb) {
    case CniVerb::kAdd: {
      cni_attachments_[attachment] = true;
      Json result = UsualResult(cni::FindText(request, "ifname").value_or(""),
                                1 + cni_attachments_.size());
      if (!cni_result_.empty()) {
        result = Json::parse(cni_result_, nullptr, false);
      }
      return Succeeded({{"result", std::move(result)}});
    }
    case CniVerb::kCheck:
      return cni_attachments_.contains(attachment) &&
                     cni_attachments_.at(attachment)
                 ? Succeeded({{"checked", true}})
                 : Failed(Code::kFailedPrecondition, "it is gone");
    case CniVerb::kDel:
      return Succeeded({{"known", cni_attachments_.erase(attachment) != 0}});
    case CniVerb::kGc: {
      if (request.value("earlier_boots", false)) {
        // The fake keeps no attachment of an earlier boot.
        return Succeeded({{"removed", Json::array()}});
      }
      std::set<std::string> valid;
      for (const Json& one : request.at("valid")) {
        valid.insert(AttachmentOf(one));
      }
      std::erase_if(cni_attachments_, [&](const auto& entry) {
        return !valid.contains(entry.first);
      });
      return Succeeded({{"removed", Json::array()}});
    }
    case CniVerb::kStatus:
      return Succeeded({{"checked", true}});
    case CniVerb::kList:
      break;
  }
  Json networks = Json::array();
  for (const auto& [name, declared] : cni_networks_) {
    Json network = {{"name", name},
                    {"cniVersion", "1.1.0"},
                    {"hasStatus", declared.has_status}};
    if (!declared.reason.empty()) {
      network["reason"] = declared.reason;
    }
    networks.push_back(std::move(network));
  }
  Json plugins = Json::array();
  for (const auto& [type, release] : cni_plugins_) {
    plugins.push_back({{"type", type}, {"release", release}});
  }
  return Succeeded(
      {{"networks", std::move(networks)}, {"plugins", std::move(plugins)}});
}

Result<UniqueFd> FakeExecutor::RunCni(const CniPlan& plan, int request) {
  PlanBody body;
  body.cni = plan;
  const std::string text = ReadMemory(request, kBounds.max_bytes).value();
  const auto parsed = cni::ParseObject(text, kBounds, "request");
  const std::string object =
      plan.allocation.size == 0
          ? VerbOf(plan.verb)
          : VerbOf(plan.verb) + " " + AttachmentOf(*parsed);
  return Run<Result<UniqueFd>>(
      PlanKind::kRunCni, "RunCni", object, body, [&]() -> Result<UniqueFd> {
        cni_requests_.push_back(text);
        return MemoryWith("cni-answer", AnswerCniLocked(plan, text));
      });
}

void FakeExecutor::SetCniResult(const std::string& json) {
  const std::lock_guard lock(mutex_);
  cni_result_ = json;
}

void FakeExecutor::PutCniNetwork(const std::string& network,
                                 const std::string& reason, bool has_status) {
  const std::lock_guard lock(mutex_);
  cni_networks_[network] = {reason, has_status};
}

void FakeExecutor::PutCniPlugin(const std::string& type,
                                const std::string& release) {
  const std::lock_guard lock(mutex_);
  cni_plugins_[type] = release;
}

void FakeExecutor::BreakCni(const std::string& attachment) {
  const std::lock_guard lock(mutex_);
  cni_attachments_[attachment] = false;
}

std::vector<std::string> FakeExecutor::cni_requests() const {
  const std::lock_guard lock(mutex_);
  return cni_requests_;
}

}  // namespace mountd::exec
