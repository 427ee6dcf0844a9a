// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The abilities of the driver on this machine, and reasons for missing ones.
#include <unistd.h>

#include <utility>

#include "agent/client.h"
#include "agent/driver/namespaces/namespaces.h"
#include "agent/driver/oci/driver.h"
#include "agent/driver/oci/stream_wait.h"

namespace mountd::driver {
namespace {

constexpr std::chrono::seconds kFingerprintPause{30};

std::string JoinWords(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// Collects the reasons why the driver lacks an ability.
struct Report {
  Fingerprint fingerprint;
  std::string lacks;

  void Lacks(const std::string& what) {
    lacks += (lacks.empty() ? "" : "; ") + what;
  }
  void Is(Health health, const std::string& why) {
    // The worst state, and the first reason for it, count.
    if (fingerprint.health == Health::kHealthy) {
      fingerprint.health = health;
      fingerprint.description = why;
    }
  }
};

void LookAtRuntime(Host& host, Report* report) {
  const auto version = host.RuntimeVersion(Host::Look::kAgain);
  if (!version) {
    report->Is(Health::kUndetected,
               "the OCI runtime is missing: " + version.error().Message());
    return;
  }
  auto& attributes = report->fingerprint.attributes;
  attributes["driver.oci"] = true;
  attributes["driver.oci.runtime"] = host.options().runtime;
  attributes["driver.oci.runtime.version"] = *version;
  if (::access(host.options().shim.c_str(), X_OK) != 0) {
    report->Is(Health::kUndetected, host.options().shim + " is missing");
  }
}

void LookAtNamespaces(Host& host, Report* report) {
  auto& attributes = report->fingerprint.attributes;
  const auto made = host.namespaces().Check();
  attributes["driver.oci.user_namespace"] = made.has_value();
  if (!made) {
    report->Is(Health::kUnhealthy,
               "no user namespace can be made: " + made.error().Message());
    return;
  }
  if (host.maps()->one_id()) {
    attributes["driver.oci.one_id"] = host.maps()->one_id_reason;
    report->Lacks("tasks have no user but root: " + host.maps()->one_id_reason);
  }
}

void LookAtCgroups(const Host& host, Report* report) {
  auto& attributes = report->fingerprint.attributes;
  if (host.cgroups() == nullptr) {
    attributes["driver.oci.cgroup"] = false;
    report->Lacks("tasks have no limits: " + host.no_cgroups());
    return;
  }
  attributes["driver.oci.cgroup"] = true;
  attributes["driver.oci.cgroup.controllers"] =
      JoinWords(host.cgroups()->controllers());
  for (const std::string& missing : host.cgroups()->left_out()) {
    report->Lacks("no limit of " + missing);
  }
}

void LookAtMountd(Host& host, Report* report) {
  auto& attributes = report->fingerprint.attributes;
  attributes["driver.oci.mountd"] = false;
  if (!host.has_mountd()) {
    report->Lacks(
        "no networks and no verified mounts, because the driver has "
        "no connection to mountd");
    return;
  }
  const auto version =
      host.Ask([](agent::Client& client) { return client.Version(); });
  if (version) {
    attributes["driver.oci.mountd"] = true;
    attributes["driver.oci.mountd.version"] = *version;
  } else {
    report->Is(Health::kUnhealthy, version.error().Message());
  }
}

Fingerprint FingerprintOf(Host& host) {
  Report report;
  report.fingerprint.health = Health::kHealthy;
  LookAtRuntime(host, &report);
  LookAtNamespaces(host, &report);
  LookAtCgroups(host, &report);
  LookAtMountd(host, &report);
  if (report.fingerprint.health == Health::kHealthy) {
    report.fingerprint.description = report.lacks;
  }
  return report.fingerprint;
}

class FingerprintStream final : public Stream<Fingerprint> {
 public:
  explicit FingerprintStream(std::shared_ptr<Host> host)
      : host_(std::move(host)), wait_(host_->shutdown()) {}

  Result<std::optional<Fingerprint>> Next() override {
    bool goes_on = last_ ? wait_.Sleep(kFingerprintPause) : wait_.goes_on();
    for (; goes_on; goes_on = wait_.Sleep(kFingerprintPause)) {
      Fingerprint now = FingerprintOf(*host_);
      if (now != last_) {
        last_ = now;
        return std::optional<Fingerprint>(std::move(now));
      }
    }
    return std::optional<Fingerprint>();
  }
  void Cancel() override { wait_.Cancel(); }

 private:
  std::shared_ptr<Host> host_;
  StreamWait wait_;
  std::optional<Fingerprint> last_;
};

}  // namespace

DriverCapabilities OciDriver::Capabilities() {
  DriverCapabilities capabilities;
  capabilities.sends_signals = true;
  capabilities.executes = true;
  capabilities.file_system = FileSystemIsolation::kImage;
  capabilities.networks = {NetworkMode::kHost, NetworkMode::kNone};
  if (host_->has_mountd()) {
    capabilities.networks.push_back(NetworkMode::kGroup);
    capabilities.must_create_network = true;
  }
  capabilities.mount_configs = MountConfigs::kAny;
  return capabilities;
}

std::vector<SchemaKey> OciDriver::ConfigSchema() {
  using Type = SchemaKey::Type;
  return {
      {"image", Type::kString, true,
       "dir:/PATH, oci:/PATH[:TAG], oci-archive:/PATH[:TAG] or "
       "docker-archive:/PATH[:REFERENCE]"},
      {"entrypoint", Type::kString, false, "in place of the image's"},
      {"command", Type::kStrings, false, "in place of the image's"},
      {"working_directory", Type::kString, false, "in place of the image's"},
      {"user", Type::kString, false, "NAME, UID, NAME:GROUP or UID:GID"},
      {"hostname", Type::kString, false, "the task's name without one"},
      {"read_only_root", Type::kBool, false, "nobody writes to the image"},
  };
}

Result<std::unique_ptr<Stream<Fingerprint>>> OciDriver::Fingerprints() {
  return std::unique_ptr<Stream<Fingerprint>>(
      std::make_unique<FingerprintStream>(host_));
}

}  // namespace mountd::driver
