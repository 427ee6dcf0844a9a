// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/shim.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string_view>
#include <utility>

#include "agent/driver/protocol/task_files.h"
#include "agent/driver/shim/family.h"
#include "mountd/base/number.h"
#include "mountd/base/write_all.h"

namespace mountd::shim {
namespace {

constexpr int kBacklog = 64;
// The exit record fits into these bytes, which the shim reserves at its start.
constexpr off_t kReservedBytes = 4096;

// Returns the first bytes of a file; "" if it cannot be read.
std::string Head(int directory, const char* name) {
  const UniqueFd file(::openat(directory, name, O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> buffer{};
  const ssize_t got =
      file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

}  // namespace

Milliseconds MonotonicNow() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return Milliseconds{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

Message ExitedMessage(int status) {
  Message message(Kind::kExited);
  if (WIFSIGNALED(status)) {
    message.Add(Tag::kExitSignal, static_cast<std::uint64_t>(WTERMSIG(status)));
  } else {
    message.Add(Tag::kExitCode,
                static_cast<std::uint64_t>(WEXITSTATUS(status)));
  }
  return message;
}

bool EndedBySigkill(int status) {
  constexpr int kCodeOfShell = 128 + SIGKILL;
  return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                             : WEXITSTATUS(status) == kCodeOfShell;
}

Shim::Shim(Setup setup)
    : setup_(std::move(setup)),
      output_(&setup_.standard_output),
      error_(&setup_.standard_error) {}

Result<void> Shim::Run() {
  if (const auto begun = Begin(); !begun) {
    GiveUp(begun.error());
    return begun;
  }
  while (!is_done_) {
    WaitAndServe();
  }
  return Ok();
}

Result<void> Shim::Begin() {
  if (setup_.connection.valid()) {
    connections_.emplace_back().id = ++last_id_;
    connections_.back().socket = std::move(setup_.connection);
  }
  // The shim is the parent of every process that loses its own parent in this
  // task. SIGCHLD reports the end of a child. All other signals stay blocked,
  // because only kDelete may end a shim.
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  signals_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_.valid() || ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return ErrnoError(errno, "signalfd", setup_.container);
  }
  MOUNTD_TRY(Listen());
  new_exit_.reset(::openat(setup_.task_directory.get(), kNewExitFile,
                           O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                           0600));
  // Reserves room for the record, because the disk may be full at the task's
  // end.
  if (!new_exit_.valid() ||
      ::posix_fallocate(new_exit_.get(), 0, kReservedBytes) != 0) {
    return ErrnoError(errno, "open", "the new exit record");
  }
  oom_kills_before_ = OomKills();
  return StartCreate();
}

Result<void> Shim::Listen() {
  listener_.reset(
      ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string_view(kNewSocketFile)
      .copy(&address.sun_path[0], sizeof(address.sun_path) - 1);
  const auto* generic =
      static_cast<const sockaddr*>(static_cast<const void*>(&address));
  // A directory is for one start of a task. A socket or a record that is there
  // already is another shim's, so this shim leaves both alone.
  if (::faccessat(setup_.task_directory.get(), kExitFile, F_OK, 0) == 0) {
    return ErrnoError(EEXIST, "create", "the task", "has ended already");
  }
  // The working directory is the task's directory. The socket gets its name
  // only once it listens, because drivers take a refused connection for the
  // shim's end.
  const int directory = setup_.task_directory.get();
  if (!listener_.valid() ||
      ::bind(listener_.get(), generic, sizeof(address)) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0 ||
      ::renameat2(directory, kNewSocketFile, directory, kSocketFile,
                  RENAME_NOREPLACE) != 0) {
    return ErrnoError(errno, "bind", kSocketFile,
                      "the task has a shim already");
  }
  has_task_ = true;
  return Ok();
}

Result<void> Shim::StartCreate() {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  MOUNTD_ASSIGN(const int output, output_.OpenTasksEnd());
  MOUNTD_ASSIGN(const int error, error_.OpenTasksEnd());
  MOUNTD_ASSIGN(
      RuntimeRun run,
      StartRuntime(
          setup_, Place::kContainer,
          // A session keyring would count against the user's small quota of
          // keys.
          {"create", "--no-new-keyring", "--bundle", setup_.bundle,
           "--pid-file", setup_.directory + "/" + kPidFile, setup_.container},
          {null.get(), output, error}));
  programs_.push_back({Purpose::kCreate, std::move(run)});
  output_.CloseTasksEnd();
  error_.CloseTasksEnd();
  return Ok();
}

void Shim::WaitAndServe() {
  std::vector<pollfd> waiting = {{signals_.get(), POLLIN, 0},
                                 {listener_.get(), POLLIN, 0},
                                 {output_.WaitFd(), output_.WaitEvents(), 0},
                                 {error_.WaitFd(), error_.WaitEvents(), 0}};
  for (const Connection& connection : connections_) {
    waiting.push_back({connection.socket.get(), POLLIN, 0});
  }
  int timeout = -1;
  if (const std::optional<Milliseconds> wake = NextWake()) {
    timeout = static_cast<int>(
        std::clamp<Milliseconds>(*wake - MonotonicNow(), 0, 1 << 30));
  }
  if (::poll(waiting.data(), waiting.size(), timeout) < 0) {
    return;
  }
  PumpLogs();
  if (kill_at_ && *kill_at_ <= MonotonicNow()) {
    kill_at_.reset();
    KillTask();
  }
  KillHungDeletes();
  // Requests come before the ends of processes, so that a request finds the
  // state that its caller has seen.
  std::size_t place = 4;
  for (Connection& connection : connections_) {
    if (waiting.at(place++).revents != 0) {
      Serve(connection);
    }
  }
  if (waiting[1].revents != 0) {
    Accept();
  }
  if (waiting[0].revents != 0) {
    ReadSignals();
  }
  DropClosed();
}

void Shim::PumpLogs() {
  const Milliseconds now = MonotonicNow();
  output_.Pump(now);
  error_.Pump(now);
}

// Kills a runtime that hangs, for example because it waits for a disk. The
// container has ended by then, and the driver removes the runtime's state
// itself.
void Shim::KillHungDeletes() {
  if (!delete_until_ || *delete_until_ > MonotonicNow()) {
    return;
  }
  delete_until_.reset();
  has_delete_hung_ = true;
  for (const Program& program : programs_) {
    if (program.purpose == Purpose::kDelete ||
        program.purpose == Purpose::kCleanUp) {
      ::kill(program.run.pid, SIGKILL);
    }
  }
}

std::optional<Milliseconds> Shim::NextWake() const {
  std::optional<Milliseconds> first = kill_at_;
  if (delete_until_) {
    first = std::min(first.value_or(*delete_until_), *delete_until_);
  }
  for (const LogPump* pump : {&output_, &error_}) {
    if (const auto wake = pump->WakeAt()) {
      first = std::min(first.value_or(*wake), *wake);
    }
  }
  return first;
}

void Shim::ReadSignals() {
  signalfd_siginfo ignored{};
  while (::read(signals_.get(), &ignored, sizeof(ignored)) > 0) {
  }
  Reap();
}

// Looks at the programs first, because they say which other children are the
// task's. A child that ends before its program has ended stays a zombie, so
// its status is not lost and nobody else gets its pid.
void Shim::Reap() {
  int status = 0;
  for (auto program = programs_.begin(); program != programs_.end();) {
    if (::waitpid(program->run.pid, &status, WNOHANG) == program->run.pid) {
      Program ended = std::move(*program);
      program = programs_.erase(program);
      OnRunEnded(std::move(ended), status);
    } else {
      ++program;
    }
  }
  for (Exec& exec : execs_) {
    if (exec.pid > 0 && ::waitpid(exec.pid, &status, WNOHANG) == exec.pid) {
      OnExecEnded(exec, status);
    }
  }
  execs_.remove_if([](const Exec& exec) { return exec.pid == 0; });
  if (init_ > 0 && !exit_ && ::waitpid(init_, &status, WNOHANG) == init_) {
    OnInitEnded(status);
  }
  if (programs_.empty()) {
    ReapOrphans();
  }
}

void Shim::ReapOrphans() {
  if (std::exchange(has_failed_run_, false)) {
    KillStrays();
  }
  siginfo_t ended{};
  while (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         ended.si_pid != 0) {
    const pid_t pid = ended.si_pid;
    const bool is_the_tasks =
        (pid == init_ && !exit_) ||
        std::any_of(execs_.begin(), execs_.end(),
                    [&](const Exec& exec) { return exec.pid == pid; });
    if (is_the_tasks) {
      // The child ended after Reap looked at it.
      Reap();
      return;
    }
    ::waitpid(pid, nullptr, WNOHANG);
    ended = {};
  }
}

void Shim::OnRunEnded(Program program, int status) {
  has_failed_run_ = has_failed_run_ || status != 0;
  switch (program.purpose) {
    case Purpose::kCreate:
      OnCreateEnded(program.run, status);
      break;
    case Purpose::kStart:
      OnStartEnded(program.run, status);
      break;
    case Purpose::kExec:
      for (Exec& exec : execs_) {
        if (exec.id == program.exec) {
          OnExecMade(exec, program.run, status);
        }
      }
      break;
    case Purpose::kDelete:
      OnDeleteEnded(program.run, status);
      break;
    case Purpose::kCleanUp:
      GiveUp(*failure_);
      break;
  }
}

void Shim::OnCreateEnded(const RuntimeRun& run, int status) {
  if (status == 0) {
    auto adopted = Adopt(kPidFile);
    auto checked =
        adopted ? CheckCgroupOf(adopted->pid) : Result<void>(adopted.error());
    if (adopted) {
      init_pidfd_ = std::move(adopted->pidfd);
    }
    if (checked) {
      init_ = adopted->pid;
      state_ = State::kCreated;
      for (Connection& connection : connections_) {
        if (std::exchange(connection.awaits_created, false)) {
          AnswerStatus(connection);
        }
      }
      return;
    }
    failure_ = checked.error();
  } else {
    failure_ = RunError(run, status, "create");
  }
  // A runtime that was killed leaves its state and its processes.
  KillTask();
  KillStrays();
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto clean = StartRuntime(setup_, Place::kShim,
                            {"delete", "--force", setup_.container},
                            {null.get(), null.get(), null.get()});
  if (clean) {
    programs_.push_back({Purpose::kCleanUp, *std::move(clean)});
    delete_until_ = MonotonicNow() + kDeletePatienceMs;
  } else {
    GiveUp(*failure_);
  }
}

Result<Shim::Child> Shim::Adopt(const std::string& pid_file) const {
  const std::string text = Head(setup_.task_directory.get(), pid_file.c_str());
  const auto pid =
      ParseNumber<pid_t>(std::string_view(text).substr(0, text.find('\n')));
  siginfo_t ignored{};
  // A child that nobody has waited for keeps its pid, so the pidfd cannot be
  // another process's.
  if (!pid || *pid <= 1 ||
      ::waitid(P_PID, static_cast<id_t>(*pid), &ignored,
               WEXITED | WNOHANG | WNOWAIT) != 0) {
    return MakeError(Code::kInternal, "read", pid_file,
                     "has no pid of a child of the shim");
  }
  Child child{*pid,
              UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)))};
  if (!child.pidfd.valid()) {
    return ErrnoError(errno, "pidfd_open", setup_.container);
  }
  return child;
}

// Checks that the process is in the task's cgroup. A container outside of the
// cgroup has no limit, and nobody would find it once its shim is killed. The
// pids in cgroup.procs are those of this process's pid namespace.
Result<void> Shim::CheckCgroupOf(pid_t pid) const {
  if (!setup_.cgroup.valid()) {
    return Ok();
  }
  const std::string text = Head(setup_.cgroup.get(), "cgroup.procs");
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (ParseNumber<pid_t>(rest.substr(0, end)) == pid) {
      return Ok();
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return MakeError(Code::kFailedPrecondition, "create", "the OCI runtime",
                   "has put the container outside of the task's cgroup, so no "
                   "limit would hold");
}

std::string Shim::ExecFifoPath() const {
  return setup_.runtime_root + "/" + setup_.container + "/exec.fifo";
}

// Completes the start of a killed runtime if the task's program may have begun.
// False: the program has not begun.
bool Shim::FinishKilledStart() {
  const std::string path = ExecFifoPath();
  if (::access(path.c_str(), F_OK) != 0) {
    // runc removes the FIFO after it has let the task go.
    return true;
  }
  if (!writer_waits_) {
    return false;
  }
  // The first process of runc's container waits until the FIFO has a reader,
  // and nobody knows whether the killed runc was that reader. So the shim opens
  // the FIFO for reading, which does not disturb a program that has begun. The
  // shim keeps the FIFO open, because a writer without a reader gets SIGPIPE.
  exec_fifo_.reset(
      ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!exec_fifo_.valid()) {
    return false;
  }
  // runc takes a container with this file for one that is only created.
  ::unlink(path.c_str());
  return true;
}

void Shim::OnStartEnded(const RuntimeRun& run, int status) {
  is_starting_ = false;
  const bool is_started =
      status == 0 || (WIFSIGNALED(status) && FinishKilledStart());
  if (!is_started) {
    AnswerAll(&Connection::awaits_started,
              Message::Failed(RunError(run, status, "start")));
    return;
  }
  if (!writer_waits_) {
    exec_fifo_.reset();
  }
  if (state_ == State::kCreated) {
    state_ = State::kRunning;
  }
  AnswerAll(&Connection::awaits_started, Message(Kind::kDone));
}

void Shim::OnInitEnded(int status) {
  state_ = State::kExited;
  kill_at_.reset();
  PumpLogs();
  Message record = ExitedMessage(status);
  const bool by_oom = OomKills() > oom_kills_before_ && EndedBySigkill(status);
  record.Add(Tag::kOomKilled, std::uint64_t{by_oom ? 1U : 0U});
  // Callers get the status even if the write to the disk fails, because the
  // shim then has the only copy.
  IgnoreBecauseBestEffort(WriteExit(record));
  exit_ = record;
  AnswerAll(&Connection::awaits_exit, record);
  if (std::exchange(deletes_after_exit_, false)) {
    StartDelete();
  }
}

void Shim::OnDeleteEnded(const RuntimeRun& run, int status) {
  delete_until_.reset();
  if (status != 0 && !has_delete_hung_) {
    AnswerAll(&Connection::awaits_deleted,
              Message::Failed(RunError(run, status, "delete")));
    return;
  }
  ::unlinkat(setup_.task_directory.get(), kSocketFile, 0);
  AnswerAll(&Connection::awaits_deleted, Message(Kind::kDone));
  is_done_ = true;
}

// Ends without a container. Writes the reason to the exit record for drivers.
void Shim::GiveUp(Error error) {
  const Message failed = Message::Failed(error);
  if (has_task_) {
    IgnoreBecauseBestEffort(WriteExit(failed));
    ::unlinkat(setup_.task_directory.get(), kSocketFile, 0);
  }
  AnswerAll(&Connection::awaits_deleted, Message(Kind::kDone));
  for (Connection& connection : connections_) {
    Answer(connection, failed);
  }
  is_done_ = true;
}

void Shim::KillTask() {
  if (setup_.cgroup.valid()) {
    const UniqueFd kill(
        ::openat(setup_.cgroup.get(), "cgroup.kill", O_WRONLY | O_CLOEXEC));
    if (kill.valid()) {
      IgnoreBecauseBestEffort(WriteAll(kill.get(), "1", "cgroup.kill"));
    }
  }
  if (init_pidfd_.valid()) {
    ::syscall(SYS_pidfd_send_signal, init_pidfd_.get(), SIGKILL, nullptr, 0);
  }
}

// Kills the children that a killed runtime has left. A child's pid stays its
// own until the shim reaps the child.
void Shim::KillStrays() const {
  std::string children = Head(AT_FDCWD, "/proc/thread-self/children");
  std::string_view rest = children;
  while (!rest.empty()) {
    const std::size_t end = rest.find(' ');
    if (end == std::string_view::npos) {
      return;  // a part of a pid, where the buffer ends
    }
    const auto pid = ParseNumber<pid_t>(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    const bool is_known =
        !pid || *pid == init_ ||
        std::any_of(
            programs_.begin(), programs_.end(),
            [&](const Program& program) { return program.run.pid == *pid; }) ||
        std::any_of(execs_.begin(), execs_.end(),
                    [&](const Exec& exec) { return exec.pid == *pid; });
    if (!is_known) {
      KillFamily(*pid, init_);
    }
  }
}

// The file gets its name only when it is complete and on the disk.
Result<void> Shim::WriteExit(const Message& record) {
  const std::string& bytes = record.bytes();
  const auto size = static_cast<off_t>(bytes.size());
  if (::pwrite(new_exit_.get(), bytes.data(), bytes.size(), 0) != size ||
      ::ftruncate(new_exit_.get(), size) != 0 ||
      ::fsync(new_exit_.get()) != 0 ||
      ::renameat(setup_.task_directory.get(), kNewExitFile,
                 setup_.task_directory.get(), kExitFile) != 0 ||
      ::fsync(setup_.task_directory.get()) != 0) {
    return ErrnoError(errno, "write", "the exit record");
  }
  return Ok();
}

std::uint64_t Shim::OomKills() const {
  if (!setup_.cgroup.valid()) {
    return 0;
  }
  return ParseOomKills(Head(setup_.cgroup.get(), "memory.events"));
}

std::uint64_t ParseOomKills(std::string_view events) {
  constexpr std::string_view kKey = "oom_kill ";
  while (!events.empty()) {
    const std::size_t end = std::min(events.find('\n'), events.size());
    const std::string_view line = events.substr(0, end);
    if (line.starts_with(kKey)) {
      return ParseNumber<std::uint64_t>(line.substr(kKey.size())).value_or(0);
    }
    events.remove_prefix(std::min(end + 1, events.size()));
  }
  return 0;
}

}  // namespace mountd::shim
