// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/bus_client.h"

#include <grp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace mountd::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kPath[] = "/org/mountd1";
constexpr char kInterface[] = "org.mountd1.Manager";
constexpr char kProperties[] = "org.freedesktop.DBus.Properties";
constexpr std::uint64_t kNotSent = 0;

// Prints a message's body, and records the values of each a{sv} in it.
class Reader {
 public:
  Reader(sd_bus_message* message, Answer& answer)
      : message_(message), answer_(answer) {}

  void ReadAll() { answer_.text = Elements("", false); }

 private:
  static std::string Join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  // Prints the values that remain in the current container or body.
  std::string Elements(const std::string& path, bool number) {
    std::string text;
    for (int index = 0; sd_bus_message_at_end(message_, 0) == 0; ++index) {
      text += text.empty() ? "" : ", ";
      text += Value(number ? Join(path, std::to_string(index)) : path);
    }
    return text;
  }

  std::string Value(const std::string& path) {
    char type = 0;
    const char* contents = nullptr;
    if (sd_bus_message_peek_type(message_, &type, &contents) <= 0) {
      return "?";
    }
    switch (type) {
      case SD_BUS_TYPE_VARIANT:
        return Variant(path, contents);
      case SD_BUS_TYPE_ARRAY:
        return Array(path, contents);
      case SD_BUS_TYPE_STRUCT:
        return "(" + Inside(type, contents, path, false) + ")";
      default:
        return Basic(type);
    }
  }

  std::string Inside(char type, const char* contents, const std::string& path,
                     bool number) {
    sd_bus_message_enter_container(message_, type, contents);
    std::string text = Elements(path, number);
    sd_bus_message_exit_container(message_);
    return text;
  }

  std::string Variant(const std::string& path, const char* contents) {
    answer_.types[path] = contents;
    std::string text = Inside(SD_BUS_TYPE_VARIANT, contents, path, false);
    answer_.values[path] = text;
    return text;
  }

  std::string Array(const std::string& path, const char* contents) {
    const std::string element = contents;
    if (element == "y") {
      const void* bytes = nullptr;
      std::size_t size = 0;
      sd_bus_message_read_array(message_, 'y', &bytes, &size);
      return "b\"" + std::string(static_cast<const char*>(bytes), size) + "\"";
    }
    if (element.front() != '{') {
      return "[" + Inside(SD_BUS_TYPE_ARRAY, contents, path, true) + "]";
    }
    sd_bus_message_enter_container(message_, SD_BUS_TYPE_ARRAY, contents);
    const std::string entry = element.substr(1, element.size() - 2);
    std::string text;
    while (sd_bus_message_enter_container(message_, SD_BUS_TYPE_DICT_ENTRY,
                                          entry.c_str()) > 0) {
      const std::string key = Value(path);
      const bool quoted = key.front() == '"';
      text += (text.empty() ? "" : ", ") + key + ": ";
      text += Value(Join(path, quoted ? key.substr(1, key.size() - 2) : key));
      sd_bus_message_exit_container(message_);
    }
    sd_bus_message_exit_container(message_);
    return "{" + text + "}";
  }

  template <typename T>
  T Take(char type) {
    T value{};
    sd_bus_message_read_basic(message_, type, &value);
    return value;
  }

  std::string Basic(char type) {
    switch (type) {
      case 's':
      case 'o':
      case 'g':
        return "\"" + std::string(Take<const char*>(type)) + "\"";
      case 'b':
        return Take<int>(type) != 0 ? "true" : "false";
      case 'y':
        return std::to_string(Take<std::uint8_t>(type));
      case 'q':
        return std::to_string(Take<std::uint16_t>(type));
      case 'i':
      case 'h':
        return std::to_string(Take<std::int32_t>(type));
      case 'u':
        return std::to_string(Take<std::uint32_t>(type));
      case 'x':
        return std::to_string(Take<std::int64_t>(type));
      case 't':
        return std::to_string(Take<std::uint64_t>(type));
      default:
        return "?";
    }
  }

  sd_bus_message* message_;
  Answer& answer_;
};

Answer AnswerOf(sd_bus_message* message) {
  Answer answer;
  if (const sd_bus_error* error = sd_bus_message_get_error(message);
      error != nullptr) {
    answer.error = error->name;
    answer.message = error->message == nullptr ? "" : error->message;
    return answer;
  }
  answer.signature = sd_bus_message_get_signature(message, 1);
  Reader(message, answer).ReadAll();
  return answer;
}

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// Changes the user of this thread alone. The system calls are made directly,
// because glibc's functions change all threads.
bool BecomeThisThread(uid_t uid) {
  return syscall(SYS_setgroups, 0, nullptr) == 0 &&
         syscall(SYS_setresgid, uid, uid, uid) == 0 &&
         syscall(SYS_setresuid, uid, uid, uid) == 0;
}

}  // namespace

std::unique_ptr<BusClient> BusClient::Connect(const BusTarget& target) {
  std::unique_ptr<BusClient> client(new BusClient());
  bool ready = false;
  // A thread of its own makes the connection, because a thread that has become
  // another user cannot go back.
  std::thread([&] {
    const bool self = target.uid == static_cast<uid_t>(-1);
    ready = (self || BecomeThisThread(target.uid)) && client->Open(target);
  }).join();
  return ready ? std::move(client) : nullptr;
}

BusClient::~BusClient() {
  if (bus_ != nullptr) {
    sd_bus_close(bus_);
    sd_bus_unref(bus_);
  }
}

bool BusClient::Open(const BusTarget& target) {
  service_ = target.message_bus ? "org.mountd1" : nullptr;
  const auto filter = [](sd_bus_message* message, void* self, sd_bus_error*) {
    return static_cast<BusClient*>(self)->Keep(message);
  };
  if (sd_bus_new(&bus_) < 0 ||
      sd_bus_set_address(bus_, target.address.c_str()) < 0 ||
      sd_bus_set_bus_client(bus_, target.message_bus ? 1 : 0) < 0 ||
      sd_bus_negotiate_fds(bus_, 1) < 0 ||
      sd_bus_add_filter(bus_, nullptr, filter, this) < 0 ||
      sd_bus_start(bus_) < 0) {
    return false;
  }
  return RunUntil([this] { return sd_bus_is_ready(bus_) > 0; });
}

int BusClient::Keep(sd_bus_message* message) {
  std::uint64_t call = 0;
  if (sd_bus_message_get_reply_cookie(message, &call) >= 0) {
    answers_[call] = AnswerOf(message);
  } else if (sd_bus_message_is_signal(message, kInterface, nullptr) > 0 ||
             sd_bus_message_is_signal(message, kProperties, nullptr) > 0) {
    const Answer body = AnswerOf(message);
    signals_.push_back({Text(sd_bus_message_get_member(message)), body.text,
                        Text(sd_bus_message_get_destination(message))});
  }
  return 0;
}

bool BusClient::RunUntil(const std::function<bool()>& done) {
  const auto deadline = Clock::now() + kPatience;
  while (!done()) {
    const int processed = sd_bus_process(bus_, nullptr);
    if (processed < 0 || Clock::now() > deadline) {
      return done();
    }
    if (processed == 0 && sd_bus_wait(bus_, 100'000) < 0) {
      return done();
    }
  }
  return true;
}

std::uint64_t BusClient::SendOn(const char* path, const char* interface,
                                const char* member, const char* types,
                                va_list values) {
  sd_bus_message* message = nullptr;
  std::uint64_t call = kNotSent;
  if (sd_bus_message_new_method_call(bus_, &message, service_, path, interface,
                                     member) < 0 ||
      (types[0] != '\0' &&
       sd_bus_message_appendv(message, types, values) < 0) ||
      sd_bus_send(bus_, message, &call) < 0) {
    call = kNotSent;
  }
  sd_bus_message_unref(message);
  return call;
}

Answer BusClient::Await(std::uint64_t call) {
  if (call == kNotSent) {
    return {"not sent", "", "", "", {}, {}};
  }
  if (!RunUntil([&] { return answered(call); })) {
    const bool open = sd_bus_is_open(bus_) > 0;
    return {open ? "no answer" : "disconnected", "", "", "", {}, {}};
  }
  Answer answer = std::move(answers_[call]);
  answers_.erase(call);
  return answer;
}

Answer BusClient::Call(const char* member, const char* types, ...) {
  va_list values;
  va_start(values, types);
  const std::uint64_t call = SendOn(kPath, kInterface, member, types, values);
  va_end(values);
  return Await(call);
}

Answer BusClient::CallOn(const char* path, const char* interface,
                         const char* member, const char* types, ...) {
  va_list values;
  va_start(values, types);
  const std::uint64_t call = SendOn(path, interface, member, types, values);
  va_end(values);
  return Await(call);
}

std::uint64_t BusClient::Send(const char* member, const char* types, ...) {
  va_list values;
  va_start(values, types);
  const std::uint64_t call = SendOn(kPath, kInterface, member, types, values);
  va_end(values);
  return call;
}

void BusClient::Fence() {
  CallOn(kPath, "org.freedesktop.DBus.Peer", "Ping", "");
}

Signal BusClient::AwaitSignal(const std::string& member) {
  const auto found = [&] {
    return std::find_if(signals_.begin(), signals_.end(),
                        [&](const Signal& s) { return s.member == member; });
  };
  if (!RunUntil([&] { return found() != signals_.end(); })) {
    return {};
  }
  Signal signal = *found();
  signals_.erase(found());
  return signal;
}

bool BusClient::AwaitDisconnect() {
  return RunUntil([this] { return sd_bus_is_open(bus_) <= 0; });
}

}  // namespace mountd::test
