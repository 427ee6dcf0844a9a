// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

// The paths that mountd uses. These paths are fixed, because the executor's
// invariants are about these places. Tests make the same paths in a mount
// namespace of their own.
//
//   /run/mountd/                root 0755   only root can rename entries in it
//     bus                       the peer-to-peer D-Bus socket
//     exec.sock  csi.sock  closer.sock   0600 mountd: to the executors, to
//                               mountd-csi, to mountd-closer
//     mountd.toml               the accepted copy of the configuration
//     namespace                 the pinned mount namespace that holds the base,
//                               if the base has a mount namespace of its own
//     state/boot.db             0700 mountd: the records of this boot
//     cni/                      0700 root: CNI attachments, of mountd-cni-run
//     base/                     the base: tmpfs, a shared peer group of its own
//       a/<allocation>/<task>/<name>              the bind mounts
//       h/<host volume>/anchor    marker: which mount is the volume's anchor
//       f/<file system>/{fs,anchor}   the mount, and its marker
//       n/<allocation>            marker: which namespace is the allocation's
//       d/<allocation>/{hosts,hostname,resolv.conf}   files for the tasks
//       p/<plugin>/{csi.sock,csi-<instance>.sock,staging/<key>,
//                   publish/<allocation>/<key>}
//   /var/lib/mountd/state.db    0700 mountd: the records that outlive the boot
//   /var/lib/mountd-cni/        0700 root: CNI attachments that outlive a boot
//   /run/netns/<allocation>     the network namespaces
namespace mountd::paths {

inline constexpr char kRunDir[] = "/run/mountd";
inline constexpr char kBusSocket[] = "/run/mountd/bus";
inline constexpr char kExecSocket[] = "/run/mountd/exec.sock";
inline constexpr char kCsiSocket[] = "/run/mountd/csi.sock";
inline constexpr char kCloserSocket[] = "/run/mountd/closer.sock";
inline constexpr char kBootStore[] = "/run/mountd/state/boot.db";
inline constexpr char kStateStore[] = "/var/lib/mountd/state.db";
inline constexpr char kCniState[] = "/run/mountd/cni";
inline constexpr char kCniKept[] = "/var/lib/mountd-cni";
inline constexpr char kBase[] = "/run/mountd/base";
inline constexpr char kNamespace[] = "/run/mountd/namespace";
inline constexpr char kAllocations[] = "a";
inline constexpr char kPlugins[] = "p";
inline constexpr char kAnchors[] = "h";
inline constexpr char kFilesystems[] = "f";
inline constexpr char kNetworks[] = "n";
inline constexpr char kNetworkFiles[] = "d";
inline constexpr char kStaging[] = "staging";
inline constexpr char kPublish[] = "publish";
inline constexpr char kCsiEndpoint[] = "csi.sock";
inline constexpr char kNetnsDir[] = "/run/netns";
inline constexpr char kConfig[] = "/etc/mountd/mountd.toml";

// Returns the file name of the socket of the instance with this key
// (InstanceKey).
inline std::string PluginSocket(std::string_view instance) {
  // The only instance has the plain name.
  return instance.find_first_not_of('0') == std::string_view::npos
             ? kCsiEndpoint
             : "csi-" + std::string(instance) + ".sock";
}

// Returns the path of a file of base/d; `name` as in
// mountd/networks/etc_files.h.
inline std::string NetworkFile(const std::string& allocation,
                               const std::string& name) {
  return std::string(kBase) + "/" + kNetworkFiles + "/" + allocation + "/" +
         name;
}

// Compares by components: "/a/b" is below "/a" and "/", "/ab" is not below
// "/a". Both paths are normalised, or "/".
constexpr bool IsAtOrBelow(std::string_view path, std::string_view top) {
  return path == top || (path.size() > top.size() && path.starts_with(top) &&
                         (path[top.size()] == '/' || top == "/"));
}

// Returns whether the path is absolute, not the root, and without empty, "."
// and ".." parts, so that a caller can open it part by part.
constexpr bool IsNormalised(std::string_view path) {
  if (path.size() < 2 || path.front() != '/') {
    return false;
  }
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    path.remove_prefix(part.size());
  }
  return true;
}

}  // namespace mountd::paths
