// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/driver/protocol/message.h"
#include "agent/driver/protocol/message_socket.h"
#include "agent/driver/shim/log_pump.h"
#include "agent/driver/shim/runtime.h"
#include "agent/driver/shim/setup.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::shim {

// Owns one task: makes its container, is the parent of its processes, writes
// its exit record, and serves drivers. Runs on one thread, and waits only in
// poll(2): for signals of children, for requests, and for the streams.
class Shim {
 public:
  explicit Shim(Setup setup);
  // Returns after kDelete, or if the container could not be made.
  Result<void> Run();

 private:
  // A connection of a driver, and the answers that it waits for.
  struct Connection {
    std::uint64_t id = 0;
    UniqueFd socket{};
    bool awaits_created = false;
    bool awaits_started = false;
    bool awaits_exit = false;
    bool awaits_deleted = false;
  };
  enum class Purpose { kCreate, kStart, kExec, kDelete, kCleanUp };
  // A program of the runtime that runs.
  struct Program {
    Purpose purpose;
    RuntimeRun run;
    std::uint64_t exec = 0;  // of kExec
  };
  // A process that a caller has added to the container. It belongs to the
  // caller's connection, and the shim kills it if the connection ends first.
  struct Exec {
    std::uint64_t id = 0;
    std::uint64_t connection = 0;  // 0: the caller has gone
    pid_t pid = -1;                // -1: the runtime makes it; 0: it has ended
    UniqueFd pidfd{};
    UniqueFd console{};  // where the runtime sends the pty's master
  };
  // A child that the runtime has made.
  struct Child {
    pid_t pid = -1;
    UniqueFd pidfd{};
  };
  // shim.cc
  Result<void> Begin();
  Result<void> Listen();
  Result<void> StartCreate();
  void WaitAndServe();
  void PumpLogs();
  void KillHungDeletes();
  std::optional<Milliseconds> NextWake() const;
  void ReadSignals();
  void Reap();
  void ReapOrphans();
  void OnRunEnded(Program run, int status);
  void OnCreateEnded(const RuntimeRun& run, int status);
  std::string ExecFifoPath() const;
  void OnStartEnded(const RuntimeRun& run, int status);
  bool FinishKilledStart();
  void OnDeleteEnded(const RuntimeRun& run, int status);
  void OnInitEnded(int status);
  Result<Child> Adopt(const std::string& pid_file) const;
  Result<void> CheckCgroupOf(pid_t pid) const;
  void GiveUp(Error error);
  void KillTask();
  void KillStrays() const;
  Result<void> WriteExit(const Message& record);
  std::uint64_t OomKills() const;

  // shim_requests.cc
  void Accept();
  void Serve(Connection& connection);
  void Handle(Connection& connection, const Incoming& incoming);
  void HandleStart(Connection& connection);
  Result<void> LetGo(int fifo);
  void StartByRuntime(Connection& connection, bool writer_waits);
  Result<void> HandleSignal(const Message& request);
  void HandleStop(Connection& connection, const Message& request);
  void HandleDelete(Connection& connection, const Message& request);
  void StartDelete();
  void AnswerTo(std::uint64_t connection, const Message& message,
                std::span<const int> fds = {});
  void AnswerStatus(Connection& connection);
  void Answer(Connection& connection, const Message& message,
              std::span<const int> fds = {});
  // Answers all connections that have the flag, and clears the flag.
  void AnswerAll(bool Connection::*awaits, const Message& message);
  void DropClosed();

  // shim_exec.cc
  Result<void> HandleExec(const Connection& connection,
                          const Incoming& incoming);
  static Result<void> OpenConsole(Exec& exec);
  void OnExecMade(Exec& exec, const RuntimeRun& run, int status);
  Result<void> TellExec(Exec& exec);
  void OnExecEnded(Exec& exec, int status);
  void KillExecsOf(std::uint64_t connection);
  static std::string ExecFile(const Exec& exec, const char* suffix);

  Setup setup_;
  LogPump output_;
  LogPump error_;
  UniqueFd signals_;
  UniqueFd listener_;
  UniqueFd new_exit_;  // the file of the exit record, before its rename
  std::list<Connection> connections_;
  std::list<Program> programs_;
  std::list<Exec> execs_;
  std::uint64_t last_id_ = 0;  // of connections and execs
  State state_ = State::kCreating;
  bool has_task_ = false;  // false: another shim has it
  bool is_starting_ = false;
  bool is_done_ = false;
  bool has_failed_run_ = false;
  bool deletes_after_exit_ = false;
  std::optional<Error> failure_;  // of kCreate
  pid_t init_ = -1;
  UniqueFd init_pidfd_;
  UniqueFd exec_fifo_;         // of runc, during kStart
  bool writer_waits_ = false;  // the task's first process writes to exec.fifo
  std::uint64_t oom_kills_before_ = 0;
  std::optional<Milliseconds> kill_at_;       // of kStop
  std::optional<Milliseconds> delete_until_;  // of kDelete and kCleanUp
  bool has_delete_hung_ = false;
  std::optional<Message> exit_;
};

// A program that deletes a container takes milliseconds.
constexpr Milliseconds kDeletePatienceMs = 10'000;

// Returns CLOCK_MONOTONIC.
Milliseconds MonotonicNow();

// Returns kExited with the process's code or signal, as waitpid(2) gives them.
Message ExitedMessage(int status);

// Says whether a status of waitpid(2) means SIGKILL: of the process, or of the
// command of a shell. A count of OOM kills alone does not say how the task
// ended, because the kernel may have killed a process of exec long before.
bool EndedBySigkill(int status);

// Returns "oom_kill" of a cgroup's memory.events; 0 if it is not there.
std::uint64_t ParseOomKills(std::string_view events);

}  // namespace mountd::shim
