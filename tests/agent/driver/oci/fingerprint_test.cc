// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The health of a driver whose machine loses a program and gets it back.
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <variant>

#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kNewuidmap[] = "/usr/bin/newuidmap";

// A process of root in the mount namespace of the test. It covers newuidmap, or
// uncovers it, and answers each command.
class Coverer {
 public:
  void Begin(const std::string& with) {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_.data()), 0);
    if (::fork() == 0) {
      ::close(ends_[0]);
      char command = 0;
      while (::read(ends_[1], &command, 1) == 1) {
        const int done = command == 'c' ? ::mount(with.c_str(), kNewuidmap,
                                                  nullptr, MS_BIND, nullptr)
                                        : ::umount2(kNewuidmap, MNT_DETACH);
        const char answer = done == 0 ? 'y' : 'n';
        if (::write(ends_[1], &answer, 1) != 1) {
          break;
        }
      }
      ::_exit(0);
    }
    ::close(ends_[1]);
  }
  void Cover() const { Ask('c'); }
  void Uncover() const { Ask('u'); }

 private:
  void Ask(char command) const {
    char answer = 0;
    EXPECT_EQ(::write(ends_[0], &command, 1), 1);
    EXPECT_EQ(::read(ends_[0], &answer, 1), 1);
    EXPECT_EQ(answer, 'y');
  }
  std::array<int, 2> ends_{};
};

class OciFingerprint : public OciFixture {
 protected:
  // The driver stays, and each stream begins with what holds now.
  static Fingerprint Now(TaskDriver& driver) {
    const auto stream = driver.Fingerprints();
    EXPECT_THAT(stream, IsOk());
    const auto first = (*stream)->Next();
    return first && *first ? **first : Fingerprint();
  }
  static void ExpectHealthy(const Fingerprint& fingerprint) {
    EXPECT_EQ(fingerprint.health, Health::kHealthy) << fingerprint.description;
    EXPECT_TRUE(fingerprint.attributes.contains("driver.oci.runtime.version"));
    EXPECT_TRUE(
        std::get<bool>(fingerprint.attributes.at("driver.oci.user_namespace")));
  }
};

// A naive driver remembers the first answer of the runtime for ever.
TEST_F(OciFingerprint, ARuntimeThatGoesAndComesBack) {
  AsUser([this] {
    OciDriverOptions options = Options();
    fs::create_directory(path("bin"));
    options.runtime = path("bin/crun");
    const auto driver = MakeWith(options);
    const Fingerprint none = Now(*driver);
    EXPECT_EQ(none.health, Health::kUndetected);
    EXPECT_FALSE(none.attributes.contains("driver.oci.runtime.version"));
    EXPECT_NE(none.description.find("the OCI runtime is missing"),
              std::string::npos)
        << none.description;
    for (int round = 0; round < 2; ++round) {
      fs::create_symlink("/usr/bin/crun", options.runtime);
      const Fingerprint there = Now(*driver);
      ExpectHealthy(there);
      EXPECT_EQ(there, Now(*driver));
      const TaskConfig config = Shell("task", "exit 3");
      ASSERT_THAT(driver->StartTask(config), IsOk());
      EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 3");
      EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
      fs::remove(options.runtime);
      EXPECT_EQ(Now(*driver), none);
      EXPECT_FALSE(driver->StartTask(config));
      EXPECT_EQ(Leftovers(), "");
    }
  });
}

// A naive driver remembers its first user namespace.
TEST_F(OciFingerprint, AToolOfNamespacesThatGoesAndComesBack) {
  Coverer newuidmap;
  AsUser(
      [&] {
        const auto driver = MakeDriver();
        ExpectHealthy(Now(*driver));
        for (int round = 0; round < 2; ++round) {
          newuidmap.Cover();
          const Fingerprint gone = Now(*driver);
          EXPECT_EQ(gone.health, Health::kUnhealthy) << gone.description;
          EXPECT_NE(gone.description.find("no user namespace can be made"),
                    std::string::npos)
              << gone.description;
          EXPECT_NE(gone.description.find("newuidmap"), std::string::npos)
              << gone.description;
          EXPECT_FALSE(
              std::get<bool>(gone.attributes.at("driver.oci.user_namespace")));
          newuidmap.Uncover();
          ExpectHealthy(Now(*driver));
        }
        EXPECT_EQ(Leftovers(), "");
      },
      [&] { newuidmap.Begin("/dev/null"); });
}

}  // namespace
}  // namespace mountd::driver::testing
