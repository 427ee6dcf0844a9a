// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Lists of networks while other processes change the table.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/network_fixture.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;

// Owns a process that adds and removes a foreign map, again and again.
class Changer {
 public:
  Changer() : pid_(::fork()) {
    while (pid_ == 0) {
      for (const char* what : {"add", "delete"}) {
        const std::string command =
            std::string(what) +
            " element inet mountd pm4 { tcp . 7 : 192.0.2.1 . 7 }";
        if (!exec::RunNftCommand(command)) {
          ::_exit(1);
        }
      }
    }
  }
  ~Changer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Changer(const Changer&) = delete;
  Changer& operator=(const Changer&) = delete;

 private:
  const pid_t pid_;
};

TEST_F(Networks, AListHasEachPortWhileOthersChangeTheTable) {
  NetworkPlan plan = Plan("web", 2, 20000);
  plan.ports[0].count = 201;
  Create(plan);
  const Changer changer;
  int whole = 0;
  for (int i = 0; i < 20; ++i) {
    const exec::Reply reply = Call(PlanKind::kListNetworks);
    if (CodeOf(reply) == "Unavailable") {
      continue;  // the table changed during each reading
    }
    ASSERT_EQ(ErrorOf(reply), "");
    std::vector<exec::FoundNetwork> rows(8);
    const ssize_t size =
        ::pread(last_fd_.get(), rows.data(), sizeof(rows[0]) * rows.size(), 0);
    ASSERT_GT(size, 0);
    rows.resize(static_cast<std::size_t>(size) / sizeof(rows[0]));
    unsigned ports = 0;
    for (const exec::FoundNetwork& row : rows) {
      for (std::uint32_t at = 0; at < row.port_count; ++at) {
        EXPECT_EQ(row.ports.at(at).protocols, exec::kTcp | exec::kUdp);
        ports += row.ports.at(at).count;
      }
    }
    EXPECT_EQ(ports, 201U);
    ++whole;
  }
  EXPECT_GT(whole, 0);
}

}  // namespace
}  // namespace mountd::testing
