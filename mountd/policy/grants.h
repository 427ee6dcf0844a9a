// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/config/config.h"
#include "mountd/networks/cni_documents.h"
#include "mountd/policy/policy.h"

namespace mountd {

// Limits by their keys in [limits].
using LimitsByKey = std::map<std::string, std::uint64_t>;

// A source that the configuration declares by name, and the mounts of it that
// the policy grants.
struct SourceGrant {
  std::string name;
  // The propagation modes that a read-only mount may have, and those of a
  // writable one. An empty list means that no such mount is granted.
  std::vector<exec::Propagation> read_only{};
  std::vector<exec::Propagation> writable{};
  // The attributes (exec::kAttributes) that each mount has even if the caller
  // does not ask for them.
  std::vector<std::string> attributes{};
  std::vector<IdRange> ids{};  // ids on disk that a mount may map
  // The users for whom the source is declared. Filled only in the list for all
  // users.
  std::vector<std::uint32_t> uids{};
  LimitsByKey limits{};

  bool granted() const { return !read_only.empty() || !writable.empty(); }
};

struct HostVolumeGrant : SourceGrant {
  std::string path;
  // True if a private mount of this kind may show root's files as the caller's
  // own.
  bool read_only_root_as_caller = false;
  bool writable_root_as_caller = false;
};

// Lacks the file system's source and each option with free text, because these
// may name hosts, accounts and files with credentials.
struct FilesystemGrant : SourceGrant {
  std::string type;
  std::vector<std::string> options{};
};

// A network of mode bridge or CNI.
struct NetworkGrant {
  NetworkMode mode = NetworkMode::kBridge;
  std::string network;
  std::vector<netns::Ipv4Range> ipv4{};  // kBridge only
  std::vector<netns::Ipv6Range> ipv6{};  // kBridge only
  std::uint32_t mtu = 0;                 // kBridge only; 0: the kernel's
  std::string unusable{};  // kCni only: why the node cannot make it now
  std::vector<PortRange> host_ports{};
  bool host_namespaces = false;  // Policy::MayPassHostNamespaces
  LimitsByKey limits{};
};

// Lists what a caller may use, in the order of names. Asks Policy about each
// declared object, so the list agrees with the policy's decision on a later
// call, as long as the configuration is the same. Pure, as Policy is.
// Thread-safe.
class Grants {
 public:
  Grants(std::shared_ptr<const Config> config, Caller caller)
      : Grants(config, std::move(caller), config) {}
  // Lists what the rules of all users grant together, as if every rule named
  // the same user.
  static Grants OfAllUsers(const std::shared_ptr<const Config>& config);

  std::vector<HostVolumeGrant> HostVolumes() const;
  std::vector<FilesystemGrant> Filesystems() const;
  // `cni` has the CNI networks that exist.
  std::vector<NetworkGrant> Networks(const CniListing& cni) const;
  // Returns whether Networks may list a CNI network.
  bool MayBeInSomeCni() const;

 private:
  using MayMount = std::function<Result<void>(bool read_only,
                                              exec::Propagation propagation)>;

  Grants(std::shared_ptr<const Config> declared, Caller caller,
         const std::shared_ptr<const Config>& decides)
      : declared_(std::move(declared)),
        is_of_all_users_(declared_ != decides),
        policy_(decides),
        caller_(std::move(caller)) {}

  // Returns whether the source is granted, and fills in `grant`.
  template <typename Declared>
  bool Fill(const std::string& name, const Declared& source,
            const std::vector<std::string>& options, const MayMount& may,
            SourceGrant& grant) const;
  bool MayBeIn(NetworkMode mode, const std::string& network) const;
  NetworkGrant NetworkOf(NetworkMode mode, const std::string& network) const;

  const std::shared_ptr<const Config> declared_;
  const bool is_of_all_users_;
  const Policy policy_;
  const Caller caller_;
};

}  // namespace mountd
