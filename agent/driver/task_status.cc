// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/task_status.h"

#include <string_view>

namespace mountd::driver {
namespace {

// FNV-1a, because the value is kept and compared by other releases, and
// std::hash may differ between them.
// Source: draft-eastlake-fnv, section 2.
class Fnv {
 public:
  void Add(std::string_view bytes) {
    for (const char byte : bytes) {
      value_ ^= static_cast<unsigned char>(byte);
      value_ *= 0x100000001b3U;
    }
    AddEnd();
  }
  void Add(std::uint16_t number) { Add(std::to_string(number)); }
  std::uint64_t value() const { return value_; }

 private:
  // Adds a byte that no UTF-8 text has, so that "ab" and "c" differ from "a"
  // and "bc".
  void AddEnd() {
    value_ ^= 0xffU;
    value_ *= 0x100000001b3U;
  }

  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

bool ExitResult::IsSuccess() const {
  return exit_code == 0 && signal == 0 && error.empty();
}

std::uint64_t DriverNetwork::Hash() const {
  Fnv hash;
  // A std::map keeps its members sorted, so equal maps give equal hashes.
  for (const auto& [label, port] : port_map) {
    hash.Add(label);
    hash.Add(port);
  }
  hash.Add(address);
  hash.Add(auto_advertise ? "1" : "0");
  return hash.value();
}

bool AutoAdvertises(const std::optional<DriverNetwork>& network) {
  return network && network->auto_advertise;
}

}  // namespace mountd::driver
