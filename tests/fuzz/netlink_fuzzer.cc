// SPDX-License-Identifier: LGPL-2.1-or-later
// The kernel's datagrams on links, rules, sockets and mounts. mountd trusts the
// kernel, but messages of a newer kernel, and other users' texts in them, must
// do no harm. The first byte says which reader gets the input.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "mountd/watch/mount_events.h"
#include "netns/events/events.h"
#include "netns/events/host_link.h"
#include "netns/plans/elements.h"
#include "netns/plans/host_sockets.h"
#include "netns/plans/netlink.h"
#include "netns/plans/veth.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/refusing_kernel.h"

namespace mountd::fuzz {
namespace {

struct Pair {
  UniqueFd near;
  UniqueFd far;
};

Pair MakePair() {
  std::array<int, 2> fds{};
  const int made = ::socketpair(
      AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data());
  Require(made == 0, "no pair of sockets");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// A kernel whose sockets answer with the rest of the input, some bytes at a
// time.
class AnsweringKernel final : public RefusingKernel {
 public:
  explicit AnsweringKernel(Input* input) : input_(input) {}
  exec::Sys<UniqueFd> OpenNetlink(int /*protocol*/) override {
    return UniqueFd(::dup(STDERR_FILENO));
  }
  exec::Sys<void> Send(int /*socket*/,
                       std::span<const std::byte> /*bytes*/) override {
    return {};
  }
  exec::Sys<std::size_t> Receive(int /*socket*/,
                                 std::span<std::byte> into) override {
    if (input_->empty()) {
      return EAGAIN;
    }
    const std::string_view some = input_->Bytes(input_->UpTo(512));
    std::copy(some.begin(), some.end(), reinterpret_cast<char*>(into.data()));
    return some.size();
  }

 private:
  Input* input_;
};

void ReadAnswers(Input* input) {
  AnsweringKernel kernel(input);
  auto channel = netns::Channel::Open(kernel, NETLINK_ROUTE);
  Require(channel.has_value(), "no channel");
  netns::Channel* asked = &*channel;
  netns::Veth veth;
  veth.host_name = "md0a580002";
  veth.ipv4 = {10, 88, 0, 2};
  veth.ipv6 = {0xfd, 0x88};
  IgnoreBecauseBestEffort(netns::FindLink(asked, veth.host_name));
  IgnoreBecauseBestEffort(netns::LeadsTo(asked, netns::LinkFacts{}, 3));
  IgnoreBecauseBestEffort(netns::IsHostEndRight(asked, veth, 7));
  IgnoreBecauseBestEffort(netns::IsRoutedElsewhere(asked, veth.ipv6, 7));
  exec::NetworkPlan plan;
  plan.ipv4 = veth.ipv4;
  plan.port_count = 1;
  plan.ports[0] = {80, 80, 1, 0, 1, {}};
  const auto elements = netns::ElementsOf(plan);
  const auto found = netns::FindElements(asked, elements, "web");
  Require(!found || found->size() == elements.size(),
          "more elements are found than were asked for");
  IgnoreBecauseBestEffort(netns::DeleteElements(asked, elements, "web"));
}

void ReadDatagrams(std::uint8_t who, Input* input) {
  const Pair pair = MakePair();
  while (!input->empty()) {
    const std::string_view some = input->Bytes(input->UpTo(1024));
    if (!some.empty() &&
        ::send(pair.far.get(), some.data(), some.size(), 0) < 0) {
      break;
    }
  }
  const int socket = pair.near.get();
  if (who == 0) {
    const auto events = netns::ReadLinkEvents(socket);
    for (const std::string& link :
         events ? events->links : std::set<std::string>()) {
      Require(link.starts_with("md"), "another's link is taken for ours");
    }
  } else if (who == 1) {
    netns::RulesetEventReader reader;
    IgnoreBecauseBestEffort(reader.Read(socket));
  } else {
    IgnoreBecauseBestEffort(ReadMountEvents(socket));
  }
}

void ReadSockets(Input* input) {
  const std::uint8_t how = input->Byte() % 3;
  const std::string_view text = input->Rest();
  if (how == 0) {
    (void)netns::HostSocketOf(std::as_bytes(std::span(text)));
    return;
  }
  const auto sockets = how == 1 ? netns::HostSocketsOfTable(text, 10)
                                : netns::HostSocketsOfEndpoints(text);
  Require(!sockets || sockets->size() <= text.size() / 8,
          "more sockets than lines");
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  switch (const std::uint8_t who = input.Byte() % 6; who) {
    case 3:
      ReadAnswers(&input);
      break;
    case 4: {
      const std::string_view payload = input.Rest();
      const std::vector<char> own(payload.begin(), payload.end());
      (void)mountd::netns::IsHostLinkRight(std::as_bytes(std::span(own)));
      break;
    }
    case 5:
      ReadSockets(&input);
      break;
    default:
      ReadDatagrams(who, &input);
      break;
  }
  return 0;
}
