// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/doctor/nomad_facts.h"

#include <grp.h>
#include <pwd.h>
#include <sdbus-c++/sdbus-c++.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "agent/driver/namespaces/subordinate_ids.h"
#include "agent/mountctl/doctor/host_facts.h"

namespace mountd::agent {
namespace {

namespace fs = std::filesystem;

using Properties = std::map<std::string, sdbus::Variant>;

Properties PropertiesOf(sdbus::IProxy& unit, const char* interface) {
  Properties properties;
  unit.callMethod("GetAll")
      .onInterface("org.freedesktop.DBus.Properties")
      .withTimeout(std::chrono::seconds(5))
      .withArguments(std::string(interface))
      .storeResultsTo(properties);
  return properties;
}

template <typename T>
T ValueOf(const Properties& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? T() : found->second.get<T>();
}

bool IsProgram(const std::string& path) {
  struct stat found = {};
  return ::stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> ReadSwitch(const std::string& path) {
  const Result<std::string> text = ReadWhole(path);
  return text ? std::optional(text->substr(0, text->find('\n'))) : std::nullopt;
}

// True if the caller may write to the file, by the mode alone for root too.
bool MayWrite(const std::string& path) {
  return ::access(path.c_str(), W_OK) == 0;
}

std::string NameOfGroup(gid_t gid) {
  const group* entry = ::getgrgid(gid);
  return entry == nullptr ? "" : entry->gr_name;
}

}  // namespace

std::string InstalledNomad() { return MOUNTD_INSTALLED_NOMAD; }

Result<NomadUnit> ReadNomadUnit() {
  NomadUnit unit{"not-found", "inactive", ""};
  if (::access("/run/systemd/system", F_OK) < 0) {  // sd_booted(3)
    return unit;
  }
  try {
    const auto bus = sdbus::createSystemBusConnection();
    const auto proxy = sdbus::createProxy(
        *bus, sdbus::ServiceName("org.freedesktop.systemd1"),
        sdbus::ObjectPath("/org/freedesktop/systemd1/unit/nomad_2eservice"));
    const Properties common =
        PropertiesOf(*proxy, "org.freedesktop.systemd1.Unit");
    unit.load = ValueOf<std::string>(common, "LoadState");
    unit.active = ValueOf<std::string>(common, "ActiveState");
    const Properties own =
        PropertiesOf(*proxy, "org.freedesktop.systemd1.Service");
    unit.user = ValueOf<std::string>(own, "User");
    unit.delegate = ValueOf<bool>(own, "Delegate");
    unit.environment = ValueOf<std::vector<std::string>>(own, "Environment");
    unit.cgroup = ValueOf<std::string>(own, "ControlGroup");
  } catch (const sdbus::Error& error) {
    return MakeError(Code::kUnavailable, "ask", "systemd", error.getMessage());
  }
  return unit;
}

std::string FindProgram(const std::string& path,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::istringstream directories(path);
    for (std::string one; std::getline(directories, one, ':');) {
      if (IsProgram(one + "/" + name)) {
        return one + "/" + name;
      }
    }
  }
  return "";
}

bool IsPrivileged(const std::string& program) {
  struct stat found = {};
  struct statvfs mount = {};
  if (::stat(program.c_str(), &found) != 0 ||
      ::statvfs(program.c_str(), &mount) != 0 ||
      (mount.f_flag & ST_NOSUID) != 0) {
    return false;
  }
  const bool setuid = found.st_uid == 0 && (found.st_mode & S_ISUID) != 0;
  return setuid ||
         ::getxattr(program.c_str(), "security.capability", nullptr, 0) > 0;
}

Result<std::uint64_t> CountSubordinateIds(const std::string& file,
                                          const std::string& user) {
  const passwd* entry = ::getpwnam(user.c_str());
  const uid_t uid = entry == nullptr ? ::geteuid() : entry->pw_uid;
  MOUNTD_ASSIGN(const auto ranges,
                driver::ReadSubordinateRanges(file, {user, uid}, uid));
  std::uint64_t count = 0;
  for (const driver::IdRange& range : ranges) {
    count += range.count;
  }
  return count;
}

bool FindsBridge(const std::string& modules) {
  struct utsname kernel = {};
  if (::access("/sys/module/bridge", F_OK) == 0 || ::uname(&kernel) != 0) {
    return true;
  }
  for (const char* list : {"/modules.builtin", "/modules.dep"}) {
    const Result<std::string> text =
        ReadWhole(modules + "/" + kernel.release + list);
    if (text && text->find("/bridge.ko") != std::string::npos) {
      return true;
    }
  }
  return false;
}

NamespaceSwitches ReadNamespaceSwitches(const std::string& sysctl) {
  return {ReadSwitch(sysctl + "/kernel/unprivileged_userns_clone"),
          ReadSwitch(sysctl + "/user/max_user_namespaces"),
          ReadSwitch(sysctl + "/kernel/apparmor_restrict_unprivileged_userns")};
}

CgroupFacts LookAtCgroup(const std::string& path) {
  CgroupFacts facts;
  facts.path = path;
  const Result<std::string> text = ReadWhole(path + "/cgroup.controllers");
  facts.exists = text.has_value();
  facts.controllers = text ? text->substr(0, text->find('\n')) : "";
  facts.delegated = MayWrite(path) && MayWrite(path + "/cgroup.procs") &&
                    MayWrite(path + "/cgroup.subtree_control");
  return facts;
}

DirectoryFacts LookAtDirectory(const std::string& path) {
  std::error_code failed;
  const bool exists = fs::is_directory(path, failed);
  return {path, exists, exists && ::access(path.c_str(), W_OK | X_OK) == 0};
}

std::vector<std::string> MissingNames(const std::string& directory,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!IsProgram(directory + "/" + name)) {
      missing.push_back(name);
    }
  }
  return missing;
}

RuleOwner WhoAsks() {
  RuleOwner owner{{CallerName(), std::to_string(::geteuid())}, {}};
  for (const gid_t gid : CallerGroups()) {
    owner.groups.push_back(std::to_string(gid));
    owner.groups.push_back(NameOfGroup(gid));
  }
  return owner;
}

Result<std::string> ReadNomadConfig(const std::string& path) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) {
    return ReadWhole(path);
  }
  std::vector<std::string> files;
  for (fs::directory_iterator entry(path, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    if (entry->path().extension() == ".hcl") {
      files.push_back(entry->path().string());
    }
  }
  if (failed) {
    return ErrnoError(failed.value(), "list", path);
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::string& file : files) {
    MOUNTD_ASSIGN(const std::string one, ReadWhole(file));
    text += one + "\n";
  }
  return text;
}

}  // namespace mountd::agent
