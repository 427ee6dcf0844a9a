// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Tasks of OCI images.
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "tests/agent/driver/images/image_files.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using std::chrono::seconds;

class OciImage : public OciFixture {
 protected:
  void SetUp() override {
    OciFixture::SetUp();
    for (const char* program : {"/usr/bin/skopeo", "/usr/bin/umoci"}) {
      if (!IsSkipped() && ::access(program, X_OK) != 0) {
        GTEST_SKIP() << program << " is not installed";
      }
    }
  }

  // An image whose files belong to its own user, with this "config".
  void WriteImage(const std::string& run) const {
    using test::TarMember;
    std::vector<TarMember> members;
    for (const char* made : {"usr", "proc", "sys", "dev", "etc"}) {
      members.push_back(test::TarDirectory(made));
    }
    for (const char* name : {"bin", "lib", "lib64"}) {
      members.push_back(test::TarSymlink(name, std::string("usr/") + name));
    }
    TarMember home = test::TarDirectory("home/web", 0700);
    home.uid = 1000;
    home.gid = 1001;
    members.push_back(home);
    members.push_back(
        test::TarFile("etc/passwd", "web:x:1000:1001::/home/web:/bin/sh\n"));
    test::LayoutWriter layout(path("layout"));
    layout.Add("one", {test::Tar(members)}, run);
    layout.WriteIndex();
  }
};

TEST_F(OciImage, SaysHowItsTaskRuns) {
  WriteImage(
      R"({"Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["trap 'echo usr1; exit 9' USR1; id -u; id -g; pwd; echo $A $B; )"
      R"(echo mine >new; ls -l new | cut -c1-10; while :; do sleep 0.01; done"],
    "User": "web", "Env": ["A=image", "B=image"],
    "WorkingDir": "/home/web", "StopSignal": "SIGUSR1"})");
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("image", "");
    config.image = "oci:" + path("layout") + ":one";
    config.entrypoint = "";
    config.command = {};
    SetEnvironment("B", "task", config.environment);
    ASSERT_THAT(driver->StartTask(config), IsOk());
    const std::string text = "1000\n1001\n/home/web\nimage task\n-rw-r--r--\n";
    EXPECT_TRUE(Eventually([&] { return LogOf("image") == text; }))
        << LogOf("image");
    EXPECT_THAT(driver->StopTask(config.id, seconds(1000), ""), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 9");
    EXPECT_EQ(LogOf("image"), text + "usr1\n");
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
    // Another task of the image has an upper directory of its own, and may say
    // all that the image says.
    config.id = "web/image/00000002";
    config.user = "0";
    config.command = {"ls /home/web; id -u; pwd"};
    config.working_directory = "/etc";
    config.read_only_root = true;
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_EQ(LogOf("image").substr(text.size() + 5), "0\n/etc\n");
    // An image stays as long as a task has it, and until somebody asks.
    ASSERT_OK_AND_ASSIGN(const auto held, RemoveUnusedImages(Options()));
    EXPECT_EQ(held.size(), 0U);
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
    ASSERT_OK_AND_ASSIGN(const auto removed, RemoveUnusedImages(Options()));
    EXPECT_EQ(removed.size(), 1U);
  });
}

// "config" of an image with these elements of Env.
std::string RunWith(const std::string& variables) {
  return R"({"Entrypoint": ["/bin/sh", "-c", "env | grep -c ^V; exit 0"],)"
         R"("Env": [)" +
         variables + "]}";
}

std::string Variables(int count, const std::string& value) {
  std::string text;
  for (int n = 0; n < count; ++n) {
    text += (n == 0 ? "\"V" : ",\"V") + std::to_string(n) + "=" + value + "\"";
  }
  return text;
}

TEST_F(OciImage, AnEnvironmentOfTenThousandVariablesIsTheTasks) {
  WriteImage(RunWith(Variables(10'000, "x") + R"(,"V0=again","W=a=b=")"));
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("many", "");
    config.image = "oci:" + path("layout") + ":one";
    config.entrypoint = "";
    config.command = {};
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_EQ(LogOf("many"), "10000\n");
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// A naive driver gives the kernel these, which refuses some, cuts others at
// their NUL, and takes the rest for the variables of the runtime itself.
TEST_F(OciImage, AnEnvironmentThatNoProcessCanHaveIsRefused) {
  const std::string odd[] = {Variables(70'000, "x"),
                             Variables(1, std::string(200'000, 'x')),
                             Variables(30, std::string(120'000, 'x')),
                             R"("LD_PRELOAD")",
                             R"("A\u0000B=1")",
                             R"("A=1\u0000LD_PRELOAD=/evil")",
                             R"("=x")",
                             R"("")",
                             "\"A=\xff\xfe\"",
                             R"(["A=1"])",
                             "1e999"};
  AsUser([this, &odd] {
    const auto driver = MakeDriver();
    for (const std::string& variables : odd) {
      fs::remove_all(path("layout"));
      WriteImage(RunWith(variables));
      TaskConfig config = Shell("odd", "");
      config.image = "oci:" + path("layout") + ":one";
      config.entrypoint = "";
      config.command = {};
      const auto started = driver->StartTask(config);
      if (started) {
        // The kernel alone knows how much a process may have in all.
        EXPECT_NE(TextOf(driver->WaitTask(config.id)), "code 0");
        EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
      } else {
        EXPECT_THAT(started, IsErr(Code::kInvalidArgument))
            << variables.substr(0, 40);
      }
      EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); }))
          << Leftovers();
    }
  });
}

}  // namespace
}  // namespace mountd::driver::testing
