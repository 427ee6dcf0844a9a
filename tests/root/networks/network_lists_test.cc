// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Lists of networks while other processes change the table.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "mountd/kernel/nft_command.h"
#include "tests/root/networks/network_fixture.h"

namespace mountd::testing {
namespace {

using exec::NetworkPlan;
using exec::PlanKind;

// Owns a process that adds and removes an element, again and again, for at most
// two minutes.
class Changer {
 public:
  explicit Changer(const std::string& element) : pid_(::fork()) {
    if (pid_ == 0) {
      ::alarm(120);
    }
    while (pid_ == 0) {
      for (const char* what : {"add", "delete"}) {
        if (!exec::RunNftCommand(what + (" element " + element))) {
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

class NetworkLists : public Networks {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (!IsSkipped()) {
      NetworkPlan plan = Plan("web", 2, 20000);
      plan.ports[0].count = 201;
      Create(plan);
    }
  }
  // Returns how many ports the last list has, each for TCP and UDP.
  unsigned ListedPorts() const {
    std::vector<exec::FoundNetwork> rows(8);
    const ssize_t size =
        ::pread(last_fd_.get(), rows.data(), sizeof(rows[0]) * rows.size(), 0);
    EXPECT_GT(size, 0);
    rows.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)) /
                sizeof(rows[0]));
    unsigned ports = 0;
    for (const exec::FoundNetwork& row : rows) {
      for (std::uint32_t at = 0; at < row.port_count; ++at) {
        EXPECT_EQ(row.ports.at(at).protocols, exec::kTcp | exec::kUdp);
        ports += row.ports.at(at).count;
      }
    }
    return ports;
  }
  // Makes a table of another program of root's.
  static void AddForeignTable() {
    ASSERT_TRUE(exec::RunNftCommand(
        "add table inet other; add set inet other s { type inet_service; }"));
  }
};

TEST_F(NetworkLists, HaveEachPortWhileOthersChangeTheTable) {
  const Changer changer("inet mountd pm4 { tcp . 7 : 192.0.2.1 . 7 }");
  int whole = 0;
  for (int i = 0; i < 20; ++i) {
    const exec::Reply reply = Call(PlanKind::kListNetworks);
    if (CodeOf(reply) == "Unavailable") {
      continue;  // the table changed during each reading
    }
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(ListedPorts(), 201U);
    ++whole;
  }
  EXPECT_GT(whole, 0);
}

TEST_F(NetworkLists, AreThereWhileOthersChangeTheirOwnTables) {
  AddForeignTable();
  const Changer first("inet other s { 7 }");
  const Changer second("inet other s { 8 }");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(ErrorOf(Call(PlanKind::kListNetworks)), "");
    EXPECT_EQ(ListedPorts(), 201U);
  }
}

// No reading is without a foreign change, so the generation never stands still
// and the kernel marks each dump of several parts as interrupted.
TEST_F(NetworkLists, NeedNoPauseInForeignChanges) {
  AddForeignTable();
  int changes = 0;
  kernel_.Before([&](const std::string& call) {
    if (call == "Send" || call == "Receive") {
      const char* const what = changes++ % 2 == 0 ? "add" : "delete";
      ASSERT_TRUE(exec::RunNftCommand(
          what + std::string(" element inet other s { 7 }")));
    }
  });
  const exec::Reply reply = Call(PlanKind::kListNetworks);
  kernel_.Before([](const std::string& /*call*/) {});
  EXPECT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(ListedPorts(), 201U);
  EXPECT_GT(changes, 0);
}

// mountd must not take a half-changed table for the whole one.
TEST_F(NetworkLists, FailWhileTheTableItselfNeverStandsStill) {
  int changes = 0;
  kernel_.Before([&](const std::string& call) {
    if (call == "Send") {
      const std::string port = std::to_string(1 + changes++);
      ASSERT_TRUE(exec::RunNftCommand("add element inet mountd pm4 { tcp . " +
                                      port + " : 192.0.2.1 . " + port + " }"));
    }
  });
  const exec::Reply reply = Call(PlanKind::kListNetworks);
  kernel_.Before([](const std::string& /*call*/) {});
  EXPECT_EQ(CodeOf(reply), "Unavailable");
  EXPECT_GT(changes, 0);
}

}  // namespace
}  // namespace mountd::testing
