// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-task_logs [--quick] [--json FILE]: measures how fast a shim's
// pump moves a task's output, beside cat, and how fast a reader reads the
// files, beside tail -F.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/driver/logs/log_reader.h"
#include "agent/driver/shim/log_pump.h"
#include "bench/pipe.h"
#include "bench/report.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;

constexpr char kLogs[] = "/run/bench";
constexpr std::uint64_t kFileBytes = std::uint64_t{10} << 20U;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10U;
constexpr std::size_t kLineBytes = 128;

constexpr char kPump[] = "to files, shim";
constexpr char kCatToFile[] = "to a file, cat";
constexpr char kCatToPipe[] = "to a pipe, cat";
constexpr char kPumpLines[] = "to files, shim, lines";
constexpr char kCatLines[] = "to a pipe, cat, lines";
constexpr char kReader[] = "files, log reader";
constexpr char kTail[] = "files, tail -F";

// A task's output: so many bytes, in writes of so many.
struct Output {
  std::uint64_t bytes = 0;
  std::size_t write_bytes = kPieceBytes;
};

void WriteLines(int to, const Output& output) {
  std::string piece(output.write_bytes, 'x');
  for (std::size_t end = kLineBytes; end <= piece.size(); end += kLineBytes) {
    piece[end - 1] = '\n';
  }
  for (std::uint64_t written = 0; written < output.bytes;) {
    const ssize_t now = ::write(to, piece.data(), piece.size());
    if (now < 0 && errno != EINTR) {
      return;
    }
    written += static_cast<std::uint64_t>(now < 0 ? 0 : now);
  }
}

// Reads and forgets. Returns how many bytes came until the end, or `most`.
std::uint64_t ReadAway(int from, std::uint64_t most) {
  std::vector<char> buffer(kPieceBytes);
  std::uint64_t all = 0;
  while (all < most) {
    const ssize_t now = ::read(from, buffer.data(), buffer.size());
    if (now == 0 || (now < 0 && errno != EINTR)) {
      break;
    }
    all += static_cast<std::uint64_t>(now < 0 ? 0 : now);
  }
  return all;
}

Result<pid_t> Spawn(std::vector<std::string> words, int in, int out) {
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t pid = -1;
  const int error =
      ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? Result<pid_t>(pid)
                    : ErrnoError(error, "posix_spawnp", words[0]);
}

Result<void> Check(std::uint64_t bytes, std::uint64_t wanted) {
  return bytes == wanted ? Ok()
                         : Result<void>(MakeError(
                               Code::kInternal, "move", std::to_string(wanted),
                               "only " + std::to_string(bytes) + " bytes"));
}

std::uint64_t BytesOfFiles() {
  std::uint64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(kLogs)) {
    bytes += file.file_size();
  }
  return bytes;
}

void RemoveFiles() {
  fs::remove_all(kLogs);
  fs::create_directories(kLogs);
}

// A shim's loop, without its other fds. The files are more than the bytes need,
// so that a check can count the bytes.
Result<void> PumpToFiles(const Output& output) {
  shim::StreamSetup stream{shim::Sink::kFiles,
                           std::string(kLogs) + "/web.stdout", kFileBytes, 1000,
                           UniqueFd()};
  shim::LogPump pump(&stream);
  MOUNTD_ASSIGN(const int end, pump.OpenTasksEnd());
  UniqueFd task(::fcntl(end, F_DUPFD_CLOEXEC, 3));
  pump.CloseTasksEnd();
  std::thread writer([&task, &output] {
    WriteLines(task.get(), output);
    task.reset();
  });
  while (pump.WaitFd() >= 0) {
    pollfd fd = {pump.WaitFd(), pump.WaitEvents(), 0};
    ::poll(&fd, 1, -1);
    pump.Pump(0);
  }
  writer.join();
  return Check(BytesOfFiles(), output.bytes);
}

// cat's input is a pipe that a thread writes to.
Result<void> Cat(const Output& output, int out,
                 const std::function<Result<void>()>& meanwhile) {
  MOUNTD_ASSIGN(Pipe input, MakePipe());
  MOUNTD_ASSIGN(const pid_t cat, Spawn({"cat"}, input.out.get(), out));
  input.out.reset();
  std::thread writer([&input, &output] {
    WriteLines(input.in.get(), output);
    input.in.reset();
  });
  Result<void> done = meanwhile();
  writer.join();
  ::waitpid(cat, nullptr, 0);
  return done;
}

Result<void> CatToFile(const Output& output) {
  const std::string path = std::string(kLogs) + "/cat";
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  MOUNTD_TRY(Cat(output, file.get(), [] { return Ok(); }));
  return Check(BytesOfFiles(), output.bytes);
}

Result<void> CatToPipe(const Output& output) {
  MOUNTD_ASSIGN(const Pipe pipe, MakePipe());
  return Cat(output, pipe.in.get(), [&pipe, &output] {
    return Check(ReadAway(pipe.out.get(), output.bytes), output.bytes);
  });
}

Result<void> ReadByReader(const Output& output) {
  driver::LogRequest request;
  request.directories.logs = kLogs;
  request.task = "web";
  request.follow = true;
  MOUNTD_ASSIGN(const auto reader, driver::OpenLog(request));
  std::uint64_t all = 0;
  while (all < output.bytes) {
    MOUNTD_ASSIGN(const auto piece, reader->Read(std::chrono::seconds(10)));
    if (!piece || piece->empty()) {
      break;
    }
    all += piece->size();
  }
  return Check(all, output.bytes);
}

Result<void> ReadByTail(const Output& output) {
  std::vector<std::string> words = {"tail", "-q", "-n", "+1", "-F"};
  for (std::uint64_t number = 0; number * kFileBytes < output.bytes; ++number) {
    words.push_back(std::string(kLogs) + "/web.stdout." +
                    std::to_string(number));
  }
  MOUNTD_ASSIGN(Pipe pipe, MakePipe());
  MOUNTD_ASSIGN(const pid_t tail, Spawn(words, STDIN_FILENO, pipe.in.get()));
  pipe.in.reset();
  const std::uint64_t all = ReadAway(pipe.out.get(), output.bytes);
  ::kill(tail, SIGKILL);
  ::waitpid(tail, nullptr, 0);
  return Check(all, output.bytes);
}

// Prints rows of our own table: MB/s of each repetition.
class LogRows final : public benchmark::BenchmarkReporter {
 public:
  LogRows(Report& report, const std::map<std::string, Output>& outputs)
      : report_(report), outputs_(outputs) {}

  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Iteration && run.iterations > 0) {
        samples_[run.run_name.function_name].Add(
            static_cast<double>(outputs_.at(run.run_name.function_name).bytes) /
            1e6 * static_cast<double>(run.iterations) /
            run.real_accumulated_time);
      }
    }
  }
  void Finalize() override {
    for (const auto& [name, samples] : samples_) {
      const std::size_t bytes = outputs_.at(name).write_bytes;
      report_.Figures(name, std::to_string(bytes) + " B", samples.count(),
                      {{"MB/s", samples.Median()}});
    }
    report_.Ratio("task_logs.pump_vs_cat_to_pipe", Of(kPump) / Of(kCatToPipe),
                  0.6, true);
    report_.Ratio("task_logs.pump_vs_cat_to_pipe_lines",
                  Of(kPumpLines) / Of(kCatLines), 0, true);
    report_.Ratio("task_logs.pump_vs_cat_to_file", Of(kPump) / Of(kCatToFile),
                  0, true);
    report_.Ratio("task_logs.reader_vs_tail", Of(kReader) / Of(kTail), 0, true);
  }

 private:
  double Of(const char* name) { return samples_[name].Median(); }

  Report& report_;
  const std::map<std::string, Output>& outputs_;
  std::map<std::string, Samples> samples_;
};

class TaskLogs {
 public:
  TaskLogs(Report& report, bool quick)
      : report_(report),
        bytes_((quick ? std::uint64_t{8} : std::uint64_t{64}) << 20U),
        repetitions_(quick ? 5 : 15) {}

  Result<void> Measure() {
    // In memory, because a disk's time says nothing about a shim.
    if (::mount("tmpfs", "/run", "tmpfs", 0, nullptr) != 0) {
      return ErrnoError(errno, "mount", "/run");
    }
    const Output pieces{bytes_, kPieceBytes};
    // A program that writes each line alone, which is slower.
    const Output lines{bytes_ / 8, kLineBytes};
    Add(kPump, pieces, RemoveFiles, PumpToFiles);
    Add(kCatToFile, pieces, RemoveFiles, CatToFile);
    Add(kCatToPipe, pieces, RemoveFiles, CatToPipe);
    Add(kPumpLines, lines, RemoveFiles, PumpToFiles);
    Add(kCatLines, lines, RemoveFiles, CatToPipe);
    const auto fill = [this, pieces] {
      RemoveFiles();
      Keep(PumpToFiles(pieces));
    };
    Add(kReader, pieces, fill, ReadByReader);
    Add(kTail, pieces, fill, ReadByTail);
    std::vector<std::string> words = {
        "bench", "--benchmark_repetitions=" + std::to_string(repetitions_),
        // So that the contenders take turns.
        "--benchmark_enable_random_interleaving=true"};
    std::vector<char*> pointers;
    for (std::string& word : words) {
      pointers.push_back(word.data());
    }
    int count = static_cast<int>(pointers.size());
    benchmark::Initialize(&count, pointers.data());
    LogRows rows(report_, outputs_);
    benchmark::RunSpecifiedBenchmarks(&rows);
    return failed_ ? Result<void>(*failed_) : Ok();
  }

 private:
  void Keep(const Result<void>& done) {
    if (!done && !failed_) {
      failed_ = done.error();
    }
  }
  void Add(const char* name, const Output& output,
           const std::function<void()>& before,
           Result<void> (*move)(const Output&)) {
    outputs_[name] = output;
    const auto run = [this, output, before, move](benchmark::State& state) {
      for (auto _ : state) {
        state.PauseTiming();
        before();
        state.ResumeTiming();
        Keep(move(output));
        if (failed_) {
          state.SkipWithError("failed");
          break;
        }
      }
    };
    benchmark::RegisterBenchmark(name, run)->UseRealTime()->Iterations(1);
  }

  Report& report_;
  const std::uint64_t bytes_;
  const int repetitions_;
  std::map<std::string, Output> outputs_;
  std::optional<Error> failed_;
};

int MeasureTaskLogs(bool quick, const std::string& json) {
  std::signal(SIGPIPE, SIG_IGN);
  Report report;
  const Result<void> done = TaskLogs(report, quick).Measure();
  if (!done) {
    std::fprintf(stderr, "%s\n", done.error().Message().c_str());
    return 1;
  }
  return json.empty() || report.WriteJson(json) ? 0 : 1;
}

}  // namespace
}  // namespace mountd::bench

// The other benches' main needs mountd, and this bench has none.
int main(int argc, char** argv) {
  bool quick = false;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--quick] [--json FILE]\n", argv[0]);
      return 2;
    }
  }
  return mountd::bench::MeasureTaskLogs(quick, json);
}
