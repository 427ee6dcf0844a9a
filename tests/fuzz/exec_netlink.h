// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "mountd/config.h"
#include "mountd/exec/plan.h"
#include "netns/attributes.h"

struct nlmsghdr;

namespace mountd::fuzz {

// The kernel's end of netlink, as an executor asks it. Answers as links and
// elements would, or a lie; and ends the process if a request would touch what
// is not the plan's own: another link, table, set, route or neighbour.
class ExecNetlink {
 public:
  using Lie = std::function<std::uint8_t()>;  // 0: the truth

  explicit ExecNetlink(const Config& config) : config_(config) {}

  // From now on requests are of this plan, or of none (null).
  void Begin(const exec::Request* plan) { plan_ = plan; }

  // The answers to all of one send(2). `inside`: of an allocation's namespace,
  // where the executor may do anything.
  std::vector<std::byte> Answer(int protocol, bool inside,
                                std::span<const std::byte> requests,
                                const Lie& lie);

  std::string Told() const;

 private:
  struct Link {
    std::uint32_t index = 0;
    std::string alias;
    bool up = false;
  };
  struct Asked {
    int type = 0;
    int flags = 0;
    std::uint32_t sequence = 0;
    std::span<const std::byte> payload;
  };

  // Each an errno, or 0; answers other than that go into `out`.
  int Route(const Asked& asked, bool inside, const Lie& lie,
            std::vector<std::byte>* out);
  int GetLink(const Asked& asked, bool inside, const Lie& lie,
              std::vector<std::byte>* out);
  int ChangeLink(const Asked& asked, std::vector<std::byte>* out);
  int Sockets(const Asked& asked, const Lie& lie, std::vector<std::byte>* out);
  int Netfilter(const Asked& asked, const Lie& lie,
                std::vector<std::byte>* out);
  int Elements(const Asked& asked, const Lie& lie, std::vector<std::byte>* out);
  void CheckElement(const std::string& set, const netns::Attributes& element);
  void CheckAddressed(const Asked& asked);
  void PutLink(const Asked& asked, const std::string& name, const Link& link,
               std::vector<std::byte>* out);
  const exec::NetworkPlan& Plan() const;
  std::string HostLink() const;

  const Config& config_;
  const exec::Request* plan_ = nullptr;
  std::map<std::string, Link> links_;
  // By set and key, each as it was added.
  std::map<std::string, std::vector<std::byte>> elements_;
  // Links that answers have said to be the plan's.
  std::set<std::uint32_t> own_;
  std::uint32_t last_index_ = 10;
};

}  // namespace mountd::fuzz
