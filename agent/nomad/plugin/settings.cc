// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/settings.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "agent/driver/images/image_reference.h"
#include "mountd/base/paths.h"

namespace mountd::nomad {
namespace {

namespace fs = std::filesystem;
using Type = driver::SchemaKey::Type;

// "" for a relative path, which the writer of the variable did not mean.
std::string PathOfVariable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value == '/' ? value : "";
}

Result<std::string> RealPath(const std::string& path) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  if (failed) {
    return ErrnoError(failed.value(), "resolve", path);
  }
  return real.string();
}

Error NotAllowed(const std::string& image) {
  return MakeError(Code::kPermissionDenied, "image", image,
                   "is in none of the image_directories of the plugin's "
                   "configuration in Nomad's client");
}

}  // namespace

Keys SettingKeys() {
  return {
      {"state", Type::kString, false, "the directory of the tasks"},
      {"runtime", Type::kString, false, "crun, runc or a path"},
      {"shim", Type::kString, false, "the path of mountd-task-shim"},
      {"cgroup", Type::kString, false, "a delegated cgroup of version 2"},
      {"address", Type::kString, false, "where mountd listens"},
      {"image_directories", Type::kStrings, false,
       "the directories that images may come from"},
  };
}

Result<Settings> ReadSettings(const std::string& msgpack) {
  MOUNTD_ASSIGN(const nlohmann::json values,
                ReadValues(msgpack, SettingKeys()));
  const auto text = [&](const char* key) {
    return values.value(key, std::string());
  };
  Settings settings;
  settings.state = text("state");
  settings.runtime = text("runtime");
  settings.shim = text("shim");
  settings.cgroup = text("cgroup");
  settings.address = text("address");
  settings.image_directories =
      values.value("image_directories", std::vector<std::string>());
  for (const std::string& path : settings.image_directories) {
    if (!fs::path(path).is_absolute()) {
      return MakeError(Code::kInvalidArgument, "config", "image_directories",
                       path + " is no absolute path");
    }
  }
  return settings;
}

Result<std::string> StateOf(const Settings& settings) {
  if (!settings.state.empty()) {
    return settings.state;
  }
  for (const char* variable : {"STATE_DIRECTORY", "XDG_STATE_HOME"}) {
    if (const std::string path = PathOfVariable(variable); !path.empty()) {
      return path + "/mountd";
    }
  }
  if (const std::string home = PathOfVariable("HOME"); !home.empty()) {
    return home + "/.local/state/mountd";
  }
  return MakeError(Code::kFailedPrecondition, "config", "state",
                   "is not set, and neither STATE_DIRECTORY nor XDG_STATE_HOME "
                   "nor HOME names an absolute path");
}

Result<std::string> CheckImage(const Settings& settings,
                               const std::string& image) {
  MOUNTD_ASSIGN(driver::ImageReference reference,
                driver::ParseImageReference(image));
  // The refusal is the same for a path that is not there, because a job may not
  // learn which paths the machine has.
  const auto real = RealPath(reference.path);
  for (const std::string& allowed : settings.image_directories) {
    const auto directory = RealPath(allowed);
    if (real && directory && paths::IsAtOrBelow(*real, *directory)) {
      reference.path = *real;
      return reference.ToText();
    }
  }
  return NotAllowed(image);
}

}  // namespace mountd::nomad
