// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/capabilities.h"

#include <algorithm>
#include <cctype>

namespace mountd::driver {
namespace {

// All names of <linux/capability.h> up to Linux 6.x.
const std::set<std::string>& AllCapabilities() {
  static const std::set<std::string> all = {
      "CAP_AUDIT_CONTROL",   "CAP_AUDIT_READ",   "CAP_AUDIT_WRITE",
      "CAP_BLOCK_SUSPEND",   "CAP_BPF",          "CAP_CHECKPOINT_RESTORE",
      "CAP_CHOWN",           "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH",
      "CAP_FOWNER",          "CAP_FSETID",       "CAP_IPC_LOCK",
      "CAP_IPC_OWNER",       "CAP_KILL",         "CAP_LEASE",
      "CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN",    "CAP_MAC_OVERRIDE",
      "CAP_MKNOD",           "CAP_NET_ADMIN",    "CAP_NET_BIND_SERVICE",
      "CAP_NET_BROADCAST",   "CAP_NET_RAW",      "CAP_PERFMON",
      "CAP_SETFCAP",         "CAP_SETGID",       "CAP_SETPCAP",
      "CAP_SETUID",          "CAP_SYSLOG",       "CAP_SYS_ADMIN",
      "CAP_SYS_BOOT",        "CAP_SYS_CHROOT",   "CAP_SYS_MODULE",
      "CAP_SYS_NICE",        "CAP_SYS_PACCT",    "CAP_SYS_PTRACE",
      "CAP_SYS_RAWIO",       "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
      "CAP_SYS_TTY_CONFIG",  "CAP_WAKE_ALARM",
  };
  return all;
}

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z'
               ? static_cast<char>(letter - 'a' + 'A')
               : letter;
  });
  return upper;
}

// One of the two lists. `names` is without "all".
struct CapabilityList {
  bool all = false;
  std::set<std::string> names;
};

Result<CapabilityList> ListOf(const std::vector<std::string>& texts) {
  CapabilityList list;
  for (const std::string& text : texts) {
    if (UpperCase(text) == "ALL") {
      list.all = true;
      continue;
    }
    MOUNTD_ASSIGN(std::string name, CapabilityName(text));
    list.names.insert(std::move(name));
  }
  return list;
}

}  // namespace

const std::set<std::string>& DefaultCapabilities() {
  static const std::set<std::string> defaults = {
      "CAP_CHOWN",   "CAP_DAC_OVERRIDE",     "CAP_FOWNER",     "CAP_FSETID",
      "CAP_KILL",    "CAP_NET_BIND_SERVICE", "CAP_SETFCAP",    "CAP_SETGID",
      "CAP_SETPCAP", "CAP_SETUID",           "CAP_SYS_CHROOT",
  };
  return defaults;
}

Result<std::string> CapabilityName(std::string_view text) {
  std::string name = UpperCase(text);
  if (name.rfind("CAP_", 0) != 0) {
    name.insert(0, "CAP_");
  }
  if (AllCapabilities().count(name) == 0) {
    return MakeError(Code::kInvalidArgument, "capability", std::string(text),
                     "there is no such capability; capabilities(7) lists all");
  }
  return name;
}

Result<TaskCapabilities> CapabilitiesWith(const CapabilityChanges& changes) {
  MOUNTD_ASSIGN(const CapabilityList add, ListOf(changes.add));
  MOUNTD_ASSIGN(const CapabilityList drop, ListOf(changes.drop));
  TaskCapabilities capabilities;
  if (add.all && !drop.all) {
    capabilities.bounding = AllCapabilities();
  } else if (!drop.all) {
    capabilities.bounding = DefaultCapabilities();
  }
  for (const std::string& name : add.names) {
    capabilities.bounding.insert(name);
    capabilities.added.insert(name);
  }
  for (const std::string& name : drop.names) {
    capabilities.bounding.erase(name);
    capabilities.added.erase(name);
  }
  return capabilities;
}

}  // namespace mountd::driver
