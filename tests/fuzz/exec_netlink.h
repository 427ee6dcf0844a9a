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

#include "mountd/config/config.h"
#include "mountd/plan/message.h"
#include "netns/events/attributes.h"

struct nlmsghdr;

namespace mountd::fuzz {

// Models the kernel's end of an executor's netlink. Answers as links and
// elements would, or lies. Ends the process if a request would touch a link,
// table, set, route or neighbour that is not the plan's own.
class ExecNetlink {
 public:
  using Lie = std::function<std::uint8_t()>;  // 0: the truth

  explicit ExecNetlink(const Config& config) : config_(config) {}

  // Sets the plan of the requests from now on; null for none.
  void Begin(const exec::Request* plan) { plan_ = plan; }

  // Returns the answers to one send(2). `inside` means an allocation's
  // namespace, where the executor may do anything.
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

  // Return an errno, or 0; other answers go into `out`.
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
  // The elements by set and key, as they were added.
  std::map<std::string, std::vector<std::byte>> elements_;
  // The links that answers have declared the plan's.
  std::set<std::uint32_t> own_;
  std::uint32_t last_index_ = 10;
};

}  // namespace mountd::fuzz
