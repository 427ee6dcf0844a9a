// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/waiting_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <utility>

#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBeforeItIsShown{1000};
constexpr milliseconds kBetweenLooks{500};
constexpr milliseconds kConnectTimeout{2000};
constexpr char kClearLine[] = "\r\x1b[K";

bool IsOnTerminal() {
  const char* const terminal = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

std::size_t Width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1
             ? size.ws_col - 1U
             : kUsual - 1;
}

ClientOptions ForAsking(ClientOptions options) {
  options.connect_timeout = kConnectTimeout;
  options.reconnect = false;
  return options;
}

}  // namespace

const OperationStatus* FindOwn(const std::vector<OperationStatus>& all,
                               std::uint32_t uid, std::string_view method,
                               milliseconds since) {
  const OperationStatus* found = nullptr;
  const auto apart = [&](const OperationStatus& one) {
    return std::chrono::abs(one.elapsed - since);
  };
  for (const OperationStatus& one : all) {
    if (one.uid == uid && one.method == method &&
        (found == nullptr || apart(one) < apart(*found))) {
      found = &one;
    }
  }
  return found;
}

std::string WaitingText(const OperationStatus& operation, std::size_t width) {
  std::string text = operation.method;
  text += operation.object.empty() ? "" : " " + operation.object;
  text +=
      ": " + StepText(operation) + ", " +
      Age(std::chrono::duration_cast<std::chrono::seconds>(operation.elapsed));
  text = Printable(text);
  text.resize(std::min(text.size(), width));
  return text;
}

WaitingLine::WaitingLine(const Context& context)
    : asking_(ForAsking(context.options)), options_(context.options) {
  if (!context.json && IsOnTerminal()) {
    options_.on_call = [this](std::string_view method) { Called(method); };
    thread_ = std::thread([this] { Loop(); });
  }
}

WaitingLine::~WaitingLine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    Clear();
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void WaitingLine::Called(std::string_view method) {
  const std::lock_guard lock(mutex_);
  Clear();
  method_ = method;
  ++call_;
  begun_ = Clock::now();
  changed_.notify_all();
}

void WaitingLine::Clear() {
  if (std::exchange(shown_, false)) {
    std::cerr << kClearLine << std::flush;
  }
}

// Waits until a call has taken long enough to be shown. False when the object
// ends.
bool WaitingLine::AwaitLongCall(std::unique_lock<std::mutex>& lock) {
  while (!stopping_) {
    if (method_.empty()) {
      changed_.wait(lock);
    } else if (const auto due = begun_ + kBeforeItIsShown; Clock::now() < due) {
      changed_.wait_until(lock, due);
    } else {
      return true;
    }
  }
  return false;
}

void WaitingLine::Show(Client& client, std::unique_lock<std::mutex>& lock) {
  const std::uint64_t call = call_;
  const std::string method = method_;
  const auto since =
      std::chrono::duration_cast<milliseconds>(Clock::now() - begun_);
  // Releases the lock, because the call may take long and Called must not wait.
  lock.unlock();
  const auto all = client.ListOperations();
  lock.lock();
  const OperationStatus* const own =
      all ? FindOwn(*all, ::geteuid(), method, since) : nullptr;
  // The call may have ended meanwhile.
  if (own != nullptr && call == call_ && !stopping_) {
    std::cerr << kClearLine << WaitingText(*own, Width()) << std::flush;
    shown_ = true;
  }
}

void WaitingLine::Loop() {
  std::unique_lock lock(mutex_);
  std::optional<Client> client;
  while (AwaitLongCall(lock)) {
    if (!client) {
      // Releases the lock, because connecting may take long and Called must not
      // wait.
      lock.unlock();
      Result<Client> connected = Client::Connect(asking_);
      lock.lock();
      if (!connected) {
        return;  // the command itself says why
      }
      client.emplace(*std::move(connected));
      continue;
    }
    Show(*client, lock);
    changed_.wait_for(lock, kBetweenLooks, [this] { return stopping_; });
  }
}

}  // namespace mountd::agent
