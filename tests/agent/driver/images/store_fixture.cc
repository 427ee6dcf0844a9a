// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/images/store_fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "agent/driver/images/confined.h"
#include "mountd/base/unique_fd.h"
#include "tests/support/matchers.h"

namespace mountd::driver::test {
namespace {

bool BecomeUser() {
  return ::setgroups(0, nullptr) == 0 &&
         ::setresgid(kUser, kUser, kUser) == 0 &&
         ::setresuid(kUser, kUser, kUser) == 0 &&
         // A change of ids takes this away, and with it /proc/self.
         ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

[[noreturn]] void HoldNamespace(int ready) {
  if (!BecomeUser() || ::unshare(CLONE_NEWUSER) != 0 ||
      ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::write(ready, "x", 1) != 1) {
    ::_exit(1);
  }
  for (;;) {
    ::pause();
  }
}

// Makes the namespace while the program is root, and drops root then.
class Namespace : public ::testing::Environment {
 public:
  void SetUp() override {
    if (::geteuid() != 0) {
      return;
    }
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    holder_ = ::fork();
    if (holder_ == 0) {
      HoldNamespace(ready[1]);
    }
    ::close(ready[1]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1) << "no user namespace";
    ::close(ready[0]);
    const std::string process = "/proc/" + std::to_string(holder_);
    const std::string map = "0 " + std::to_string(kUser) + " 1\n1 " +
                            std::to_string(kFirstSubid) + " " +
                            std::to_string(kSubids) + "\n";
    WriteFile(process + "/uid_map", map);
    WriteFile(process + "/gid_map", map);
    ASSERT_EQ(ReadWholeFile(process + "/uid_map").empty(), false);
    fd_.reset(::open((process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(BecomeUser());
  }
  void TearDown() override {
    if (holder_ > 0) {
      ::kill(holder_, SIGKILL);
      ::waitpid(holder_, nullptr, 0);
    }
  }
  int fd() const { return fd_.get(); }

 private:
  pid_t holder_ = -1;
  UniqueFd fd_;
};

// GoogleTest owns it.
Namespace* const kTheNamespace =
    static_cast<Namespace*>(::testing::AddGlobalTestEnvironment(new Namespace));

}  // namespace

int TaskNamespace() { return kTheNamespace->fd(); }

void StoreTest::SetUp() {
  if (TaskNamespace() < 0) {
    GTEST_SKIP() << "needs root, to map a user's ids";
  }
}

void StoreTest::TearDown() {
  if (TaskNamespace() >= 0) {
    // The files of other ids, which this user cannot remove.
    InNamespace({"/usr/bin/rm", "-rf", File("images")});
  }
}

ImageStoreOptions StoreTest::Options() const {
  ImageStoreOptions options;
  options.directory = File("images");
  options.timeout = std::chrono::seconds(120);
  return options;
}

ImageStore StoreTest::StoreWith(const ImageStoreOptions& options) const {
  Result<ImageStore> store = ImageStore::Open(options);
  EXPECT_THAT(store, IsOk());
  return std::move(store).value();
}

Result<Image> StoreTest::Prepare(const std::string& reference) const {
  return PrepareWith(Options(), reference);
}

Result<Image> StoreTest::PrepareWith(const ImageStoreOptions& options,
                                     const std::string& reference) const {
  MOUNTD_ASSIGN(const ImageReference parsed, ParseImageReference(reference));
  return StoreWith(options).Prepare(parsed, TaskNamespace());
}

std::string StoreTest::InNamespace(
    const std::vector<std::string>& command) const {
  std::string out;
  Confinement confinement;
  confinement.user_namespace = TaskNamespace();
  confinement.writable = File(".");
  confinement.max_file_bytes = std::uint64_t{1} << 30U;
  Supervision supervision;
  supervision.deadline = Supervision::Clock::now() + std::chrono::seconds(60);
  supervision.output = [&out](std::string_view bytes) {
    out += bytes;
    return true;
  };
  const Result<ProgramEnd> end = RunConfined(confinement, command, supervision);
  EXPECT_THAT(end, IsOk());
  return out;
}

std::string StoreTest::FactsOf(const std::string& path) const {
  std::string facts =
      InNamespace({"/usr/bin/stat", "--format=%u:%g %f %F", path});
  if (!facts.empty()) {
    facts.pop_back();
  }
  return facts;
}

std::vector<std::string> StoreTest::Work() const {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(File("images/work"))) {
    names.push_back(entry.path().filename());
  }
  return names;
}

std::string StoreTest::Wrapper(const std::string& name,
                               const std::string& lines,
                               const std::string& program) const {
  const std::string path = File(name);
  WriteFile(path, "#!/bin/sh\n" + lines + "\nexec " + program + " \"$@\"\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

}  // namespace mountd::driver::test
