// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/seccomp.h"

#include <sched.h>
#include <sys/personality.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "agent/driver/bundle/seccomp_calls.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

constexpr int kNetlinkAudit = 9;  // NETLINK_AUDIT of <linux/netlink.h>

Json RuleOf(std::vector<std::string> names, const char* action) {
  return {{"names", std::move(names)}, {"action", action}};
}

Json Allow(std::vector<std::string> names) {
  return RuleOf(std::move(names), "SCMP_ACT_ALLOW");
}

Json Refuse(std::vector<std::string> names, int error) {
  Json rule = RuleOf(std::move(names), "SCMP_ACT_ERRNO");
  rule["errnoRet"] = error;
  return rule;
}

Json Argument(unsigned index, const char* op, std::uint64_t value,
              std::uint64_t value_two = 0) {
  return {
      {"index", index}, {"op", op}, {"value", value}, {"valueTwo", value_two}};
}

Json With(Json rule, std::vector<Json> arguments) {
  rule["args"] = std::move(arguments);
  return rule;
}

// A task's program may start threads and processes, and no namespaces. clone3
// answers ENOSYS, because a filter cannot read its flags in memory, and the C
// library then calls clone.
void AddClone(bool namespaces, Json* rules) {
  if (namespaces) {
    rules->push_back(Allow({"clone", "clone3"}));
    return;
  }
  constexpr std::array<std::uint64_t, 7> kNamespaces = {
      CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
      CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
  std::uint64_t all = 0;
  for (const std::uint64_t flag : kNamespaces) {
    all |= flag;
    rules->push_back(With(Refuse({"clone"}, EPERM),
                          {Argument(0, "SCMP_CMP_MASKED_EQ", flag, flag)}));
  }
  rules->push_back(
      With(Allow({"clone"}), {Argument(0, "SCMP_CMP_MASKED_EQ", all, 0)}));
}

// The families of the container's own network namespace. AF_VSOCK is not among
// these, because a vsock socket reaches the hypervisor from every network
// namespace.
void AddSockets(bool audit, Json* rules) {
  for (const int family : {AF_UNIX, AF_INET, AF_INET6, AF_PACKET}) {
    rules->push_back(
        With(Allow({"socket"}),
             {Argument(0, "SCMP_CMP_EQ", static_cast<std::uint64_t>(family))}));
  }
  if (audit) {
    rules->push_back(
        With(Allow({"socket"}), {Argument(0, "SCMP_CMP_EQ", AF_NETLINK)}));
  } else {
    rules->push_back(
        With(Allow({"socket"}), {Argument(0, "SCMP_CMP_EQ", AF_NETLINK),
                                 Argument(2, "SCMP_CMP_NE", kNetlinkAudit)}));
    // libaudit takes EINVAL for a kernel without auditing, and does without.
    rules->push_back(With(Refuse({"socket"}, EINVAL),
                          {Argument(0, "SCMP_CMP_EQ", AF_NETLINK),
                           Argument(2, "SCMP_CMP_EQ", kNetlinkAudit)}));
  }
  for (const int family : {AF_VSOCK, AF_ALG}) {
    rules->push_back(
        With(Refuse({"socket"}, EAFNOSUPPORT),
             {Argument(0, "SCMP_CMP_EQ", static_cast<std::uint64_t>(family))}));
  }
}

// The personalities of containers-common: Linux, and its 32-bit and old-kernel
// forms. Others lift protections such as address randomisation.
void AddPersonality(Json* rules) {
  constexpr std::uint64_t kAsk = 0xffffffff;  // personality(2)
  for (const std::uint64_t persona :
       {std::uint64_t{PER_LINUX}, std::uint64_t{PER_LINUX32},
        std::uint64_t{UNAME26}, std::uint64_t{UNAME26} | PER_LINUX32, kAsk}) {
    rules->push_back(
        With(Allow({"personality"}), {Argument(0, "SCMP_CMP_EQ", persona)}));
  }
}

Json Architectures() {
#if defined(__x86_64__)
  return {"SCMP_ARCH_X86_64", "SCMP_ARCH_X86"};
#elif defined(__aarch64__)
  return {"SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"};
#else
  // An empty list means the machine's own architecture.
  return Json::array();
#endif
}

}  // namespace

Json SeccompFor(const std::set<std::string>& capabilities) {
  const auto has = [&](std::string_view name) {
    return name.empty() || capabilities.count(std::string(name)) != 0;
  };
  std::vector<std::string> allowed;
  std::vector<std::string> refused;
  for (const CallGroup& group : CallGroups()) {
    std::vector<std::string>& list = has(group.capability) ? allowed : refused;
    list.insert(list.end(), group.calls.begin(), group.calls.end());
  }
  refused.insert(refused.end(), RefusedCalls().begin(), RefusedCalls().end());
  Json rules = {Allow(std::move(allowed)), Refuse(std::move(refused), EPERM)};
  AddClone(has("CAP_SYS_ADMIN"), &rules);
  AddSockets(has("CAP_AUDIT_WRITE"), &rules);
  AddPersonality(&rules);
  return {{"defaultAction", "SCMP_ACT_ERRNO"},
          {"defaultErrnoRet", ENOSYS},
          {"architectures", Architectures()},
          {"syscalls", std::move(rules)}};
}

}  // namespace mountd::driver
