// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/forward_rules.h"

#include <arpa/inet.h>  // before linux/in.h, which then leaves its names to it
#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "netns/events/attributes.h"
#include "netns/events/ruleset_names.h"

namespace mountd::netns {
namespace {

constexpr std::string_view kFromAllocations = "mountd: from allocations";
constexpr std::string_view kToAllocations = "mountd: to allocations";

struct Family {
  std::uint8_t number;
  const char* name;
};
constexpr Family kFamilies[] = {{NFPROTO_IPV4, "ip"}, {NFPROTO_IPV6, "ip6"}};

// Handles of mountd's rules, by comment.
using OwnRules = std::map<std::string_view, std::uint64_t>;

void TakeIfOwn(const Answer& answer, OwnRules* rules) {
  const auto attributes = AttributesAfter<nfgenmsg>(answer.payload);
  const auto big_endian = attributes.Value<std::uint64_t>(NFTA_RULE_HANDLE);
  const std::span<const std::byte> data = attributes.Bytes(NFTA_RULE_USERDATA);
  if (!big_endian || data.empty()) {
    return;
  }
  // nft(8) writes the comment into these data with a type and a length before
  // it.
  const std::string_view user(reinterpret_cast<const char*>(data.data()),
                              data.size());
  for (const std::string_view comment : {kFromAllocations, kToAllocations}) {
    if (user.find(comment) != std::string_view::npos) {
      (*rules)[comment] = be64toh(*big_endian);
    }
  }
}

Message ForwardMessage(int type, int flags, const Family& family,
                       int table_attribute, int chain_attribute) {
  nfgenmsg header = {};
  header.nfgen_family = family.number;
  header.version = NFNETLINK_V0;
  Message message((NFNL_SUBSYS_NFTABLES << 8) | type, flags, header);
  message.PutText(table_attribute, kFilterTable)
      .PutText(chain_attribute, kForwardChain);
  return message;
}

Result<bool> HasChain(Channel* nft, const Family& family) {
  std::vector<Message> messages;
  messages.push_back(ForwardMessage(NFT_MSG_GETCHAIN, 0, family,
                                    NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME));
  MOUNTD_ASSIGN(const std::vector<Answer> answers, nft->Exchange(messages, 0));
  for (const Answer& answer : answers) {
    // ENOENT: no such table or chain in this family.
    if (answer.err == ENOENT) {
      return false;
    }
    if (answer.err != 0) {
      return ErrnoError(answer.err, "NFT_MSG_GETCHAIN", kForwardChain);
    }
  }
  return true;
}

struct FoundRules {
  OwnRules own;
  bool interrupted = false;
};

Result<FoundRules> FindOwnOnce(Channel* nft, const Family& family) {
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                nft->Dump(ForwardMessage(NFT_MSG_GETRULE, NLM_F_DUMP, family,
                                         NFTA_RULE_TABLE, NFTA_RULE_CHAIN)));
  FoundRules found;
  for (const Answer& answer : answers) {
    if (answer.err != 0) {
      return ErrnoError(answer.err, "NFT_MSG_GETRULE", kForwardChain);
    }
    found.interrupted = found.interrupted || answer.is_interrupted;
    TakeIfOwn(answer, &found.own);
  }
  return found;
}

// Reads the chain. Repeats an interrupted dump until some readings in a row
// agree, because the kernel also calls a dump interrupted if another table
// changed (ReadTable).
Result<OwnRules> FindOwn(Channel* nft, const Family& family) {
  constexpr int kTries = 16;
  constexpr int kAgreeing = 3;
  std::optional<OwnRules> last;
  int agreeing = 0;
  for (int i = 0; i < kTries; ++i) {
    MOUNTD_ASSIGN(FoundRules found, FindOwnOnce(nft, family));
    agreeing = last == found.own ? agreeing + 1 : 1;
    if (!found.interrupted || agreeing == kAgreeing) {
      return std::move(found.own);
    }
    last = std::move(found.own);
  }
  return MakeError(Code::kUnavailable, "NFT_MSG_GETRULE", kForwardChain,
                   "the chain changed during each reading; call again");
}

std::string Where(const Family& family) {
  return std::string(" rule ") + family.name + " " + kFilterTable + " " +
         kForwardChain + " ";
}

std::string Insertion(const Family& family, const char* match,
                      std::string_view comment) {
  // Insert at the beginning, because at the end the rule would come after rules
  // that drop the packets.
  return "insert" + Where(family) + match +
         " \"md*\" counter accept comment \"" + std::string(comment) + "\"\n";
}

}  // namespace

Result<void> PrepareForwardRules(exec::Kernel& kernel, Channel* nft,
                                 bool wanted) {
  std::string commands;
  for (const Family& family : kFamilies) {
    MOUNTD_ASSIGN(const bool there, HasChain(nft, family));
    // Without the chain no rule drops these packets.
    if (!there) {
      continue;
    }
    MOUNTD_ASSIGN(const OwnRules own, FindOwn(nft, family));
    if (wanted && !own.contains(kFromAllocations)) {
      commands += Insertion(family, "iifname", kFromAllocations);
    }
    if (wanted && !own.contains(kToAllocations)) {
      commands += Insertion(family, "oifname", kToAllocations);
    }
    for (const auto& [comment, handle] : own) {
      if (!wanted) {
        commands += "delete" + Where(family) + "handle " +
                    std::to_string(handle) + "\n";
      }
    }
  }
  return commands.empty()
             ? Ok()
             : exec::Named(kernel.RunNft(commands), "nft", kForwardChain);
}

}  // namespace mountd::netns
