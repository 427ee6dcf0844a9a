// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/answer.h"

#include <cstring>
#include <utility>

#include "netns/cni/documents/names.h"

namespace mountd::cni {
namespace {

constexpr std::size_t kMaxAnswerTextBytes = 512;

// Returns the error's detail with the name of its errno, made fit for an
// answer.
std::string DetailOf(const Error& error) {
  const char* name =
      error.sys_errno == 0 ? nullptr : strerrorname_np(error.sys_errno);
  return Scrubbed(error.detail + (error.detail.empty() || !name ? "" : ": ") +
                      (name != nullptr ? name : ""),
                  kMaxAnswerTextBytes);
}

}  // namespace

Json Success(Json members) {
  members["ok"] = true;
  return members;
}

Json Failure(const PluginError& error, const std::vector<PluginError>& left) {
  Json answer = {{"ok", false},
                 {"code", CodeName(error.error.code)},
                 {"op", error.error.op},
                 {"object", Scrubbed(error.error.object, kMaxAnswerTextBytes)},
                 {"detail", DetailOf(error.error)},
                 {"left", Json::array()}};
  if (!error.plugin.empty()) {
    answer["plugin"] = error.plugin;
    answer["cni_code"] = error.cni_code;
  }
  for (const PluginError& one : left) {
    answer["left"].push_back(
        Scrubbed(one.error.Message(), kMaxAnswerTextBytes));
  }
  return answer;
}

}  // namespace mountd::cni
