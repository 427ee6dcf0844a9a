// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The kernel's user and network namespaces, made by a user without privilege.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "agent/driver/namespaces/namespaces.h"
#include "tests/agent/driver/as_user.h"
#include "tests/support/killed_child.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::driver {
namespace {

using testing::AsUserSetup;
using testing::kDriverUser;
using testing::kFirstSubordinate;
using testing::RunAsUser;

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

ino_t InodeOf(const UniqueFd& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? status.st_ino : 0;
}

// Returns the entries of this process's fd table.
std::ptrdiff_t OpenFiles() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

// "" if this process has no child, not even one to wait for.
std::string ChildLeft() {
  return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD
             ? ""
             : "a child is left";
}

std::string TextOfError(const Error& error) { return ErrorText(error); }

bool LoopbackIsUp() {
  const UniqueFd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  return ::ioctl(any.get(), SIOCGIFFLAGS, &request) == 0 &&
         (request.ifr_flags & IFF_UP) != 0;
}

// Runs `body` in a child as 0 of both namespaces.
std::string InNamespaces(const NewNamespaces& made,
                         const std::function<std::string()>& body) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return "pipe2";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    std::string text = "setns";
    if (::setns(made.user.get(), CLONE_NEWUSER) == 0 &&
        (!made.network.valid() ||
         ::setns(made.network.get(), CLONE_NEWNET) == 0)) {
      text = body();
    }
    ::_exit(::write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
  }
  ::close(ends[1]);
  std::string text(4096, '\0');
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return text;
}

// Says what a task finds in its namespaces.
std::string Findings() {
  return std::to_string(::getuid()) + ":" + std::to_string(::getgid()) +
         (LoopbackIsUp() ? " up" : " down") + " ports " +
         ContentOf("/proc/sys/net/ipv4/ip_unprivileged_port_start") + "ping " +
         ContentOf("/proc/sys/net/ipv4/ping_group_range") + "maps" +
         ContentOf("/proc/self/uid_map") + ContentOf("/proc/self/gid_map") +
         ContentOf("/proc/self/setgroups");
}

std::string Squeezed(const std::string& text) {
  std::string squeezed;
  for (const char letter : text) {
    const bool space = letter == ' ' || letter == '\t' || letter == '\n';
    if (!space) {
      squeezed += letter;
    } else if (!squeezed.empty() && squeezed.back() != ' ') {
      squeezed += ' ';
    }
  }
  return squeezed;
}

class DriverNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string why = testing::WhyNotAsUser();
    if (!why.empty()) {
      GTEST_SKIP() << why;
    }
  }

  // Writes a program that stands in for newuidmap.
  std::string Tool(const std::string& script,
                   const std::string& name = "tool") const {
    const std::string path = directory_.File(name);
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n" << std::flush;
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    std::filesystem::permissions(std::filesystem::path(path).parent_path(),
                                 std::filesystem::perms(0755));
    return path;
  }

  // A file that the user may make.
  std::string Meeting(const std::string& name) const {
    const std::string path = directory_.File("meet");
    std::filesystem::create_directories(path);
    std::filesystem::permissions(path, std::filesystem::perms(0777));
    return path + "/" + name;
  }

  // Returns the error of MakeNamespaces with this program as newuidmap.
  std::string WithTool(
      const std::string& script,
      std::chrono::milliseconds patience = std::chrono::seconds(10)) const {
    IdSources sources;
    sources.newuidmap = Tool(script);
    return RunAsUser([&]() -> std::string {
      const std::ptrdiff_t before = OpenFiles();
      const auto maps = ChooseIdMaps(sources);
      if (!maps) {
        return TextOfError(maps.error());
      }
      std::string text;
      {
        const auto made =
            MakeNamespaces(*maps, WithNetwork::kYes, sources, patience);
        text = made ? "made" : TextOfError(made.error());
      }
      if (OpenFiles() != before) {
        text += "; a file is left open";
      }
      return text + ChildLeft();
    });
  }

 private:
  const TempDirectory directory_;
};

TEST_F(DriverNamespaces, AUserHasBothAndNoProcessKeepsThem) {
  EXPECT_EQ(
      RunAsUser([]() -> std::string {
        const auto maps = ChooseIdMaps();
        if (!maps || maps->one_id()) {
          return maps ? maps->one_id_reason : TextOfError(maps.error());
        }
        const auto made = MakeNamespaces(*maps, WithNetwork::kYes);
        if (!made) {
          return TextOfError(made.error());
        }
        const auto owner = UserNamespaceOf(made->network.get());
        if (!owner || InodeOf(*owner) != InodeOf(made->user) ||
            ::fcntl(owner->get(), F_GETFD) != FD_CLOEXEC) {
          return "another owner";
        }
        return ChildLeft() + Squeezed(InNamespaces(*made, Findings));
      }),
      "0:0 up ports 0 ping 0 65536 maps 0 65534 1 1 200000 65536 0 65534 1 1 "
      "200000 65536 allow ");
}

TEST_F(DriverNamespaces, WithoutUidmapTheUserHasOneId) {
  EXPECT_EQ(RunAsUser([]() -> std::string {
              IdSources sources;
              sources.newgidmap = "/nowhere/newgidmap";
              const auto maps = ChooseIdMaps(sources);
              if (!maps) {
                return TextOfError(maps.error());
              }
              const auto made =
                  MakeNamespaces(*maps, WithNetwork::kYes, sources);
              if (!made) {
                return TextOfError(made.error());
              }
              return maps->one_id_reason + ": " +
                     Squeezed(InNamespaces(*made, Findings));
            }),
            "/nowhere/newgidmap is missing; install the package uidmap: 0:0 up "
            "ports 0 ping 0 0 maps 0 65534 1 0 65534 1 deny ");
}

TEST_F(DriverNamespaces, WithoutRangesTheReasonNamesTheFile) {
  AsUserSetup setup;
  setup.subgid = "somebody:200000:65536\n";
  const std::string reason = RunAsUser(
      []() -> std::string {
        const auto maps = ChooseIdMaps();
        return maps ? maps->one_id_reason : TextOfError(maps.error());
      },
      setup);
  EXPECT_NE(reason.find("/etc/subgid"), std::string::npos) << reason;
}

TEST_F(DriverNamespaces, OverlappingRangesMakeOneMap) {
  AsUserSetup setup;
  setup.subuid =
      "nobody:200000:100\n65534:200050:100\nnobody:65530:10\nbad line\n";
  setup.subgid = "nobody:200000:65536\nother:200000:65536\n";
  EXPECT_EQ(RunAsUser(
                []() -> std::string {
                  const auto maps = ChooseIdMaps();
                  if (!maps) {
                    return TextOfError(maps.error());
                  }
                  const auto made = MakeNamespaces(*maps, WithNetwork::kNo);
                  if (!made) {
                    return TextOfError(made.error());
                  }
                  return Squeezed(InNamespaces(
                      *made, [] { return ContentOf("/proc/self/uid_map"); }));
                },
                setup),
            "0 65534 1 1 65530 4 5 65535 5 10 200000 150 ");
}

TEST_F(DriverNamespaces, RootIsRefused) {
  EXPECT_THAT(ChooseIdMaps(), IsErr(Code::kFailedPrecondition));
  IdMaps maps;
  maps.uids = maps.gids = MapOf(0, {});
  EXPECT_THAT(MakeNamespaces(maps, WithNetwork::kNo),
              IsErr(Code::kInvalidArgument));
}

TEST_F(DriverNamespaces, AToolThatRefusesIsQuoted) {
  EXPECT_EQ(WithTool("echo 'newuidmap: no such range' >&2; exit 1")
                .rfind("PermissionDenied: ", 0),
            0U);
  EXPECT_NE(WithTool("echo 'newuidmap: no such range' >&2; exit 1")
                .find("no such range"),
            std::string::npos);
}

TEST_F(DriverNamespaces, AToolThatLiesIsFound) {
  const std::string text = WithTool("exit 0");
  EXPECT_EQ(text.rfind("FailedPrecondition: ", 0), 0U) << text;
  EXPECT_EQ(text.find("left"), std::string::npos) << text;
}

TEST_F(DriverNamespaces, AToolThatHangsEndsAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text =
      WithTool("exec sleep 100", std::chrono::milliseconds(300));
  EXPECT_EQ(text.rfind("DeadlineExceeded: ", 0), 0U) << text;
  EXPECT_EQ(text.find("left"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Each tool waits until the other one runs.
TEST_F(DriverNamespaces, BothToolsRunAtOnce) {
  const auto meeting = [this](const char* own, const char* other,
                              const char* tool) {
    return Tool(std::string("echo >") + Meeting(own) + "\nwhile [ ! -e " +
                    Meeting(other) + " ]; do sleep 0.01; done\nexec " + tool +
                    " \"$@\"",
                own);
  };
  IdSources sources;
  sources.newuidmap = meeting("uid", "gid", "/usr/bin/newuidmap");
  sources.newgidmap = meeting("gid", "uid", "/usr/bin/newgidmap");
  EXPECT_EQ(RunAsUser([&]() -> std::string {
              const auto maps = ChooseIdMaps(sources);
              if (!maps) {
                return TextOfError(maps.error());
              }
              const auto made =
                  MakeNamespaces(*maps, WithNetwork::kYes, sources);
              return (made ? "made" : TextOfError(made.error())) + ChildLeft();
            }),
            "made");
}

TEST_F(DriverNamespaces, AKilledToolIsUnavailable) {
  EXPECT_EQ(WithTool("kill -9 $$").rfind("Unavailable: ", 0), 0U);
}

TEST_F(DriverNamespaces, AChildKilledBeforeItsMapsIsUnavailable) {
  const std::string text = WithTool("kill -9 $1; sleep 0.2");
  EXPECT_EQ(text.rfind("Unavailable: ", 0), 0U) << text;
  EXPECT_EQ(text.find("left"), std::string::npos) << text;
}

TEST_F(DriverNamespaces, AChildKilledAtOnceIsUnavailable) {
  EXPECT_EQ(
      RunAsUser([]() -> std::string {
        const auto maps = ChooseIdMaps();
        if (!maps) {
          return TextOfError(maps.error());
        }
        const testing::KilledChild killed(testing::KilledChild::kAtOnce);
        const auto made = MakeNamespaces(*maps, WithNetwork::kYes);
        return (made ? "made" : std::string(CodeName(made.error().code))) +
               ChildLeft();
      }),
      "Unavailable");
}

TEST_F(DriverNamespaces, AProcessThatIgnoresItsChildrenHasThemToo) {
  EXPECT_EQ(RunAsUser([]() -> std::string {
              ::signal(SIGCHLD, SIG_IGN);
              const auto maps = ChooseIdMaps();
              if (!maps) {
                return TextOfError(maps.error());
              }
              const auto made = MakeNamespaces(*maps, WithNetwork::kYes);
              return made ? "" : TextOfError(made.error());
            }),
            "");
}

#ifndef MOUNTD_SANITIZED
// A sanitizer looks at an object's type through a pipe, and takes an object for
// another one where it can open no pipe.
//
// Each call that needs a file fails once, and nothing is left of any attempt.
TEST_F(DriverNamespaces, AtTheLimitOfFilesNothingIsLeft) {
  EXPECT_EQ(RunAsUser([]() -> std::string {
              const auto maps = ChooseIdMaps();
              if (!maps) {
                return TextOfError(maps.error());
              }
              const std::ptrdiff_t before = OpenFiles();
              const rlimit usual{1024, 1024};
              bool refused = false;
              for (rlim_t files = 3; files < 40; ++files) {
                const rlimit few{files, 1024};
                ::setrlimit(RLIMIT_NOFILE, &few);
                const auto made = MakeNamespaces(*maps, WithNetwork::kYes);
                ::setrlimit(RLIMIT_NOFILE, &usual);
                refused = refused || !made;
                if (made) {
                  break;
                }
                if (made.error().code != Code::kResourceExhausted ||
                    !ChildLeft().empty() || OpenFiles() != before) {
                  return std::to_string(files) + ": " +
                         TextOfError(made.error()) + ChildLeft();
                }
              }
              return refused ? "" : "no limit was met";
            }),
            "");
}
#endif

// A child that calls malloc(3) or any other function with a lock hangs here
// sooner or later.
TEST_F(DriverNamespaces, OtherThreadsMayHoldAnyLock) {
  EXPECT_EQ(RunAsUser([]() -> std::string {
              std::atomic<bool> over = false;
              std::vector<std::thread> threads;
              threads.reserve(3);
              for (int i = 0; i < 3; ++i) {
                threads.emplace_back([&over] {
                  while (!over) {
                    const auto bytes = std::make_unique<std::string>(300, 'x');
                    ::getuid();
                  }
                });
              }
              std::string text;
              for (int i = 0; i < 20 && text.empty(); ++i) {
                const auto maps = ChooseIdMaps();
                if (!maps) {
                  text = TextOfError(maps.error());
                  break;
                }
                const auto made = MakeNamespaces(*maps, WithNetwork::kYes);
                text = made ? "" : TextOfError(made.error());
              }
              over = true;
              for (std::thread& thread : threads) {
                thread.join();
              }
              return text + ChildLeft();
            }),
            "");
}

// The agent's other files would stay open in the child.
TEST_F(DriverNamespaces, TheChildHasNoFilesOfTheAgent) {
  const std::string text =
      WithTool("echo files=$(ls /proc/$1/fd | wc -l) >&2; exit 1");
  EXPECT_NE(text.find("files=1"), std::string::npos) << text;
}

TEST_F(DriverNamespaces, OnlyANetworkNamespaceHasAnOwnerToTell) {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd user(::open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(UserNamespaceOf(null.get()), IsErr(Code::kInvalidArgument));
  EXPECT_THAT(UserNamespaceOf(user.get()), IsErr(Code::kInvalidArgument));
  EXPECT_THAT(UserNamespaceOf(-1), IsErr(Code::kInvalidArgument));
  EXPECT_EQ(
      RunAsUser([]() -> std::string {
        const UniqueFd host(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
        const auto owner = UserNamespaceOf(host.get());
        // No task can join the namespace in which its driver is.
        return owner ? "" : std::string(CodeName(owner.error().code));
      }),
      CodeName(Code::kInvalidArgument));
}

}  // namespace
}  // namespace mountd::driver
