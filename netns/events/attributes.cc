// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/events/attributes.h"

#include <netlink/attr.h>
#include <netlink/msg.h>

namespace mountd::netns {

Attributes::Attributes(std::span<const std::byte> payload, std::size_t header) {
  const std::size_t start = NLMSG_ALIGN(header);
  if (payload.size() > start) {
    bytes_ = payload.subspan(start);
  }
}

std::span<const std::byte> Attributes::Bytes(int type) const {
  // libnl only reads the bytes, but its signature has no const.
  auto* first =
      reinterpret_cast<nlattr*>(const_cast<std::byte*>(bytes_.data()));
  const nlattr* found = nla_find(first, static_cast<int>(bytes_.size()), type);
  if (found == nullptr) {
    return {};
  }
  return {static_cast<const std::byte*>(nla_data(found)),
          static_cast<std::size_t>(nla_len(found))};
}

void Attributes::Each(
    const std::function<void(const Attributes&)>& each) const {
  const auto* one = reinterpret_cast<const nlattr*>(bytes_.data());
  auto left = static_cast<int>(bytes_.size());
  for (; nla_ok(one, left) != 0; one = nla_next(one, &left)) {
    each({{static_cast<const std::byte*>(nla_data(one)),
           static_cast<std::size_t>(nla_len(one))},
          0});
  }
}

std::string Attributes::Text(int type) const {
  const std::span<const std::byte> bytes = Bytes(type);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  return text == nullptr ? ""
                         : std::string(text, ::strnlen(text, bytes.size()));
}

}  // namespace mountd::netns
