// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Somebody kills a program that the driver or the shim has begun, or a child of
// theirs, before a step: runc, newuidmap, newgidmap, skopeo, umoci, and the
// children that make namespaces, confine a program, mount the root file system
// or remove files. The same call is then right, and nothing is left.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/agent/driver/images/image_files.h"
#include "tests/agent/driver/oci/oci_kill_fixture.h"
#include "tests/agent/driver/oci/steps/tracer.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using mountd::testing::NumberOf;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{1000};
constexpr char kRunc[] = "/usr/sbin/runc";
constexpr char kDriverChild[] = "driver-child";
constexpr char kShim[] = "mountd-task-shim";
constexpr char kShimChild[] = "mountd-task-shim-child";

bool IsEachStepWanted() { return std::getenv("MOUNTD_EACH_STEP") != nullptr; }

using MakeTask = std::function<TaskConfig(const std::string& name)>;
// A call, and the words about it of the driver whose program was killed.
using Call = std::function<std::string(TaskDriver&, const TaskConfig&)>;

class OciTraced : public KillFixture {
 protected:
  void AsTracedUser(const std::function<void()>& body) {
    AsUser(body, [this] { tracer_.emplace(); });
  }
  OciDriverOptions WithRuntime() const {
    OciDriverOptions options = Options();
    options.runtime = runtime_;
    return options;
  }

  // Makes the call in a process of its own, and kills a program at the step.
  TracedSteps Traced(const TracedStep& step, const TaskConfig& config,
                     const Call& call) const;
  // Returns what the caller of the cut-off call was told. Expects "Ok" or an
  // error that is no word about the task or the machine.
  std::string ToldWithoutALie() const;

  struct Matrix {
    const char* program;
    MakeTask begin;
    Call call;
    // Looks at what a call that has succeeded leaves.
    std::function<void(TaskDriver&, const TaskConfig&)> done;
    // Makes the same call again, looks at what it leaves, and destroys the
    // task.
    std::function<void(TaskDriver&, const TaskConfig&)> end;
  };
  // Cuts the program off at some steps of each name; at each step with
  // MOUNTD_EACH_STEP, which the nightly run sets.
  void AtSteps(const Matrix& matrix);
  bool CutOff(const Matrix& matrix, const TracedStep& step);
  std::vector<TracedStep> StepsOf(const char* program,
                                  const TracedSteps& steps) const;

  // The tasks.
  MakeTask Unborn() const {
    return [this](const std::string& name) { return Counted(name); };
  }
  MakeTask Running() const {
    return [this](const std::string& name) {
      return Begin(*MakeWith(WithRuntime()), name);
    };
  }
  MakeTask OfAnImage() const;
  Matrix OfStart(const char* program, const MakeTask& begin) const;
  Matrix OfExec(const char* program) const;
  Matrix OfDestroy(const char* program) const;
  void WriteImage() const;

  void ExpectBegun(TaskDriver& driver, const TaskConfig& config) const;
  void ExpectStarted(TaskDriver& driver, const TaskConfig& config) const;
  void ExpectExec(TaskDriver& driver, const TaskConfig& config) const;
  void ExpectGone(TaskDriver& driver, const TaskConfig& config) const;

  std::string runtime_ = "crun";
  std::optional<Tracer> tracer_;
  int runs_ = 0;
};

template <typename T>
std::string Told(const Result<T>& result) {
  return result ? "Ok"
                : std::string(CodeName(result.error().code)) + " " +
                      ErrorText(result.error());
}
std::string Start(TaskDriver& driver, const TaskConfig& config) {
  return Told(driver.StartTask(config));
}
// crun waits for ever for a child that somebody has killed.
std::string Exec(TaskDriver& driver, const TaskConfig& config) {
  constexpr seconds kUntilCrunIsKilled{5};
  return Told(driver.ExecTask(config.id, {"echo", "told"}, kUntilCrunIsKilled));
}
std::string Destroy(TaskDriver& driver, const TaskConfig& config) {
  return Told(driver.DestroyTask(config.id, true));
}

TracedSteps OciTraced::Traced(const TracedStep& step, const TaskConfig& config,
                              const Call& call) const {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    writing.reset();
    char go = 0;
    static_cast<void>(::read(reading.get(), &go, 1));
    const auto driver = MakeWith(WithRuntime());
    std::ofstream(path("told")) << call(*driver, config) << std::flush;
    ::_exit(0);
  }
  EXPECT_TRUE(tracer_->Begin(child, ProcessesWith(kShim), step));
  writing.reset();
  TracedSteps steps = tracer_->End();
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return steps;
}

std::string OciTraced::ToldWithoutALie() const {
  static const std::set<std::string> kLies = {
      "NotFound",        "AlreadyExists", "PermissionDenied",
      "InvalidArgument", "NotSupported",  "Internal"};
  std::ifstream file(path("told"));
  const std::string told(std::istreambuf_iterator<char>(file), {});
  EXPECT_FALSE(told.empty());
  EXPECT_FALSE(kLies.contains(told.substr(0, told.find(' ')))) << told;
  return told;
}

std::vector<TracedStep> OciTraced::StepsOf(const char* program,
                                           const TracedSteps& steps) const {
  constexpr std::size_t kFew = 6;  // names of a program in the short run
  constexpr int kEach = 12;  // steps of a name, then each half as far again
  const std::size_t seed = NumberOf("MOUNTD_TEST_SEED", 1);
  std::vector<TracedStep> all;
  std::size_t number = seed;
  for (const auto& [name, count] : steps.calls) {
    if (!IsEachStepWanted()) {
      const std::array<int, 3> spread = {1, count, 1 + count / 2};
      all.push_back({program, name, spread.at(number++ % spread.size())});
      continue;
    }
    for (int nth = 1; nth < count; nth += nth < kEach ? 1 : nth / 2) {
      all.push_back({program, name, nth});
    }
    all.push_back({program, name, count});
  }
  if (!IsEachStepWanted() && all.size() > kFew) {
    const auto first = static_cast<std::ptrdiff_t>(seed * kFew % all.size());
    std::rotate(all.begin(), all.begin() + first, all.end());
    all.resize(kFew);
  }
  return all;
}

bool OciTraced::CutOff(const Matrix& matrix, const TracedStep& step) {
  const auto driver = MakeWith(WithRuntime());
  const TaskConfig config = matrix.begin("t" + std::to_string(++runs_));
  const bool killed = Traced(step, config, matrix.call).killed;
  SCOPED_TRACE(step.program + " before " + step.call + " " +
               std::to_string(step.nth));
  if (ToldWithoutALie() == "Ok") {
    matrix.done(*driver, config);
  }
  matrix.end(*driver, config);
  EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); })) << Leftovers();
  return killed;
}

void OciTraced::AtSteps(const Matrix& matrix) {
  const auto driver = MakeWith(WithRuntime());
  const TaskConfig config = matrix.begin("t" + std::to_string(++runs_));
  const TracedSteps steps =
      Traced({matrix.program, "none", 0}, config, matrix.call);
  matrix.end(*driver, config);
  std::string text;
  for (const auto& [name, count] : steps.calls) {
    text += " " + name + " " + std::to_string(count);
  }
  int cuts = 0;
  int reached = 0;
  for (const TracedStep& step : StepsOf(matrix.program, steps)) {
    reached += CutOff(matrix, step) ? 1 : 0;
    ++cuts;
    if (HasFailure()) {
      break;
    }
  }
  std::printf("steps of %s:%s; %d cuts, %d reached\n", matrix.program,
              text.c_str(), cuts, reached);
  // Programs with threads make a step more or less.
  EXPECT_GE(reached * 2, cuts) << matrix.program;
  EXPECT_GT(cuts, 0) << matrix.program;
}

// A task whose first process was killed before it became the program has ended.
void OciTraced::ExpectBegun(TaskDriver& driver,
                            const TaskConfig& config) const {
  bool has_ended = false;
  EXPECT_TRUE(Eventually([&] {
    const auto status = driver.InspectTask(config.id);
    has_ended = status && status->state == TaskState::kExited;
    return has_ended || Begun(config) >= 1;
  }));
  EXPECT_LE(Begun(config), 1);
  EXPECT_TRUE(!has_ended || !driver.WaitTask(config.id)->IsSuccess());
}

// A task that may have begun is never begun again.
void OciTraced::ExpectStarted(TaskDriver& driver,
                              const TaskConfig& config) const {
  EXPECT_THAT(driver.StartTask(config), IsOk());
  ExpectBegun(driver, config);
  ExpectGone(driver, config);
}

void OciTraced::ExpectExec(TaskDriver& driver, const TaskConfig& config) const {
  const auto done = driver.ExecTask(config.id, {"echo", "told"}, kPatience);
  ASSERT_THAT(done, IsOk());
  EXPECT_EQ(done->stdout_text, "told\n");
  EXPECT_TRUE(Eventually([&] {
    const std::string all = ProcessesOf(config);
    return std::count(all.begin(), all.end(), '\n') == 1;
  })) << ProcessesOf(config);
  EXPECT_EQ(Begun(config), 1);
  ExpectGone(driver, config);
}

void OciTraced::ExpectGone(TaskDriver& driver, const TaskConfig& config) const {
  const auto destroyed = driver.DestroyTask(config.id, true);
  EXPECT_TRUE(destroyed || destroyed.error().code == Code::kNotFound)
      << ErrorText(destroyed.error());
  EXPECT_THAT(driver.InspectTask(config.id), IsErr(Code::kNotFound));
}

void OciTraced::WriteImage() const {
  using test::TarMember;
  std::vector<TarMember> members;
  for (const char* made : {"usr", "proc", "sys", "dev", "etc"}) {
    members.push_back(test::TarDirectory(made));
  }
  members.push_back(test::TarDirectory("tmp", 01777));
  for (const char* name : {"bin", "lib", "lib64"}) {
    members.push_back(test::TarSymlink(name, std::string("usr/") + name));
  }
  TarMember home = test::TarDirectory("home/web", 0700);
  home.uid = 1000;
  home.gid = 1001;
  members.push_back(home);
  test::LayoutWriter layout(path("layout"));
  layout.Add("one", {test::Tar(members)}, "{}");
  layout.WriteIndex();
}

// Each task unpacks the image, because the one before was removed.
MakeTask OciTraced::OfAnImage() const {
  return [this](const std::string& name) {
    EXPECT_THAT(RemoveUnusedImages(WithRuntime()), IsOk());
    for (const char* directory : {"state/images/work", "state/images/names"}) {
      EXPECT_TRUE(!fs::exists(path(directory)) || fs::is_empty(path(directory)))
          << directory;
    }
    TaskConfig config = Counted(name);
    config.image = "oci:" + path("layout") + ":one";
    return config;
  };
}

OciTraced::Matrix OciTraced::OfStart(const char* program,
                                     const MakeTask& begin) const {
  return {
      program, begin, Start,
      [this](auto& driver, const auto& config) { ExpectBegun(driver, config); },
      [this](auto& driver, const auto& config) {
        ExpectStarted(driver, config);
      }};
}

OciTraced::Matrix OciTraced::OfExec(const char* program) const {
  return {
      program, Running(), Exec, [](auto&, const auto&) {},
      [this](auto& driver, const auto& config) { ExpectExec(driver, config); }};
}

OciTraced::Matrix OciTraced::OfDestroy(const char* program) const {
  return {
      program, Running(), Destroy,
      [this](auto&, const auto&) {
        EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); }))
            << Leftovers();
      },
      [this](auto& driver, const auto& config) { ExpectGone(driver, config); }};
}

class OciTracedRunc : public OciTraced {
 protected:
  void SetUp() override {
    OciTraced::SetUp();
    if (!IsSkipped() && ::access(kRunc, X_OK) != 0) {
      GTEST_SKIP() << "runc is not installed";
    }
    runtime_ = kRunc;
  }
};

TEST_F(OciTracedRunc, DuringStart) {
  AsTracedUser([this] {
    for (const char* program : {"runc", "runc-init", kShimChild}) {
      AtSteps(OfStart(program, Unborn()));
    }
  });
}

TEST_F(OciTracedRunc, DuringExec) {
  AsTracedUser([this] {
    for (const char* program : {"runc", "runc-init"}) {
      AtSteps(OfExec(program));
    }
  });
}

TEST_F(OciTracedRunc, DuringDestroy) {
  AsTracedUser([this] { AtSteps(OfDestroy("runc")); });
}

TEST_F(OciTraced, TheChildrenOfTheShimAndOfCrun) {
  AsTracedUser([this] {
    for (const char* program : {kShimChild, "crun-child"}) {
      AtSteps(OfStart(program, Unborn()));
      AtSteps(OfExec(program));
    }
  });
}

TEST_F(OciTraced, TheDriversHelpersDuringStart) {
  for (const char* program : {"/usr/bin/skopeo", "/usr/bin/umoci"}) {
    if (::access(program, X_OK) != 0) {
      GTEST_SKIP() << program << " is not installed";
    }
  }
  WriteImage();
  AsTracedUser([this] {
    for (const char* program :
         {"newuidmap", "newgidmap", "skopeo", "umoci", kDriverChild}) {
      AtSteps(OfStart(program, OfAnImage()));
    }
  });
}

TEST_F(OciTraced, TheDriversHelpersDuringDestroy) {
  AsTracedUser([this] {
    for (const char* program : {"newuidmap", "newgidmap", kDriverChild}) {
      AtSteps(OfDestroy(program));
    }
  });
}

}  // namespace
}  // namespace mountd::driver::testing
