// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/raw_call.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/client/connection.h"
#include "agent/mountctl/commands/call_names.h"
#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

constexpr char kCall[] = "call";
constexpr char kInterface[] = "org.mountd1.Manager";
constexpr char kObject[] = "/org/mountd1";

using MethodEntry = std::pair<std::string_view, std::string_view>;
constexpr std::array<MethodEntry, 59> kMethods{{
    {"Subscribe", "a{sv}"},
    {"Unsubscribe", "a{sv}"},
    {"PrepareAllocation", "sa{sv}"},
    {"SetupNetwork", "ssa(ssqqqs)a{sv}"},
    {"GetNetwork", "sa{sv}"},
    {"UpdatePorts", "sa(ssqqqs)a{sv}"},
    {"TeardownNetwork", "sa{sv}"},
    {"PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}"},
    {"UnpublishVolume", "ssa{sv}"},
    {"ExpandVolume", "ssxa{sv}"},
    {"GetVolumeStats", "ssa{sv}"},
    {"BindMount", "sssssbsa{sv}"},
    {"BindMounts", "saa{sv}a{sv}"},
    {"ReplaceMount", "sssssbsa{sv}"},
    {"RepairMount", "sssa{sv}"},
    {"OpenTree", "ssssa{sv}"},
    {"PrepareInbox", "ssa{sv}"},
    {"RemoveInbox", "ssa{sv}"},
    {"Unmount", "sssa{sv}"},
    {"RemoveTree", "ha{sv}"},
    {"ChownTree", "huua{sv}"},
    {"ListHolders", "sssa{sv}"},
    {"ListHandedOut", "sa{sv}"},
    {"VerifyTask", "ssha{sv}"},
    {"ReleaseAllocation", "sa{sv}"},
    {"GetReceipt", "sa{sv}"},
    {"GetAllocation", "sa{sv}"},
    {"ListAllocations", "a{sv}"},
    {"Reconcile", "stasba{sv}"},
    {"ListVolumes", "a{sv}"},
    {"RegisterPlugin", "sssa{sv}"},
    {"UnregisterPlugin", "sa{sv}"},
    {"GetPlugin", "sa{sv}"},
    {"ListPlugins", "a{sv}"},
    {"ControllerPublishVolume", "sssa{sv}a{ss}a{sv}"},
    {"ControllerUnpublishVolume", "sssa{sv}"},
    {"ValidateVolume", "ssa{sv}a{ss}a{sv}"},
    {"CreateVolume", "ssa{sv}a{sv}"},
    {"DeleteVolume", "ssa{sv}"},
    {"ControllerExpandVolume", "ssxa{sv}"},
    {"ListPluginVolumes", "sa{sv}"},
    {"GetCapacity", "sa{sv}"},
    {"CallController", "ssaya{sv}"},
    {"AcquireLease", "sa{sv}"},
    {"RenewLease", "sa{sv}"},
    {"ReleaseLease", "sa{sv}"},
    {"ListLeases", "a{sv}"},
    {"GetFence", "sa{sv}"},
    {"ListOwed", "a{sv}"},
    {"RetryOwed", "a{sv}"},
    {"Cancel", "sa{sv}"},
    {"ListOperations", "a{sv}"},
    {"GetCapabilities", "a{sv}"},
    {"ListHostVolumes", "a{sv}"},
    {"ListFilesystems", "a{sv}"},
    {"ListNetworks", "a{sv}"},
    {"GetStatistics", "a{sv}"},
    {"Reload", "a{sv}"},
    {"Introspect", ""},
}};

Error Misfit(std::string_view type, const Json& value) {
  return MakeError(
      Code::kInvalidArgument, kCall, "",
      Dump(value, -1) + " does not fit the type '" + std::string(type) + "'");
}

// Returns the length of the first complete type of a well-formed signature of
// this table; 0 at its end.
std::size_t TypeLength(std::string_view signature) {
  if (signature.empty()) {
    return 0;
  }
  if (signature[0] == 'a') {
    return 1 + TypeLength(signature.substr(1));
  }
  std::size_t depth = 0;
  for (std::size_t i = 0; i < signature.size(); ++i) {
    if (signature[i] == '(' || signature[i] == '{') {
      ++depth;
    } else if (signature[i] == ')' || signature[i] == '}') {
      --depth;
    }
    if (depth == 0) {
      return i + 1;
    }
  }
  return 0;
}

template <typename T>
Result<void> AppendNumber(sdbus::Message& message, std::string_view type,
                          const Json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer() &&
                              std::in_range<T>(value.get<std::int64_t>());
  if (!fits) {
    return Misfit(type, value);
  }
  message << value.get<T>();
  return Ok();
}

std::string VariantType(const Json& value) {
  if (value.is_boolean()) {
    return "b";
  }
  if (value.is_string()) {
    return "s";
  }
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>() <=
                   std::numeric_limits<std::uint32_t>::max()
               ? "u"
               : "t";
  }
  if (value.is_number_integer()) {
    return "x";
  }
  return value.is_array() ? "as" : "a{sv}";
}

Result<void> Append(sdbus::Message& message, std::string_view type,
                    const Json& value);

Result<void> AppendVariant(sdbus::Message& message, const Json& value) {
  std::string type = VariantType(value);
  Json inner = value;
  if (value.is_object() && value.size() == 1 &&
      value.begin().key().starts_with('@')) {
    type = value.begin().key().substr(1);
    inner = value.begin().value();
    if (type.empty() || TypeLength(type) != type.size() ||
        type.find_first_not_of("abdghinoqstuvxy(){}") != std::string::npos) {
      return Misfit("v", value);
    }
  }
  message.openVariant(type.c_str());
  MOUNTD_TRY(Append(message, type, inner));
  message.closeVariant();
  return Ok();
}

Result<void> AppendArray(sdbus::Message& message, std::string_view type,
                         const Json& value) {
  const std::string element(type.substr(1));
  if (element == "y" && value.is_string()) {
    const auto bytes = value.get<std::string>();
    message.appendArray('y', bytes.data(), bytes.size());
    return Ok();
  }
  const bool is_dict = element[0] == '{';
  if (is_dict ? !value.is_object() : !value.is_array()) {
    return Misfit(type, value);
  }
  message.openContainer(element.c_str());
  if (is_dict) {
    const std::string entry = element.substr(1, element.size() - 2);
    for (const auto& [key, member] : value.items()) {
      message.openDictEntry(entry.c_str());
      MOUNTD_TRY(Append(message, entry.substr(0, 1), key));
      MOUNTD_TRY(Append(message, std::string_view(entry).substr(1), member));
      message.closeDictEntry();
    }
  } else {
    for (const Json& member : value) {
      MOUNTD_TRY(Append(message, element, member));
    }
  }
  message.closeContainer();
  return Ok();
}

Result<void> AppendStruct(sdbus::Message& message, std::string_view type,
                          const Json& value) {
  std::string_view members = type.substr(1, type.size() - 2);
  if (!value.is_array()) {
    return Misfit(type, value);
  }
  message.openStruct(std::string(members).c_str());
  for (const Json& member : value) {
    const std::size_t length = TypeLength(members);
    if (length == 0) {
      return Misfit(type, value);
    }
    MOUNTD_TRY(Append(message, members.substr(0, length), member));
    members.remove_prefix(length);
  }
  if (!members.empty()) {
    return Misfit(type, value);
  }
  message.closeStruct();
  return Ok();
}

Result<void> AppendFd(sdbus::Message& message, const Json& value) {
  if (!value.is_string()) {
    return Misfit("h", value);
  }
  const auto path = value.get<std::string>();
  // O_NONBLOCK, because the open of a fifo would wait for a writer (fifo(7)).
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    return ErrnoError(errno, kCall, path);
  }
  message << sdbus::UnixFd(fd.release(), sdbus::adopt_fd);
  return Ok();
}

Result<void> AppendText(sdbus::Message& message, std::string_view type,
                        const Json& value) {
  if (!value.is_string()) {
    return Misfit(type, value);
  }
  auto text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) {
    return Misfit(type, value);
  }
  if (type[0] == 's') {
    message << text;
  } else if (type[0] == 'o') {
    message << sdbus::ObjectPath(std::move(text));
  } else {
    message << sdbus::Signature(std::move(text));
  }
  return Ok();
}

Result<void> Append(sdbus::Message& message, std::string_view type,
                    const Json& value) {
  switch (type.empty() ? '\0' : type[0]) {
    case 's':
    case 'o':
    case 'g':
      return AppendText(message, type, value);
    case 'b':
      if (!value.is_boolean()) {
        return Misfit(type, value);
      }
      message << value.get<bool>();
      return Ok();
    case 'y':
      return AppendNumber<std::uint8_t>(message, type, value);
    case 'q':
      return AppendNumber<std::uint16_t>(message, type, value);
    case 'n':
      return AppendNumber<std::int16_t>(message, type, value);
    case 'u':
      return AppendNumber<std::uint32_t>(message, type, value);
    case 'i':
      return AppendNumber<std::int32_t>(message, type, value);
    case 't':
      return AppendNumber<std::uint64_t>(message, type, value);
    case 'x':
      return AppendNumber<std::int64_t>(message, type, value);
    case 'd':
      if (!value.is_number()) {
        return Misfit(type, value);
      }
      message << value.get<double>();
      return Ok();
    case 'h':
      return AppendFd(message, value);
    case 'v':
      return AppendVariant(message, value);
    case 'a':
      return AppendArray(message, type, value);
    case '(':
      return AppendStruct(message, type, value);
    default:
      return Misfit(type, value);
  }
}

template <typename T>
Json Take(sdbus::Message& message) {
  T value{};
  message >> value;
  return value;
}

std::string ReadObjectPath(sdbus::Message& message) {
  sdbus::ObjectPath path;
  message >> path;
  return path;
}

Json Read(sdbus::Message& message);

Json ReadArray(sdbus::Message& message, const std::string& element) {
  if (element == "y") {
    std::vector<std::uint8_t> bytes;
    message >> bytes;
    return std::string(bytes.begin(), bytes.end());
  }
  const bool is_dict = element[0] == '{';
  Json json = is_dict ? Json::object() : Json::array();
  message.enterContainer(element.c_str());
  while (message.peekType().first != '\0') {
    if (!is_dict) {
      json.push_back(Read(message));
      continue;
    }
    message.enterDictEntry(element.substr(1, element.size() - 2).c_str());
    const Json key = Read(message);
    json[key.is_string() ? key.get<std::string>() : Dump(key, -1)] =
        Read(message);
    message.exitDictEntry();
  }
  message.exitContainer();
  return json;
}

Json Read(sdbus::Message& message) {
  const auto [type, contents] = message.peekType();
  const std::string inner = contents == nullptr ? "" : contents;
  switch (type) {
    case 's':
      return Take<std::string>(message);
    case 'o':
      return ReadObjectPath(message);
    case 'b':
      return Take<bool>(message);
    case 'y':
      return Take<std::uint8_t>(message);
    case 'q':
      return Take<std::uint16_t>(message);
    case 'n':
      return Take<std::int16_t>(message);
    case 'u':
      return Take<std::uint32_t>(message);
    case 'i':
      return Take<std::int32_t>(message);
    case 't':
      return Take<std::uint64_t>(message);
    case 'x':
      return Take<std::int64_t>(message);
    case 'd':
      return Take<double>(message);
    case 'a':
      return ReadArray(message, inner);
    case 'v': {
      message.enterVariant(inner.c_str());
      Json value = Read(message);
      message.exitVariant();
      return value;
    }
    case '(':
    case 'r': {
      Json values = Json::array();
      message.enterStruct(inner.c_str());
      while (message.peekType().first != '\0') {
        values.push_back(Read(message));
      }
      message.exitStruct();
      return values;
    }
    default:
      throw sdbus::Error(sdbus::Error::Name("org.mountd1.Error.Internal"),
                         "mountctl cannot show a type in the answer");
  }
}

Result<void> AppendAll(sdbus::MethodCall& call, std::string_view signature,
                       const Json& args, const CallNames& names) {
  std::size_t next = 0;
  while (!signature.empty()) {
    const std::string_view type = signature.substr(0, TypeLength(signature));
    signature.remove_prefix(type.size());
    const bool left_out =
        next == args.size() && signature.empty() && type == "a{sv}";
    if (next >= args.size() && !left_out) {
      return MakeError(
          Code::kInvalidArgument, kCall, "",
          "too few arguments; the next has type '" + std::string(type) + "'");
    }
    const Json given = left_out ? Json::object() : args[next];
    MOUNTD_TRY(Append(call, type,
                      signature.empty() && type == "a{sv}"
                          ? WithNames(given, names)
                          : given));
    ++next;
  }
  if (next < args.size()) {
    return MakeError(Code::kInvalidArgument, kCall, "", "too many arguments");
  }
  return Ok();
}

// Throws sdbus::Error if mountd refuses the call.
Result<Json> CallOnce(Connection& connection, const std::string& method,
                      std::string_view signature, const Json& args,
                      const CallNames& names) {
  auto proxy = sdbus::createProxy(connection.bus(),
                                  sdbus::ServiceName(connection.service()),
                                  sdbus::ObjectPath(kObject));
  auto call = proxy->createMethodCall(
      sdbus::InterfaceName(method == "Introspect"
                               ? "org.freedesktop.DBus.Introspectable"
                               : kInterface),
      sdbus::MethodName(method));
  MOUNTD_TRY(AppendAll(call, signature, args, names));
  sdbus::MethodReply reply = proxy->callMethod(call);
  Json answers = Json::array();
  while (reply.peekType().first != '\0') {
    answers.push_back(Read(reply));
  }
  if (answers.size() > 1) {
    return answers;
  }
  return answers.empty() ? Json() : answers[0];
}

}  // namespace

std::string ArgumentsOf(const std::string& method, bool& known) {
  const auto found =
      std::find_if(kMethods.begin(), kMethods.end(),
                   [&](const MethodEntry& e) { return e.first == method; });
  known = found != kMethods.end();
  return known ? std::string(found->second) : "";
}

Result<Json> RawCall(const ClientOptions& options, const std::string& method,
                     const Json& args) {
  bool known = false;
  const std::string signature = ArgumentsOf(method, known);
  if (!known || !args.is_array()) {
    return MakeError(Code::kInvalidArgument, kCall, method,
                     known ? "the arguments must be a JSON array"
                           : "org.mountd1.Manager has no such method");
  }
  MOUNTD_ASSIGN(auto connection, Connection::Open(options, nullptr));
  CallNames names = options.names;
  for (;;) {
    try {
      return CallOnce(*connection, method, signature, args, names);
    } catch (const sdbus::Error& error) {
      if (!options.optional_trace || names.traceparent.empty() ||
          FailureOfOwnCall(error, method, "").unknown_option != "traceparent") {
        return FailureOf(error, method, "").error;
      }
      names.traceparent.clear();  // mountd is older, and has no traces
    }
  }
}

}  // namespace mountd::agent
