// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The driver of this release serves a shim of an older one. The shim here knows
// nothing but the bytes of golden/shim-1.txt.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <list>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/fd_message.h"
#include "mountd/base/unique_fd.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Line {
  std::string kind;  // ">", "<" or "<+"
  std::string bytes;
};
using Dialogue = std::vector<Line>;

std::string BytesOf(const std::string& hex) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    bytes.push_back(
        static_cast<char>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  }
  return bytes;
}

std::string HexOf(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x",
                  static_cast<unsigned char>(byte));
    hex += digits.data();
  }
  return hex;
}

std::map<std::string, Dialogue> ReadDialogues() {
  std::map<std::string, Dialogue> dialogues;
  std::ifstream file(MOUNTD_SHIM_GOLDEN);
  std::string call;
  for (std::string text; std::getline(file, text);) {
    std::istringstream words(text);
    std::string kind;
    words >> kind;
    if (kind == "call") {
      words >> call;
    } else if (kind.starts_with('>') || kind.starts_with('<')) {
      std::string hex;
      for (std::string word; words >> word;) {
        hex += word;
      }
      dialogues[call].push_back({kind, BytesOf(hex)});
    }
  }
  return dialogues;
}

// Owns the socket of a task, and plays one dialogue in a thread.
class OlderShim {
 public:
  explicit OlderShim(std::string path) : path_(std::move(path)) {
    ::unlink(path_.c_str());
    listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(&address.sun_path[0], sizeof(address.sun_path) - 1);
    const auto* generic =
        static_cast<const sockaddr*>(static_cast<const void*>(&address));
    EXPECT_EQ(::bind(listener_.get(), generic, sizeof(address)), 0) << path_;
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    self_.reset(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  }

  // Makes the call, and returns the first thing that the driver did otherwise;
  // "" if there is none.
  template <typename Call>
  std::string Play(const Dialogue& dialogue, Call call) {
    std::string wrong;
    {
      std::jthread shim(
          [&](const std::stop_token& stop) { wrong = Answer(dialogue, stop); });
      call();
    }
    return wrong;
  }

 private:
  std::string Answer(const Dialogue& dialogue, const std::stop_token& stop) {
    std::list<UniqueFd> connections;
    std::size_t at = 0;
    while (at < dialogue.size()) {
      std::vector<pollfd> waiting = {{listener_.get(), POLLIN, 0}};
      for (const UniqueFd& connection : connections) {
        waiting.push_back({connection.get(), POLLIN, 0});
      }
      if (::poll(waiting.data(), waiting.size(), 10) == 0 &&
          stop.stop_requested()) {
        return "no line " + std::to_string(at);
      }
      if (waiting.front().revents != 0) {
        connections.emplace_back(
            ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      }
      for (std::size_t i = 1; i < waiting.size(); ++i) {
        if (waiting[i].revents == 0) {
          continue;
        }
        const std::string got = Take(waiting[i].fd);
        if (got.empty()) {
          connections.remove_if([&](const UniqueFd& connection) {
            return connection.get() == waiting[i].fd;
          });
        } else if (got != dialogue[at].bytes) {
          return "line " + std::to_string(at) + " is " + HexOf(got);
        } else {
          at = Say(waiting[i].fd, dialogue, at + 1);
        }
      }
    }
    return "";
  }

  // Takes a message. A process of exec says a word on its standard output.
  static std::string Take(int socket) {
    std::array<std::byte, 4096> bytes{};
    const auto received = ReceiveWithFds(socket, bytes, kMaxMessageFds);
    if (!received) {
      return "";
    }
    if (received->fds.size() == 4) {
      EXPECT_EQ(::write(received->fds[2].get(), "told\n", 5), 5);
    }
    std::string text(received->size, '\0');
    std::memcpy(text.data(), bytes.data(), received->size);
    return text;
  }

  std::size_t Say(int socket, const Dialogue& dialogue, std::size_t at) const {
    for (; at < dialogue.size() && dialogue[at].kind != ">"; ++at) {
      const int pidfd = self_.get();
      const std::size_t fds = dialogue[at].kind == "<+" ? 1 : 0;
      EXPECT_TRUE(SendWithFds(socket,
                              std::as_bytes(std::span(dialogue[at].bytes)),
                              std::span(&pidfd, fds)));
    }
    return at;
  }

  const std::string path_;
  UniqueFd listener_;
  UniqueFd self_;
};

class OciOlderShim : public OciFixture {
 protected:
  // A task whose shim and processes are gone, so that another shim can come.
  TaskConfig Orphan(TaskDriver& driver) const {
    TaskConfig config = Shell("older", "exec sleep 10000");
    EXPECT_THAT(driver.StartTask(config), IsOk());
    for (const pid_t shim : ProcessesWith(MOUNTD_TASK_SHIM)) {
      ::kill(shim, SIGKILL);
    }
    std::ofstream(CgroupOf(config.id) + "/cgroup.kill") << "1" << std::flush;
    EXPECT_TRUE(Eventually([&] {
      const auto status = driver.InspectTask(config.id);
      return status && status->state == TaskState::kExited;
    }));
    return config;
  }
};

TEST_F(OciOlderShim, HearsTheBytesOfItsRelease) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Orphan(*driver);
    const std::string id = config.id;
    auto lines = ReadDialogues();
    ASSERT_EQ(lines.size(), 7U);
    OlderShim shim(TaskDirectory(id) + "/shim.sock");
    EXPECT_EQ(shim.Play(lines["Inspect"],
                        [&] {
                          const auto status = driver->InspectTask(id);
                          ASSERT_THAT(status, IsOk());
                          EXPECT_EQ(status->state, TaskState::kRunning);
                        }),
              "");
    EXPECT_EQ(
        shim.Play(
            lines["Signal"],
            [&] { EXPECT_THAT(driver->SignalTask(id, "SIGUSR1"), IsOk()); }),
        "");
    EXPECT_EQ(shim.Play(lines["SignalOfAnEndedTask"],
                        [&] {
                          EXPECT_THAT(driver->SignalTask(id, "SIGUSR1"),
                                      IsErrOf(Code::kNotFound, "gone"));
                        }),
              "");
    EXPECT_EQ(shim.Play(lines["Exec"],
                        [&] {
                          const auto done =
                              driver->ExecTask(id, {"echo"}, seconds(1000));
                          ASSERT_THAT(done, IsOk());
                          EXPECT_EQ(TextOf(done->result), "code 3");
                          EXPECT_EQ(done->stdout_text, "told\n");
                        }),
              "");
    EXPECT_EQ(shim.Play(lines["Stop"],
                        [&] {
                          EXPECT_THAT(
                              driver->StopTask(id, milliseconds(5), "SIGTERM"),
                              IsOk());
                        }),
              "");
    EXPECT_EQ(shim.Play(lines["Wait"],
                        [&] {
                          const auto result = driver->WaitTask(id);
                          EXPECT_EQ(TextOf(result), "signal 9");
                          EXPECT_TRUE(result->oom_killed);
                        }),
              "");
    EXPECT_EQ(
        shim.Play(lines["Destroy"],
                  [&] { EXPECT_THAT(driver->DestroyTask(id, false), IsOk()); }),
        "");
    EXPECT_EQ(Leftovers(), "");
  });
}

// The record that an older shim has left is the answer that it would give.
TEST_F(OciOlderShim, LeavesARecordThatThisReleaseReads) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const auto lines = ReadDialogues();
    const std::string wait = lines.at("Wait").back().bytes;
    const std::string failed = lines.at("SignalOfAnEndedTask").back().bytes;
    for (const std::string& record : {wait, failed}) {
      const TaskConfig config = Orphan(*driver);
      std::ofstream(TaskDirectory(config.id) + "/exit") << record << std::flush;
      const std::string text = TextOf(driver->WaitTask(config.id));
      if (record == wait) {
        EXPECT_EQ(text, "signal 9");
      } else {
        EXPECT_NE(text.find("gone"), std::string::npos) << text;
      }
      EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kExited);
      EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
      EXPECT_EQ(Leftovers(), "");
    }
  });
}

}  // namespace
}  // namespace mountd::driver::testing
