// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/fake_release.h"

#include <fcntl.h>
#include <sdbus-c++/sdbus-c++.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <utility>

#include "dbus/generated/manager_adaptor.h"
#include "tests/agent/fake_answers.h"
#include "tests/support/unix_socket.h"

namespace mountd::agent::test {
namespace {

using Keys = std::set<std::string>;
using Texts = std::map<std::string, std::string>;

const Keys kOfMounts = {"task_path", "noexec",    "noatime", "idmap",
                        "directory", "container", "size",    "inodes",
                        "mode",      "uid",       "gid",     "noswap"};
// Returns the keys of one of BindMounts' mounts.
Keys OfEachMount() {
  Keys keys = {"task",   "name",      "source_type",
               "source", "read_only", "propagation"};
  keys.insert(kOfMounts.begin(), kOfMounts.end());
  return keys;
}
const Keys kOfLists = {"all_users"};
const Keys kOfControllers = {"secrets"};

// The options of each method of the release that has more than "patience_ms".
const std::map<std::string, Keys> kOptions = {
    {"PrepareAllocation", {"scope", "cgroup"}},
    {"SetupNetwork",
     {"network", "interface", "address", "address6", "isolated",
      "default_route", "hostname", "hosts", "dns_servers", "dns_searches",
      "dns_options", "netns", "cni_args", "mac", "ips", "bandwidth"}},
    {"TeardownNetwork", {"interface"}},
    {"PublishVolume", {"secrets"}},
    {"BindMount", kOfMounts},
    {"BindMounts mount", OfEachMount()},
    {"ReplaceMount", kOfMounts},
    {"PrepareInbox", {"open"}},
    {"Unmount", {"mode"}},
    {"ListHolders", {"scope"}},
    {"ListAllocations", kOfLists},
    {"ListVolumes", kOfLists},
    {"ListOwed", kOfLists},
    {"ExpandVolume", {"limit_bytes", "secrets"}},
    {"RegisterPlugin",
     {"mount_dir", "stage_publish_base_dir", "bare_directories",
      "health_timeout_ms"}},
    {"UnregisterPlugin", {"type", "allocation", "force"}},
    {"ControllerPublishVolume", kOfControllers},
    {"ControllerUnpublishVolume", kOfControllers},
    {"ValidateVolume", {"parameters", "secrets"}},
    {"CreateVolume", kOfControllers},
    {"DeleteVolume", kOfControllers},
    {"ControllerExpandVolume", {"limit_bytes", "usage", "secrets"}},
    {"ListPluginVolumes", {"max_entries", "starting_token"}},
    {"GetCapacity", {"usages", "parameters", "topology"}},
    {"CallController", kOfControllers}};

// Returns each word that stands in quotes in the release's contract. All keys
// of its dictionaries are among them.
Keys WordsOfTheRelease() {
  std::ifstream file(MOUNTD_RELEASED_MANAGER_XML);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string xml = text.str();
  const std::regex quoted("\"([a-z][a-z0-9_]*)\"");
  Keys words;
  for (std::sregex_iterator it(xml.begin(), xml.end(), quoted), end; it != end;
       ++it) {
    words.insert((*it)[1]);
  }
  return words;
}

// The next functions return what of an answer the release knew.
template <typename T>
const T& OfTheRelease(const T& value) {
  return value;
}
dbus::Dict OfTheRelease(const dbus::Dict& answer);
std::vector<dbus::Dict> OfTheRelease(const std::vector<dbus::Dict>& answers) {
  std::vector<dbus::Dict> known;
  for (const dbus::Dict& answer : answers) {
    known.push_back(OfTheRelease(answer));
  }
  return known;
}
dbus::Dict OfTheRelease(const dbus::Dict& answer) {
  static const Keys kWords = WordsOfTheRelease();
  dbus::Dict known;
  for (const auto& [key, value] : answer) {
    if (!kWords.contains(key)) {
      continue;
    }
    known.emplace(key,
                  value.containsValueOfType<std::vector<dbus::Dict>>()
                      ? V(OfTheRelease(value.get<std::vector<dbus::Dict>>()))
                      : value);
  }
  return known;
}

dbus::Dict Replaced(const std::string& propagation) {
  dbus::Dict answer = MountConfig(propagation);
  answer.emplace("replaced_mount_id", V(std::uint64_t{10}));
  answer.emplace("reaches_task", V(false));
  answer.emplace("reason", Text("no inbox"));
  return answer;
}

dbus::Dict InboxOf(const dbus::Dict& options) {
  dbus::Dict answer = Inbox();
  if (options.contains("open")) {
    answer.emplace("tree", V(sdbus::UnixFd(STDERR_FILENO)));
  }
  return answer;
}

dbus::Dict Stats() {
  using Usage =
      sdbus::Struct<std::string, std::int64_t, std::int64_t, std::int64_t>;
  return {{"usage", V(std::vector<Usage>{{"bytes", 100, 40, 60}})}};
}

dbus::Dict Staged() {
  using User = sdbus::Struct<std::string, std::string>;
  return {{"plugin", Text("csi-local")},
          {"volume", Text("web-data")},
          {"state", Text("staged")},
          {"users", V(std::vector<User>{{"web", "data"}})}};
}

class ManagerOfRelease final
    : public sdbus::AdaptorInterfaces<org::mountd1::Manager_adaptor> {
 public:
  explicit ManagerOfRelease(sdbus::IConnection& bus)
      : AdaptorInterfaces(bus, sdbus::ObjectPath("/org/mountd1")) {
    registerAdaptor();
  }
  virtual ~ManagerOfRelease() { unregisterAdaptor(); }
  ManagerOfRelease(const ManagerOfRelease&) = delete;
  ManagerOfRelease& operator=(const ManagerOfRelease&) = delete;

  bool subscribed() const { return subscribed_; }

  void EmitAll() {
    const sdbus::ObjectPath object("/org/mountd1/plugin/csi_2dlocal/0");
    emitOperationDone("op-1", "org.mountd1.Error.Busy", "in use");
    emitOperationProgress("op-1", "RemoveTree", 7);
    emitOperationStep("op-1", OfTheRelease(Operation()));
    emitPluginAdded("csi-local", "node", "web", object);
    emitPluginChanged("csi-local", "healthy", "");
    emitPluginRemoved("csi-local", "node", "web", object);
    emitOwedChanged(2);
    emitOwedOverdue(2, std::uint64_t{1'700'000'000'000'000});
    emitStuckChanged(1);
    emitMountLost("web", "app", "data", "why");
    emitMountHealth("web", "app", "data", "hung", "why");
  }

 private:
  // Returns an error if the keys have one that this method of the release did
  // not have.
  static std::optional<sdbus::Error> Refusal(const std::string& method,
                                             const dbus::Dict& options) {
    const auto known = kOptions.find(method);
    for (const auto& [key, value] : options) {
      if (key != "patience_ms" &&
          (known == kOptions.end() || !known->second.contains(key))) {
        return sdbus::Error(
            sdbus::Error::Name("org.mountd1.Error.InvalidArgument"),
            "check options[\"" + key + "\"]: is not known");
      }
    }
    return std::nullopt;
  }

  template <typename... T>
  static void Answer(const char* method, const dbus::Dict& options,
                     sdbus::Result<T...>&& reply, const T&... values) {
    if (const auto refusal = Refusal(method, options)) {
      reply.returnError(*refusal);
    } else {
      reply.returnResults(OfTheRelease(values)...);
    }
  }

  void SetSubscribed(const char* method, const dbus::Dict& options, bool now) {
    if (const auto refusal = Refusal(method, options)) {
      throw *refusal;
    }
    subscribed_ = now;
  }
  void Subscribe(const dbus::Dict& options) override {
    SetSubscribed("Subscribe", options, true);
  }
  void Unsubscribe(const dbus::Dict& options) override {
    SetSubscribed("Unsubscribe", options, false);
  }
  void PrepareAllocation(MapReply&& reply, std::string allocation,
                         dbus::Dict options) override {
    Answer("PrepareAllocation", options, std::move(reply),
           dbus::Dict{{"host_path", Path("/run/mountd/base/a/" + allocation)}});
  }
  void SetupNetwork(MapReply&& reply, std::string /*allocation*/,
                    std::string /*mode*/, Ports /*ports*/,
                    dbus::Dict options) override {
    Answer("SetupNetwork", options, std::move(reply), Network());
  }
  void TeardownNetwork(sdbus::Result<>&& reply, std::string /*allocation*/,
                       dbus::Dict options) override {
    Answer("TeardownNetwork", options, std::move(reply));
  }
  void PublishVolume(MapReply&& reply, std::string /*allocation*/,
                     std::string /*alias*/, std::string /*volume*/,
                     std::string /*plugin*/, dbus::Dict /*usage*/,
                     Texts /*publish_context*/, Texts /*volume_context*/,
                     dbus::Dict options) override {
    Answer("PublishVolume", options, std::move(reply),
           dbus::Dict{{"host_path", Path("/p/data")},
                      {"read_only", V(true)},
                      {"is_device", V(false)}});
  }
  void UnpublishVolume(sdbus::Result<>&& reply, std::string /*allocation*/,
                       std::string /*alias*/, dbus::Dict options) override {
    Answer("UnpublishVolume", options, std::move(reply));
  }
  void BindMount(MapReply&& reply, std::string /*allocation*/,
                 std::string /*task*/, std::string /*name*/,
                 std::string /*source_type*/, std::string /*source*/,
                 bool /*read_only*/, std::string propagation,
                 dbus::Dict options) override {
    Answer("BindMount", options, std::move(reply), MountConfig(propagation));
  }
  void BindMounts(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                  std::string /*allocation*/, std::vector<dbus::Dict> mounts,
                  dbus::Dict options) override {
    for (const dbus::Dict& mount : mounts) {
      if (const auto refusal = Refusal("BindMounts mount", mount)) {
        reply.returnError(*refusal);
        return;
      }
    }
    Answer("BindMounts", options, std::move(reply),
           std::vector<dbus::Dict>(mounts.size(), MountConfig("private")));
  }
  void ReplaceMount(MapReply&& reply, std::string /*allocation*/,
                    std::string /*task*/, std::string /*name*/,
                    std::string /*source_type*/, std::string /*source*/,
                    bool /*read_only*/, std::string propagation,
                    dbus::Dict options) override {
    Answer("ReplaceMount", options, std::move(reply), Replaced(propagation));
  }
  void RepairMount(MapReply&& reply, std::string /*allocation*/,
                   std::string /*task*/, std::string /*name*/,
                   dbus::Dict options) override {
    Answer("RepairMount", options, std::move(reply), Replaced("private"));
  }
  void OpenTree(sdbus::Result<sdbus::UnixFd>&& reply,
                std::string /*allocation*/, std::string /*source_type*/,
                std::string /*source*/, std::string /*propagation*/,
                dbus::Dict options) override {
    Answer("OpenTree", options, std::move(reply), sdbus::UnixFd(STDERR_FILENO));
  }
  void PrepareInbox(MapReply&& reply, std::string /*allocation*/,
                    std::string /*task*/, dbus::Dict options) override {
    Answer("PrepareInbox", options, std::move(reply), InboxOf(options));
  }
  void RemoveInbox(sdbus::Result<>&& reply, std::string /*allocation*/,
                   std::string /*task*/, dbus::Dict options) override {
    Answer("RemoveInbox", options, std::move(reply));
  }
  void Unmount(sdbus::Result<>&& reply, std::string /*allocation*/,
               std::string /*task*/, std::string /*name*/,
               dbus::Dict options) override {
    Answer("Unmount", options, std::move(reply));
  }
  void RemoveTree(MapReply&& reply, sdbus::UnixFd /*directory*/,
                  dbus::Dict options) override {
    Answer("RemoveTree", options, std::move(reply),
           dbus::Dict{{"done", V(std::uint64_t{3})}});
  }
  void ListHolders(MapReply&& reply, std::string /*allocation*/,
                   std::string /*task*/, std::string /*name*/,
                   dbus::Dict options) override {
    Answer("ListHolders", options, std::move(reply), Holders());
  }
  void ChownTree(MapReply&& reply, sdbus::UnixFd /*directory*/,
                 std::uint32_t /*uid*/, std::uint32_t /*gid*/,
                 dbus::Dict options) override {
    Answer("ChownTree", options, std::move(reply),
           dbus::Dict{{"done", V(std::uint64_t{3})},
                      {"left", V(std::uint64_t{1})}});
  }
  void VerifyTask(MapReply&& reply, std::string /*allocation*/,
                  std::string task, sdbus::UnixFd /*pidfd*/,
                  dbus::Dict options) override {
    Answer("VerifyTask", options, std::move(reply), TaskReport(task));
  }
  void ReleaseAllocation(MapReply&& reply, std::string allocation,
                         dbus::Dict options) override {
    Answer("ReleaseAllocation", options, std::move(reply), Receipt(allocation));
  }
  void GetReceipt(MapReply&& reply, std::string allocation,
                  dbus::Dict options) override {
    Answer("GetReceipt", options, std::move(reply), Receipt(allocation));
  }
  void GetAllocation(MapReply&& reply, std::string allocation,
                     dbus::Dict options) override {
    Answer("GetAllocation", options, std::move(reply), Allocation(allocation));
  }
  void ListAllocations(sdbus::Result<Entries>&& reply,
                       dbus::Dict options) override {
    Answer("ListAllocations", options, std::move(reply),
           Entries{{"web", 1000U, "example", "prepared"}});
  }
  void Reconcile(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                 std::string /*scope*/, std::uint64_t /*epoch*/,
                 std::vector<std::string> /*wanted*/, bool /*dry_run*/,
                 dbus::Dict options) override {
    Answer("Reconcile", options, std::move(reply), Reconciled());
  }
  void ExpandVolume(sdbus::Result<std::int64_t>&& reply,
                    std::string /*allocation*/, std::string /*alias*/,
                    std::int64_t required_bytes, dbus::Dict options) override {
    Answer("ExpandVolume", options, std::move(reply), required_bytes);
  }
  void GetVolumeStats(MapReply&& reply, std::string /*allocation*/,
                      std::string /*alias*/, dbus::Dict options) override {
    Answer("GetVolumeStats", options, std::move(reply), Stats());
  }
  void ListVolumes(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                   dbus::Dict options) override {
    Answer("ListVolumes", options, std::move(reply),
           std::vector<dbus::Dict>{Staged()});
  }
  void RegisterPlugin(MapReply&& reply, std::string plugin,
                      std::string /*type*/, std::string /*allocation*/,
                      dbus::Dict options) override {
    Answer("RegisterPlugin", options, std::move(reply),
           dbus::Dict{{"host_path", Path("/run/mountd/base/p/" + plugin)},
                      {"endpoint", Text("unix:///csi/csi.sock")}});
  }
  void UnregisterPlugin(sdbus::Result<>&& reply, std::string /*plugin*/,
                        dbus::Dict options) override {
    Answer("UnregisterPlugin", options, std::move(reply));
  }
  void GetPlugin(MapReply&& reply, std::string plugin,
                 dbus::Dict options) override {
    Answer("GetPlugin", options, std::move(reply), Plugin(plugin));
  }
  void ListPlugins(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                   dbus::Dict options) override {
    Answer("ListPlugins", options, std::move(reply),
           std::vector<dbus::Dict>{Plugin("csi-local")});
  }
  void ControllerPublishVolume(sdbus::Result<Texts>&& reply,
                               std::string /*plugin*/, std::string /*volume*/,
                               std::string /*node_id*/, dbus::Dict /*usage*/,
                               Texts /*volume_context*/,
                               dbus::Dict options) override {
    Answer("ControllerPublishVolume", options, std::move(reply),
           Texts{{"lun", "7"}});
  }
  void ControllerUnpublishVolume(sdbus::Result<>&& reply,
                                 std::string /*plugin*/, std::string /*volume*/,
                                 std::string /*node_id*/,
                                 dbus::Dict options) override {
    Answer("ControllerUnpublishVolume", options, std::move(reply));
  }
  void ValidateVolume(MapReply&& reply, std::string /*plugin*/,
                      std::string /*volume*/, dbus::Dict /*usage*/,
                      Texts /*volume_context*/, dbus::Dict options) override {
    Answer("ValidateVolume", options, std::move(reply),
           dbus::Dict{{"confirmed", V(true)}});
  }
  void CreateVolume(MapReply&& reply, std::string /*plugin*/, std::string name,
                    dbus::Dict /*spec*/, dbus::Dict options) override {
    Answer("CreateVolume", options, std::move(reply),
           CreatedVolume("id-of-" + name));
  }
  void DeleteVolume(sdbus::Result<>&& reply, std::string /*plugin*/,
                    std::string /*volume*/, dbus::Dict options) override {
    Answer("DeleteVolume", options, std::move(reply));
  }
  void ControllerExpandVolume(MapReply&& reply, std::string /*plugin*/,
                              std::string /*volume*/,
                              std::int64_t required_bytes,
                              dbus::Dict options) override {
    Answer("ControllerExpandVolume", options, std::move(reply),
           dbus::Dict{{"capacity_bytes", V(required_bytes)}});
  }
  void ListPluginVolumes(MapReply&& reply, std::string /*plugin*/,
                         dbus::Dict options) override {
    Answer("ListPluginVolumes", options, std::move(reply),
           dbus::Dict{{"volumes",
                       V(std::vector<dbus::Dict>{CreatedVolume("vol-1")})}});
  }
  void GetCapacity(MapReply&& reply, std::string /*plugin*/,
                   dbus::Dict options) override {
    Answer("GetCapacity", options, std::move(reply),
           dbus::Dict{{"available_bytes", V(std::int64_t{5})}});
  }
  void CallController(sdbus::Result<std::vector<std::uint8_t>>&& reply,
                      std::string /*plugin*/, std::string rpc,
                      std::vector<std::uint8_t> /*request*/,
                      dbus::Dict options) override {
    Answer("CallController", options, std::move(reply), SnapshotResponse(rpc));
  }
  void ListOwed(sdbus::Result<OwedList>&& reply, dbus::Dict options) override {
    Answer("ListOwed", options, std::move(reply),
           OwedList{{std::uint64_t{3}, "unmount", "web/server/data", "EBUSY",
                     4U, std::uint64_t{5}}});
  }
  void RetryOwed(sdbus::Result<std::uint32_t>&& reply,
                 dbus::Dict options) override {
    Answer("RetryOwed", options, std::move(reply), std::uint32_t{1});
  }
  void Cancel(sdbus::Result<>&& reply, std::string /*operation*/,
              dbus::Dict options) override {
    Answer("Cancel", options, std::move(reply));
  }
  void ListOperations(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                      dbus::Dict options) override {
    Answer("ListOperations", options, std::move(reply),
           std::vector<dbus::Dict>{Operation()});
  }
  void GetCapabilities(MapReply&& reply, dbus::Dict options) override {
    Answer("GetCapabilities", options, std::move(reply), Capabilities());
  }
  void GetStatistics(sdbus::Result<Statistics>&& reply,
                     dbus::Dict options) override {
    Answer("GetStatistics", options, std::move(reply),
           Statistics{{"BindMount", std::uint64_t{9}, std::uint64_t{1},
                       std::uint64_t{120}, std::uint64_t{900}}});
  }
  void Reload(sdbus::Result<std::vector<std::string>>&& reply,
              dbus::Dict options) override {
    Answer("Reload", options, std::move(reply),
           std::vector<std::string>{"limits"});
  }
  std::string Version() override { return "0.1.0"; }
  std::map<std::string, sdbus::Struct<std::uint32_t, std::uint32_t>> Addresses()
      override {
    return {};
  }
  sdbus::Struct<std::uint32_t, std::uint64_t> Owed() override {
    return {1U, std::uint64_t{1'700'000'000'000'000}};
  }
  std::uint32_t FreeHostPorts() override { return 42; }
  std::uint32_t StuckExecutors() override { return 0; }

  std::atomic<bool> subscribed_{false};
};

}  // namespace

// Owns one connection, served on a thread of its own.
class FakeRelease::Peer {
 public:
  explicit Peer(UniqueFd socket)
      : socket_(::dup(socket.get())),
        thread_([this, fd = socket.release()] { Serve(fd); }) {}
  ~Peer() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool Emit() {
    const std::lock_guard lock(mutex_);
    if (manager_ == nullptr || !manager_->subscribed()) {
      return false;
    }
    manager_->EmitAll();
    return true;
  }

 private:
  void Serve(int fd) {
    try {
      const auto bus = sdbus::createServerBus(fd);
      {
        const std::lock_guard lock(mutex_);
        manager_ = std::make_unique<ManagerOfRelease>(*bus);
      }
      try {
        bus->enterEventLoop();
      } catch (const sdbus::Error&) {
        // The peer has gone, which is the only way out of that loop.
      }
      const std::lock_guard lock(mutex_);
      manager_.reset();
    } catch (const sdbus::Error&) {
      // The peer went away before it had authenticated.
    }
  }

  const UniqueFd socket_;
  std::mutex mutex_;
  std::unique_ptr<ManagerOfRelease> manager_;  // guarded by mutex_
  std::thread thread_;
};

FakeRelease::FakeRelease() : listener_(mountd::test::ListenAt(path_)) {
  // Accept waits for peers.
  ::fcntl(listener_.get(), F_SETFL, 0);
  acceptor_ = std::thread([this] { Accept(); });
}

FakeRelease::~FakeRelease() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
}

void FakeRelease::Accept() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) {
      return;
    }
    auto peer = std::make_unique<Peer>(std::move(socket));
    const std::lock_guard lock(mutex_);
    peers_.push_back(std::move(peer));
  }
}

bool FakeRelease::EmitSignals() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& peer : peers_) {
    any = peer->Emit() || any;
  }
  return any;
}

}  // namespace mountd::agent::test
