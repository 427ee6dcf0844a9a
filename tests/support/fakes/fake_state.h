// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/plan/executor.h"

namespace mountd::exec {

// The machine that FakeExecutor models: what is mounted, made and running on
// it. FakeExecutor's mutex_ guards all of it.
class FakeState {
 protected:
  struct Mount {
    MountState state;
    std::string source;
    AttachPlan plan;
  };
  struct Link {
    std::uint32_t index = 0;
    NetworkPlan plan;
    bool dying = false;
  };

  std::uint64_t last_id_ = 1000;
  std::uint64_t last_handed_out_ = 0;
  bool has_unique_ids_ = true;
  std::set<std::string> busy_;
  // Each with the uid that may pass.
  std::map<std::string, std::uint32_t> allocations_;
  std::map<std::string, std::uint32_t> groups_;  // that pass, by allocation
  std::map<std::string, Mount> mounts_;
  std::set<std::string> inboxes_;
  std::map<std::string, MountState> anchors_;
  std::map<std::string, MountState> own_mounts_;
  std::map<std::string, MountState> plugins_;
  std::map<std::string, MountState> directories_;
  std::set<std::string> deaf_;
  std::map<std::string, std::vector<UniqueFd>> connections_;  // by socket
  std::map<std::string, std::uint64_t> sockets_;  // inodes, once connected to
  std::uint64_t plugin_cgroup_ = 0;
  std::map<std::string, std::uint64_t> networks_;  // namespaces, by allocation
  std::map<std::string, Link> links_;              // by address
  std::map<NetworkWatchKind, UniqueFd> network_watches_;
  std::map<std::uint16_t, std::uint8_t> host_sockets_;  // protocols
  bool network_watches_overflow_ = false;
  std::map<std::string, std::string> network_files_;  // their contents
  bool keep_links_ = false;
  std::string cni_result_;
  std::vector<std::string> cni_requests_;
  struct CniNetwork {
    std::string reason;  // why it cannot be used
    bool has_status = false;
  };
  std::map<std::string, CniNetwork> cni_networks_;
  std::map<std::string, std::string> cni_plugins_{{"fake", "1.6.0"}};
  // "web/eth0", and whether CHECK succeeds.
  std::map<std::string, bool> cni_attachments_;
  std::map<std::uint64_t, std::string> cgroups_;
  struct Use {
    std::uint64_t mount_id;
    std::uint64_t cgroup;
    Holder holder;
    std::uint64_t netns_inode = 0;
  };
  std::vector<Use> uses_;
  struct Copy {
    std::uint64_t mount_id;
    std::string plugin;
    std::uint64_t cgroup;
    Holder holder;
  };
  std::vector<Copy> copies_;
  bool blind_ = false;
  std::uint64_t task_cgroup_ = 0;  // 0: it has ended
  bool task_has_user_namespace_ = false;
  std::map<std::uint64_t, TaskMount> task_mounts_;
  std::uint64_t tree_ = 0;  // entries that remain
  bool watch_overflows_ = false;
  UniqueFd watch_;  // the end that events are written to
  bool watch_tells_ids_ = true;
  UniqueFd told_;  // the other end, if the watch reports no ids
  bool next_list_is_cut_off_ = false;
  std::uint64_t most_mounts_ = 100'000;
  std::map<std::string, MountHealth> health_;
  std::map<std::string, std::uint64_t> plugin_mounts_;
  std::uint32_t stuck_ = 0;
};

}  // namespace mountd::exec
