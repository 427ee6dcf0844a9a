// SPDX-License-Identifier: LGPL-2.1-or-later
// The whole D-Bus surface: a mountd with models of the executors and of
// mountd-csi, and a client that calls any method with anything its signature
// allows, or writes raw bytes to the socket. mountd must answer each call once,
// with an error of the contract at most. Afterwards mountd must serve as
// before, and nothing may be left once all is released.
#include <fcntl.h>
#include <sys/mman.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/fields/mount_fields.h"
#include "mountd/base/names.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/bus_client.h"
#include "tests/support/raw_socket.h"
#include "tests/support/servers/api_server.h"
#include "tests/support/temp_directory.h"

namespace mountd::fuzz {
namespace {

constexpr char kObject[] = "/org/mountd1";
constexpr char kInterface[] = "org.mountd1.Manager";
constexpr std::chrono::seconds kPatience{20};

constexpr char kConfig[] = R"(
[filesystem.homes]
type = "nfs4"
source = "server:/homes"
[host_volume.data]
path = "/srv/data"
propagation = ["private", "host-to-task", "bidirectional"]
[cni]
[network.default]
ipv4 = "10.0.0.0/24"
ipv6 = "fd00::/64"
[limits]
allocations_per_uid = 16
[timeouts]
plan_ms = 2000
rpc_ms = 500
rpc_retries_ms = 500
patience_ms = 300
plugin_health_ms = 200
probe_starting_ms = 5
probe_ready_ms = 20
)";

struct Method {
  std::string name;
  std::string signature;
};

std::string Attribute(const std::string& line, const std::string& name) {
  const std::size_t at = line.find(" " + name + "=\"");
  if (at == std::string::npos) {
    return "";
  }
  const std::size_t start = at + name.size() + 3;
  return line.substr(start, line.find('"', start) - start);
}

// Returns the methods of the contract, in its order.
std::vector<Method> ReadMethods() {
  std::ifstream xml(MOUNTD_MANAGER_XML);
  std::vector<Method> methods;
  for (std::string line; std::getline(xml, line);) {
    if (line.find("<method ") != std::string::npos) {
      methods.push_back({Attribute(line, "name"), ""});
    } else if (line.find("<arg ") != std::string::npos && !methods.empty() &&
               Attribute(line, "direction") == "in") {
      methods.back().signature += Attribute(line, "type");
    }
  }
  Require(!methods.empty(), "the contract has no method");
  return methods;
}

const std::vector<Method>& Methods() {
  static const std::vector<Method> methods = ReadMethods();
  return methods;
}

Config TheConfig() {
  Config config = ParseConfig(kConfig, "fuzz").value();
  RuleConfig all;
  all.uids = {::geteuid()};
  all.host_volumes = all.filesystems = all.plugins = all.register_plugins =
      all.control_plugins = {"*"};
  all.networks = {"*", "cni/*"};
  all.host_ports = {{20000, 21000}};
  all.ids = {{100000, 165535}};
  all.cgroups = {"/mountd-test"};
  all.alloc_roots = {"/tmp"};
  all.bidirectional = all.detached = all.containers = all.container_tmpfs =
      all.host_namespaces = all.administer = true;
  all.stop_tasks = exec::TaskStop::kKill;
  config.rules = {all};
  return config;
}

// One world serves all inputs, because each input leaves it as it was.
struct World {
  TempDirectory directory;
  test::ApiServer server{directory.File(""),
                         test::ApiServerOptions{TheConfig(), {}}};
};

// Blocks libFuzzer's clock signal in this thread, because it would end a
// client's wait. The world's threads take the signal.
bool KeepSignalsAway() {
  sigset_t ticks;
  sigemptyset(&ticks);
  sigaddset(&ticks, SIGALRM);
  return ::pthread_sigmask(SIG_BLOCK, &ticks, nullptr) == 0;
}

// Returns the world. It must end before the static objects that a first client
// creates, so its end is registered after them.
World& TheWorld() {
  static std::unique_ptr<World> world;
  if (world == nullptr) {
    world = std::make_unique<World>();
    Require(KeepSignalsAway(), "signals cannot be blocked");
    Require(test::BusClient::Connect({world->server.address()}) != nullptr,
            "mountd takes no client");
    std::atexit([] { world.reset(); });
  }
  return *world;
}

std::unique_ptr<test::BusClient> Connect() {
  auto client = test::BusClient::Connect({TheWorld().server.address()});
  Require(client != nullptr, "mountd takes no client any more");
  return client;
}

// Returns a text that D-Bus can carry: UTF-8 without NUL.
std::string TextFor(Input* input) {
  constexpr const char* kWords[] = {
      "web",          "db",         "server",
      "data",         "vol",        "csi",
      "node",         "controller", "monolith",
      "default",      "host",       "volume",
      "filesystem",   "tmpfs",      "homes",
      "private",      "none",       "bidirectional",
      "bridge",       "cni/net",    "eth0",
      "10.0.0.7",     "fd00::7",    "tcp",
      "host-to-task", "driver",     "",
      "..",           "a/b",        "/srv/data",
      "read-only",    "exclusive"};
  const std::uint8_t which = input->Byte();
  if (which < 224) {
    return kWords[which % std::size(kWords)];
  }
  std::string text = input->Text(which < 240 ? 40 : 2000);
  std::erase(text, '\0');
  return IsValidUtf8(text) ? text : "not text";
}

std::string KeyFor(Input* input) {
  static const std::vector<const char*> keys = [] {
    std::vector<const char*> all = {"scope",
                                    "cgroup",
                                    "parameters",
                                    "read_only",
                                    "name",
                                    "alias",
                                    "volume_context",
                                    "publish_context",
                                    "secrets",
                                    "usages",
                                    "access_mode",
                                    "attachment_mode",
                                    "fs_type",
                                    "mount_flags",
                                    "idmap",
                                    "source_directory",
                                    "uidmap",
                                    "gidmap",
                                    "size",
                                    "inodes",
                                    "mode",
                                    "uid",
                                    "gid",
                                    "noswap",
                                    "replace",
                                    "ports",
                                    "hostname",
                                    "dns_servers",
                                    "dns_searches",
                                    "dns_options",
                                    "hosts",
                                    "isolated",
                                    "default_route",
                                    "interface",
                                    "address",
                                    "address6",
                                    "netns",
                                    "ports_keeper",
                                    "cni_args",
                                    "bandwidth",
                                    "ips",
                                    "mac",
                                    "allocation",
                                    "health_timeout_ms",
                                    "bare_directories",
                                    "force",
                                    "detach",
                                    "abort",
                                    "directory",
                                    "container",
                                    "pidfd",
                                    "required_bytes",
                                    "limit_bytes",
                                    "max_entries",
                                    "starting_token",
                                    "source_volume",
                                    "source_snapshot",
                                    "form",
                                    "volume_mount_group",
                                    "patience_ms",
                                    "connect",
                                    "info",
                                    "source",
                                    "source_type",
                                    "propagation",
                                    "task",
                                    "traceparent",
                                    "request_id"};
    for (const agent::MountFlag& flag : agent::kMountFlags) {
      all.push_back(flag.key);
    }
    return all;
  }();
  const std::uint8_t which = input->Byte();
  return which < 250 ? keys[which % keys.size()] : TextFor(input);
}

int FdFor(Input* input) {
  constexpr const char* kPaths[] = {"/dev/null", "/tmp", "/proc/self/ns/net",
                                    "/proc/self/ns/mnt", "/dev/zero"};
  const std::uint8_t which = input->Byte() % 8;
  if (which < std::size(kPaths)) {
    return ::open(kPaths[which], O_RDONLY | O_CLOEXEC);
  }
  const int memory = ::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const std::string text = input->Text(64);
  Require(::write(memory, text.data(), text.size()) ==
              static_cast<ssize_t>(text.size()),
          "no memory");
  if (which % 2 == 0) {
    ::fcntl(memory, F_ADD_SEALS,
            F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  }
  return memory;
}

// Returns the first complete type of a signature.
std::string_view FirstOf(std::string_view signature) {
  std::size_t size = 0;
  while (size < signature.size() && signature[size] == 'a') {
    ++size;
  }
  int depth = 0;
  do {
    const char c = signature[size++];
    depth += c == '(' || c == '{' ? 1 : c == ')' || c == '}' ? -1 : 0;
  } while (depth > 0);
  return signature.substr(0, size);
}

void Append(sd_bus_message* message, std::string_view signature, Input* input);

void AppendNumber(sd_bus_message* message, char type, Input* input) {
  // Small numbers are meaningful more often.
  const auto number =
      input->Flag() ? input->Take<std::uint64_t>() : input->Byte() % 4U;
  if (type == 'b') {
    const int flag = static_cast<int>(number & 1U);
    Require(sd_bus_message_append_basic(message, type, &flag) >= 0, "append");
    return;
  }
  Require(sd_bus_message_append_basic(message, type, &number) >= 0, "append");
}

void AppendVariant(sd_bus_message* message, Input* input) {
  constexpr const char* kTypes[] = {
      "s",     "b",      "u",         "t",     "as",    "a{ss}",  "ay", "h",
      "i",     "x",      "a(usssuu)", "a{sv}", "(su)",  "aa{sv}", "d",  "v",
      "a(ss)", "a(uuu)", "aas",       "y",     "a{su}", "a(sv)"};
  const char* type = input->OneOf(kTypes);
  Require(sd_bus_message_open_container(message, 'v', type) >= 0, "append");
  Append(message, type, input);
  Require(sd_bus_message_close_container(message) >= 0, "append");
}

void AppendArray(sd_bus_message* message, std::string_view element,
                 Input* input) {
  const std::string of(element);
  Require(sd_bus_message_open_container(message, 'a', of.c_str()) >= 0,
          "append");
  std::size_t count = input->UpTo(3);
  if (input->Byte() == 255) {
    count = 5000;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (element.front() == '{') {
      const std::string inner(element.substr(1, element.size() - 2));
      Require(sd_bus_message_open_container(message, 'e', inner.c_str()) >= 0,
              "append");
      const std::string key = KeyFor(input);
      Require(sd_bus_message_append_basic(message, 's', key.c_str()) >= 0,
              "append");
      Append(message, std::string_view(inner).substr(1), input);
      Require(sd_bus_message_close_container(message) >= 0, "append");
    } else {
      Append(message, element, input);
    }
  }
  Require(sd_bus_message_close_container(message) >= 0, "append");
}

void Append(sd_bus_message* message, std::string_view signature, Input* input) {
  while (!signature.empty()) {
    const std::string_view type = FirstOf(signature);
    signature.remove_prefix(type.size());
    switch (type.front()) {
      case 'a':
        AppendArray(message, type.substr(1), input);
        break;
      case '(': {
        const std::string inner(type.substr(1, type.size() - 2));
        Require(sd_bus_message_open_container(message, 'r', inner.c_str()) >= 0,
                "append");
        Append(message, inner, input);
        Require(sd_bus_message_close_container(message) >= 0, "append");
        break;
      }
      case 'v':
        AppendVariant(message, input);
        break;
      case 's': {
        const std::string text = TextFor(input);
        Require(sd_bus_message_append_basic(message, 's', text.c_str()) >= 0,
                "append");
        break;
      }
      case 'h': {
        const UniqueFd fd(FdFor(input));
        const int number = fd.get();
        Require(sd_bus_message_append_basic(message, 'h', &number) >= 0,
                "append");
        break;
      }
      default:
        AppendNumber(message, type.front(), input);
        break;
    }
  }
}

void RequireAnswer(int outcome, const sd_bus_error& error,
                   const std::string& method) {
  if (outcome >= 0) {
    return;
  }
  const std::string_view name = error.name == nullptr ? "none" : error.name;
  Require(name.starts_with("org.mountd1.Error.") &&
              name != "org.mountd1.Error.Internal",
          method + " is answered with " + std::string(name) + ": " +
              (error.message == nullptr ? "" : error.message));
}

void CallOne(test::BusClient* client, Input* input) {
  const Method& method = Methods()[input->Byte() % Methods().size()];
  sd_bus_message* message = nullptr;
  Require(
      sd_bus_message_new_method_call(client->raw(), &message, nullptr, kObject,
                                     kInterface, method.name.c_str()) >= 0,
      "no message");
  Append(message, method.signature, input);
  sd_bus_error error = {};
  sd_bus_message* reply = nullptr;
  const int outcome = sd_bus_call(
      client->raw(), message,
      static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(kPatience)
              .count()),
      &error, &reply);
  RequireAnswer(outcome, error, method.name);
  sd_bus_error_free(&error);
  sd_bus_message_unref(reply);
  sd_bus_message_unref(message);
}

// Writes to the socket as a client that knows no D-Bus, or too much of it.
void WriteRaw(Input* input) {
  test::RawSocket socket(TheWorld().server.socket());
  const std::uint8_t how = input->Byte();
  std::string bytes = (how & 1U) != 0 ? test::kHandshake : "";
  if ((how & 2U) != 0) {
    const Method& method = Methods()[input->Byte() % Methods().size()];
    const std::string body = input->Text(200);
    bytes += test::MarshalCall(1, method.name, method.signature, body);
  }
  bytes += input->Rest();
  socket.Write(bytes);
}

// Returns the second word of the lines that begin with `kind`.
std::vector<std::string> Recorded(const std::string& records,
                                  const std::string& kind) {
  std::vector<std::string> found;
  std::istringstream lines(records);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    std::string second;
    words >> first >> second;
    if (first == kind) {
      found.push_back(second);
    }
  }
  return found;
}

bool IsEmpty() {
  return TheWorld().server.Records().empty() &&
         TheWorld().server.executor().Existing().empty();
}

// Releases everything as an agent would at the end, again while work is under
// way.
void ReleaseAll(test::BusClient* client) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!IsEmpty()) {
    const std::string records = TheWorld().server.Records();
    for (const std::string& id : Recorded(records, "allocation")) {
      client->Call("ReleaseAllocation", "sa{sv}", id.c_str(), 0);
    }
    for (const std::string& id : Recorded(records, "plugin")) {
      client->Call("UnregisterPlugin", "sa{sv}", id.c_str(), 0);
    }
    client->Call("RetryOwed", "a{sv}", 0);
    if (std::chrono::steady_clock::now() > deadline) {
      std::string left = TheWorld().server.Records();
      for (const std::string& one : TheWorld().server.executor().Existing()) {
        left += one + "\n";
      }
      Require(false, "something is left:\n" + left);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace mountd::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  using namespace mountd::fuzz;  // NOLINT(google-build-using-namespace)
  constexpr std::size_t kMost = 4096;
  if (size > kMost) {
    return 0;
  }
  Input input(data, size);
  if (input.Byte() >= 240) {
    WriteRaw(&input);
  } else {
    const auto client = Connect();
    constexpr int kMostCalls = 12;
    for (int i = 0; i < kMostCalls && !input.empty(); ++i) {
      CallOne(client.get(), &input);
    }
  }
  const auto last = Connect();
  Require(last->Call("ListAllocations", "a{sv}", 0).ok(),
          "mountd does not serve any more");
  ReleaseAll(last.get());
  return 0;
}
