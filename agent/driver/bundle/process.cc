// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/process.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "agent/driver/bundle/checks.h"
#include "agent/driver/bundle/process_json.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostWords = 65536;  // arguments, or variables
constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

// setrlimit(2).
constexpr std::array<std::string_view, 16> kLimitTypes = {
    "RLIMIT_AS",     "RLIMIT_CORE",   "RLIMIT_CPU",        "RLIMIT_DATA",
    "RLIMIT_FSIZE",  "RLIMIT_LOCKS",  "RLIMIT_MEMLOCK",    "RLIMIT_MSGQUEUE",
    "RLIMIT_NICE",   "RLIMIT_NOFILE", "RLIMIT_NPROC",      "RLIMIT_RSS",
    "RLIMIT_RTPRIO", "RLIMIT_RTTIME", "RLIMIT_SIGPENDING", "RLIMIT_STACK"};

Error Wrong(const char* member, std::string value, std::string detail) {
  return MakeError(Code::kInvalidArgument, member, std::move(value),
                   std::move(detail));
}

Result<Json> Arguments(const ContainerProcess& process) {
  if (process.args.empty() || process.args.front().empty()) {
    return Wrong("args", "", "there is no program to run");
  }
  if (process.args.size() > kMostWords) {
    return Wrong("args", "", "there are more than 65536 arguments");
  }
  for (const std::string& argument : process.args) {
    MOUNTD_TRY(CheckText("argument", argument));
  }
  return Json(process.args);
}

Result<Json> Environment(const ContainerProcess& process) {
  if (process.env.size() > kMostWords) {
    return Wrong("env", "", "there are more than 65536 variables");
  }
  Json variables = Json::array();
  for (const auto& [name, value] : process.env) {
    MOUNTD_TRY(CheckText("variable", name));
    if (name.empty() || name.find('=') != std::string::npos) {
      return Wrong("variable", name,
                   "a variable's name is not empty and has no \"=\"");
    }
    // A value may be a secret, so its error does not repeat the value.
    if (!CheckText("variable", value)) {
      return Wrong("variable", name,
                   "the value is not UTF-8, has a NUL, or is longer than 128 "
                   "KiB");
    }
    std::string variable = name;
    variable += '=';
    variable += value;
    variables.push_back(std::move(variable));
  }
  return variables;
}

Result<Json> UserJson(const ProcessUser& user) {
  Json ids = {{"uid", user.uid}, {"gid", user.gid}};
  std::set<std::uint32_t> groups(user.additional_gids.begin(),
                                 user.additional_gids.end());
  if (user.uid == kNoId || user.gid == kNoId || groups.count(kNoId) != 0) {
    return Wrong("user", std::to_string(kNoId), "this number is no id");
  }
  if (!groups.empty()) {
    ids["additionalGids"] = groups;
  }
  return ids;
}

Result<Json> Limits(const ContainerProcess& process) {
  Json limits = Json::array();
  std::set<std::string> seen;
  for (const ProcessLimit& limit : process.rlimits) {
    if (std::find(kLimitTypes.begin(), kLimitTypes.end(), limit.type) ==
        kLimitTypes.end()) {
      return Wrong("rlimit", limit.type,
                   "there is no such limit; setrlimit(2) lists all");
    }
    if (!seen.insert(limit.type).second) {
      return Wrong("rlimit", limit.type, "the limit is there twice");
    }
    if (limit.soft > limit.hard) {
      return Wrong("rlimit", limit.type,
                   "the soft limit is above the hard limit");
    }
    limits.push_back(
        {{"type", limit.type}, {"soft", limit.soft}, {"hard", limit.hard}});
  }
  return limits;
}

// Root has all capabilities of the bounding set. Another user has the added
// capabilities alone, because the ambient set keeps these over execve(2)
// (capabilities(7)).
Json CapabilitySets(const ContainerProcess& process) {
  const TaskCapabilities& capabilities = process.capabilities;
  if (process.user.uid == 0) {
    return {{"bounding", capabilities.bounding},
            {"effective", capabilities.bounding},
            {"permitted", capabilities.bounding}};
  }
  Json sets = {{"bounding", capabilities.bounding}};
  for (const char* set : {"effective", "permitted", "inheritable", "ambient"}) {
    sets[set] = capabilities.added;
  }
  return sets;
}

}  // namespace

Result<Json> ProcessJson(const ContainerProcess& process) {
  Json object;
  MOUNTD_ASSIGN(object["args"], Arguments(process));
  MOUNTD_ASSIGN(object["env"], Environment(process));
  MOUNTD_TRY(CheckPath("cwd", process.cwd));
  object["cwd"] = process.cwd;
  MOUNTD_ASSIGN(object["user"], UserJson(process.user));
  MOUNTD_ASSIGN(object["rlimits"], Limits(process));
  object["capabilities"] = CapabilitySets(process);
  object["noNewPrivileges"] = true;
  object["terminal"] = process.terminal;
  const ConsoleSize& size = process.console_size;
  if (process.terminal && size.height != 0 && size.width != 0) {
    if (size.height > kMostWords - 1 || size.width > kMostWords - 1) {
      return Wrong("consoleSize", "",
                   "a terminal has at most 65535 lines and "
                   "columns");
    }
    object["consoleSize"] = {{"height", size.height}, {"width", size.width}};
  }
  return object;
}

std::string FileText(const Json& document) {
  return document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::string> ProcessFile(const ContainerProcess& process) {
  MOUNTD_ASSIGN(const Json object, ProcessJson(process));
  return FileText(object);
}

}  // namespace mountd::driver
