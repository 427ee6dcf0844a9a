// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/policy/grants.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mountd/config/config_filesystem.h"
#include "mountd/plan/attributes.h"

namespace mountd {
namespace {

constexpr std::array kPropagationModes = {exec::Propagation::kPrivate,
                                          exec::Propagation::kHostToTask,
                                          exec::Propagation::kBidirectional};

// Returns the ranges in order, without a range that lies in another one. Does
// not join ranges, because a rule must grant all ports of a call, or all ids of
// an extent, in one range.
template <typename Range>
std::vector<Range> WithoutNested(std::vector<Range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.first != b.first ? a.first < b.first : a.last > b.last;
  });
  std::vector<Range> kept;
  for (const Range& range : ranges) {
    // No kept range begins after this one, so the last kept range reaches
    // farthest.
    if (kept.empty() || range.last > kept.back().last) {
      kept.push_back(range);
    }
  }
  return kept;
}

// Returns the attributes that every mount of a source with these options has.
std::vector<std::string> AttributesOf(bool read_only,
                                      const std::vector<std::string>& options) {
  std::vector<std::string> keys;
  for (const exec::AttributeRow& row : exec::kAttributes) {
    const bool has =
        row.bit == exec::kEveryMount ||
        (row.bit == exec::kReadOnly && read_only) ||
        std::find(options.begin(), options.end(), row.word) != options.end();
    if (has) {
      keys.emplace_back(row.key);
    }
  }
  return keys;
}

}  // namespace

Grants Grants::OfAllUsers(const std::shared_ptr<const Config>& config) {
  // Not root, because the policy never shows root's files as root's
  // (MayShowRoot).
  constexpr std::uint32_t kEverybody = 1;
  auto all = std::make_shared<Config>(*config);
  for (RuleConfig& rule : all->rules) {
    // A rule for root alone does not let anybody see root's files as the
    // caller's.
    const bool is_roots =
        rule.gids.empty() && std::all_of(rule.uids.begin(), rule.uids.end(),
                                         [](auto uid) { return uid == 0; });
    rule.root_as_caller = rule.root_as_caller && !is_roots;
    rule.uids = {kEverybody};
  }
  for (auto& [name, volume] : all->host_volumes) {
    volume.uids.clear();
  }
  for (auto& [name, filesystem] : all->filesystems) {
    filesystem.uids.clear();
  }
  Caller caller;
  caller.uid = kEverybody;
  caller.gid = kEverybody;
  return {config, std::move(caller), std::move(all)};
}

template <typename Declared>
bool Grants::Fill(const std::string& name, const Declared& source,
                  const std::vector<std::string>& options, const MayMount& may,
                  SourceGrant& grant) const {
  for (const exec::Propagation mode : kPropagationModes) {
    if (!MountPolicy::NeedsWriteAccess(mode) && may(true, mode)) {
      grant.read_only.push_back(mode);
    }
    if (may(false, mode)) {
      grant.writable.push_back(mode);
    }
  }
  if (!grant.granted()) {
    return false;
  }
  grant.name = name;
  grant.attributes = AttributesOf(source.read_only, options);
  grant.ids = WithoutNested(policy_.mounts().IdsOf(caller_));
  if (is_of_all_users_) {
    grant.uids = source.uids;
  }
  const LimitsConfig& limits = declared_->limits;
  grant.limits = {{"mounts_per_allocation", limits.mounts_per_allocation},
                  {"mounts_per_uid", limits.mounts_per_uid}};
  return true;
}

std::vector<HostVolumeGrant> Grants::HostVolumes() const {
  std::vector<HostVolumeGrant> grants;
  for (const auto& entry : declared_->host_volumes) {
    const std::string& name = entry.first;
    const HostVolumeConfig& volume = entry.second;
    const auto may = [&](bool read_only,
                         exec::Propagation mode) -> Result<void> {
      // The executor refuses such a mount, because nothing that is mounted
      // there reaches the host.
      if (declared_->mounts.own_namespace &&
          mode == exec::Propagation::kBidirectional) {
        return MakeError(
            Code::kNotSupported, "bind-mount", name,
            "is not bidirectional in mountd's own mount namespace");
      }
      return policy_.mounts().MayMountHostVolume(caller_, name, read_only,
                                                 mode);
    };
    HostVolumeGrant grant;
    if (Fill(name, volume, {}, may, grant)) {
      grant.path = volume.path;
      const auto may_show_root = [&](bool read_only) {
        return may(read_only, exec::Propagation::kPrivate) &&
               policy_.mounts().MayShowRoot(
                   caller_, {exec::SourceKind::kHostVolume, name, read_only});
      };
      grant.read_only_root_as_caller = may_show_root(true);
      grant.writable_root_as_caller = may_show_root(false);
      grants.push_back(std::move(grant));
    }
  }
  return grants;
}

std::vector<FilesystemGrant> Grants::Filesystems() const {
  std::vector<FilesystemGrant> grants;
  for (const auto& entry : declared_->filesystems) {
    const std::string& name = entry.first;
    const FilesystemConfig& filesystem = entry.second;
    const auto may = [&](bool read_only, exec::Propagation mode) {
      return policy_.mounts().MayMountFilesystem(caller_, name, read_only,
                                                 mode);
    };
    FilesystemGrant grant;
    if (!Fill(name, filesystem, filesystem.options, may, grant)) {
      continue;
    }
    grant.type = filesystem.type;
    std::copy_if(filesystem.options.begin(), filesystem.options.end(),
                 std::back_inserter(grant.options),
                 [&](const std::string& option) {
                   return IsShownOption(filesystem.type, option);
                 });
    grants.push_back(std::move(grant));
  }
  return grants;
}

bool Grants::MayBeInSomeCni() const {
  return declared_->cni.enabled() && policy_.networks().MayBeInSomeCni(caller_);
}

bool Grants::MayBeIn(NetworkMode mode, const std::string& network) const {
  NetworkRequest request;
  request.mode = mode;
  request.network = network;
  return policy_.networks().MayUseNetwork(caller_, request).has_value();
}

NetworkGrant Grants::NetworkOf(NetworkMode mode,
                               const std::string& network) const {
  NetworkGrant grant;
  grant.mode = mode;
  grant.network = network;
  grant.host_ports = WithoutNested(policy_.networks().HostPortsOf(caller_));
  grant.host_namespaces = policy_.networks().MayPassHostNamespaces(caller_);
  const LimitsConfig& limits = declared_->limits;
  grant.limits = {
      {"namespaces_per_uid", limits.namespaces_per_uid},
      {"network_file_bytes_per_uid", limits.network_file_bytes_per_uid}};
  return grant;
}

std::vector<NetworkGrant> Grants::Networks(const CniListing& cni) const {
  std::vector<NetworkGrant> grants;
  for (const auto& [name, network] : declared_->networks) {
    if (MayBeIn(NetworkMode::kBridge, name)) {
      NetworkGrant& grant =
          grants.emplace_back(NetworkOf(NetworkMode::kBridge, name));
      grant.ipv4 = network.ipv4;
      grant.ipv6 = network.ipv6;
      grant.mtu = network.mtu;
    }
  }
  for (const auto& [name, network] : cni.networks) {
    if (MayBeIn(NetworkMode::kCni, name)) {
      grants.emplace_back(NetworkOf(NetworkMode::kCni, name)).unusable =
          network.unusable;
    }
  }
  return grants;
}

}  // namespace mountd
