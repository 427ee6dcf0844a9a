// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/fake_manager.h"

#include <sdbus-c++/sdbus-c++.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/agent/fake_answers.h"
#include "tests/agent/fake_controller.h"

namespace mountd::agent::test {
namespace {

class Manager final : public sdbus::AdaptorInterfaces<FakeController> {
 public:
  Manager(sdbus::IConnection& bus, Script& script, int socket)
      : AdaptorInterfaces(bus, sdbus::ObjectPath("/org/mountd1")),
        script_(script),
        socket_(socket) {
    registerAdaptor();
  }
  virtual ~Manager() { unregisterAdaptor(); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  bool subscribed() const { return subscribed_; }

  void EmitSpans() { emitOperationStep("op-1", TracedOperation()); }
  void EmitAll() {
    emitOperationDone("op-1", "org.mountd1.Error.Busy", "in use");
    emitOperationProgress("op-1", "RemoveTree", 7);
    emitOperationStep("op-1", Operation());
    emitPluginAdded("csi-local", "node", "web",
                    sdbus::ObjectPath("/org/mountd1/plugin/csi_2dlocal/0"));
    emitPluginChanged("csi-local", "healthy", "");
    emitPluginRemoved("csi-local", "node", "web",
                      sdbus::ObjectPath("/org/mountd1/plugin/csi_2dlocal/0"));
    emitOwedChanged(2);
    emitOwedOverdue(2, std::uint64_t{1'700'000'000'000'000});
    emitStuckChanged(1);
    emitMountLost("web", "app", "data", "why");
    emitMountHealth("web", "app", "data", "hung", "why");
    emitPluginEvent("csi-local", "node", "web", "Plugin became unhealthy",
                    "Error: why");
    emitNodeInfoChanged(
        "csi-local", "node", "web",
        {{"node_id", dbus::Value(std::string("n1"))},
         {"max_volumes", dbus::Value(std::int64_t{16})},
         {"topology",
          dbus::Value(std::map<std::string, std::string>{{"zone", "a"}})},
         {"changed", dbus::Value(std::vector<std::string>{"max_volumes"})}},
        "max_volumes 10 -> 16");
    emitLeaseLapsed("agent", 1000U, "why");
    emitFenceDone("web", "agent");
    emitLeaseChanged(
        "agent", 1000U,
        {{"change", Text("fenced")},
         {"reason", Text("why")},
         {"allocation", Text("web")},
         {"traceparent",
          Text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
         {"request_id", Text("r1")}});
  }

 private:
  dbus::Dict Garbled(const std::string& method, dbus::Dict map) const {
    if (script_.garbled(method)) {
      map["host_path"] = Text("not an ay");
    }
    return map;
  }

  static std::string Inode(const sdbus::UnixFd& fd) {
    struct stat file {};
    return ::fstat(fd.get(), &file) == 0 ? std::to_string(file.st_ino) : "?";
  }

  void Subscribe(const dbus::Dict& options) override {
    script_.Record("Subscribe " + Show(options));
    subscribed_ = true;
  }
  void Unsubscribe(const dbus::Dict& options) override {
    script_.Record("Unsubscribe " + Show(options));
    subscribed_ = false;
  }
  void PrepareAllocation(MapReply&& reply, std::string id,
                         dbus::Dict options) override {
    Answer("PrepareAllocation", id + " " + Show(options), std::move(reply),
           Garbled("PrepareAllocation",
                   {{"host_path", Path("/run/mountd/base/a/" + id)}}));
  }
  void SetupNetwork(MapReply&& reply, std::string id, std::string mode,
                    Ports ports, dbus::Dict options) override {
    Answer("SetupNetwork", id + " " + mode + " " + Show(ports) + Show(options),
           std::move(reply), Network());
  }
  void UpdatePorts(MapReply&& reply, std::string id, Ports ports,
                   dbus::Dict options) override {
    Answer("UpdatePorts", id + " " + Show(ports) + Show(options),
           std::move(reply), Network());
  }
  void GetNetwork(MapReply&& reply, std::string id,
                  dbus::Dict options) override {
    dbus::Dict answer = Network();
    if (options.contains("netns_fd")) {
      answer.emplace("netns", V(sdbus::UnixFd(STDERR_FILENO)));
    }
    Answer("GetNetwork", id + " " + Show(options), std::move(reply), answer);
  }
  void TeardownNetwork(sdbus::Result<>&& reply, std::string id,
                       dbus::Dict options) override {
    Answer("TeardownNetwork", id + " " + Show(options), std::move(reply));
  }
  void PublishVolume(MapReply&& reply, std::string id, std::string alias,
                     std::string volume, std::string plugin, dbus::Dict usage,
                     std::map<std::string, std::string> publish_context,
                     std::map<std::string, std::string> volume_context,
                     dbus::Dict options) override {
    KeepSecrets(options);
    Answer("PublishVolume",
           id + " " + alias + " " + volume + " " + plugin + " " + Show(usage) +
               " " + Show(publish_context) + " " + Show(volume_context) + " " +
               Show(options),
           std::move(reply),
           {{"host_path", Path("/p/\xff")},
            {"read_only", V(true)},
            {"is_device", V(false)}});
  }
  void UnpublishVolume(sdbus::Result<>&& reply, std::string id,
                       std::string alias, dbus::Dict options) override {
    Answer("UnpublishVolume", id + " " + alias + " " + Show(options),
           std::move(reply));
  }
  void ExpandVolume(sdbus::Result<std::int64_t>&& reply, std::string id,
                    std::string alias, std::int64_t required_bytes,
                    dbus::Dict options) override {
    Answer("ExpandVolume",
           id + " " + alias + " " + std::to_string(required_bytes) + " " +
               Show(options),
           std::move(reply), required_bytes);
  }
  void GetVolumeStats(MapReply&& reply, std::string id, std::string alias,
                      dbus::Dict options) override {
    using Usage =
        sdbus::Struct<std::string, std::int64_t, std::int64_t, std::int64_t>;
    Answer("GetVolumeStats", id + " " + alias + " " + Show(options),
           std::move(reply),
           {{"usage", V(std::vector<Usage>{{"bytes", 100, 40, 60}})},
            {"abnormal", V(true)},
            {"condition", Text("its disk is slow")}});
  }
  void BindMount(MapReply&& reply, std::string id, std::string task,
                 std::string name, std::string source_type, std::string source,
                 bool read_only, std::string propagation,
                 dbus::Dict options) override {
    Answer("BindMount",
           id + " " + task + " " + name + " " + source_type + ":" + source +
               (read_only ? " ro " : " rw ") + propagation + " " +
               Show(options),
           std::move(reply), MountConfig(propagation));
  }
  void BindMounts(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                  std::string id, std::vector<dbus::Dict> mounts,
                  dbus::Dict options) override {
    std::string text = id;
    std::vector<dbus::Dict> answers;
    for (const dbus::Dict& mount : mounts) {
      text += " " + Show(mount);
      answers.push_back(
          MountConfig(mount.at("propagation").get<std::string>()));
    }
    Answer("BindMounts", text + " " + Show(options), std::move(reply), answers);
  }
  void ReplaceMount(MapReply&& reply, std::string id, std::string task,
                    std::string name, std::string source_type,
                    std::string source, bool read_only, std::string propagation,
                    dbus::Dict options) override {
    dbus::Dict answer = MountConfig(propagation);
    answer.emplace("replaced_mount_id", V(std::uint64_t{10}));
    answer.emplace("old_holders", V(dbus::Dict{{"more", V(true)}}));
    Answer("ReplaceMount",
           id + " " + task + " " + name + " " + source_type + ":" + source +
               (read_only ? " ro " : " rw ") + propagation + " " +
               Show(options),
           std::move(reply), answer);
  }
  void RepairMount(MapReply&& reply, std::string id, std::string task,
                   std::string name, dbus::Dict options) override {
    dbus::Dict answer = MountConfig("private");
    answer.emplace("replaced_mount_id", V(std::uint64_t{10}));
    answer.emplace("reaches_task", V(false));
    answer.emplace("reason", Text("no inbox"));
    Answer("RepairMount", id + " " + task + " " + name + " " + Show(options),
           std::move(reply), answer);
  }
  void OpenTree(sdbus::Result<sdbus::UnixFd>&& reply, std::string id,
                std::string source_type, std::string source,
                std::string propagation, dbus::Dict options) override {
    Answer("OpenTree",
           id + " " + source_type + ":" + source + " " + propagation + " " +
               Show(options),
           std::move(reply), sdbus::UnixFd(STDERR_FILENO));
  }
  void PrepareInbox(MapReply&& reply, std::string id, std::string task,
                    dbus::Dict options) override {
    Answer("PrepareInbox", id + " " + task + " " + Show(options),
           std::move(reply), Inbox());
  }
  void RemoveInbox(sdbus::Result<>&& reply, std::string id, std::string task,
                   dbus::Dict options) override {
    Answer("RemoveInbox", id + " " + task + " " + Show(options),
           std::move(reply));
  }
  void Unmount(sdbus::Result<>&& reply, std::string id, std::string task,
               std::string name, dbus::Dict options) override {
    Answer("Unmount", id + " " + task + " " + name + " " + Show(options),
           std::move(reply));
  }
  void RemoveTree(MapReply&& reply, sdbus::UnixFd directory,
                  dbus::Dict options) override {
    Answer("RemoveTree", Inode(directory) + " " + Show(options),
           std::move(reply), {{"done", V(std::uint64_t{3})}});
  }
  void ChownTree(MapReply&& reply, sdbus::UnixFd directory, std::uint32_t uid,
                 std::uint32_t gid, dbus::Dict options) override {
    Answer("ChownTree",
           Inode(directory) + " " + std::to_string(uid) + ":" +
               std::to_string(gid) + " " + Show(options),
           std::move(reply),
           {{"done", V(std::uint64_t{3})}, {"left", V(std::uint64_t{1})}});
  }
  void ListHolders(MapReply&& reply, std::string id, std::string task,
                   std::string name, dbus::Dict options) override {
    Answer("ListHolders", id + " " + task + " " + name + " " + Show(options),
           std::move(reply), Holders());
  }
  void ListHandedOut(MapReply&& reply, std::string id,
                     dbus::Dict options) override {
    Answer("ListHandedOut", id + " " + Show(options), std::move(reply),
           HandedOut());
  }
  void VerifyTask(MapReply&& reply, std::string id, std::string task,
                  sdbus::UnixFd pidfd, dbus::Dict options) override {
    Answer("VerifyTask",
           id + " " + task + (pidfd.isValid() ? " fd " : " ") + Show(options),
           std::move(reply), TaskReport(task));
  }
  void AcquireLease(MapReply&& reply, std::string lease,
                    dbus::Dict options) override {
    Answer("AcquireLease", lease + " " + Show(options), std::move(reply),
           LeaseOf(lease));
  }
  void RenewLease(MapReply&& reply, std::string lease,
                  dbus::Dict options) override {
    Answer("RenewLease", lease + " " + Show(options), std::move(reply),
           LeaseOf(lease));
  }
  void ReleaseLease(sdbus::Result<>&& reply, std::string lease,
                    dbus::Dict options) override {
    Answer("ReleaseLease", lease + " " + Show(options), std::move(reply));
  }
  void ListLeases(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                  dbus::Dict options) override {
    Answer("ListLeases", Show(options), std::move(reply),
           std::vector<dbus::Dict>{LeaseOf("agent")});
  }
  void GetFence(MapReply&& reply, std::string id, dbus::Dict options) override {
    Answer("GetFence", id + " " + Show(options), std::move(reply), FenceOf(id));
  }
  void ReleaseAllocation(MapReply&& reply, std::string id,
                         dbus::Dict options) override {
    Answer("ReleaseAllocation", id + " " + Show(options), std::move(reply),
           Receipt(id));
  }
  void GetReceipt(MapReply&& reply, std::string id,
                  dbus::Dict options) override {
    Answer("GetReceipt", id + " " + Show(options), std::move(reply),
           Receipt(id));
  }
  void GetAllocation(MapReply&& reply, std::string id,
                     dbus::Dict options) override {
    Answer("GetAllocation", id + " " + Show(options), std::move(reply),
           Allocation(id));
  }
  void ListAllocations(sdbus::Result<Entries>&& reply,
                       dbus::Dict options) override {
    Entries entries;
    for (const std::string& id : script_.allocations()) {
      entries.emplace_back(id, 1000U, "example", "prepared");
    }
    Answer("ListAllocations", Show(options), std::move(reply), entries);
  }
  void Reconcile(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                 std::string scope, std::uint64_t epoch,
                 std::vector<std::string> wanted, bool dry_run,
                 dbus::Dict options) override {
    std::string asked = "[" + scope + "] " + std::to_string(epoch);
    for (const std::string& name : wanted) {
      asked += " " + name;
    }
    Answer("Reconcile", asked + (dry_run ? " dry " : " ") + Show(options),
           std::move(reply), Reconciled());
  }
  void ListVolumes(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                   dbus::Dict options) override {
    Answer("ListVolumes", Show(options), std::move(reply),
           {{{"plugin", Text("csi-local")},
             {"volume", Text("web-data")},
             {"state", Text("staged")},
             {"access_mode", Text("single-node-writer")},
             {"attachment_mode", Text("file-system")},
             {"fs_type", Text("ext4")},
             {"users", V(std::vector<sdbus::Struct<std::string, std::string>>{
                           {"web", "data"}})}}});
  }
  void RegisterPlugin(MapReply&& reply, std::string plugin, std::string type,
                      std::string allocation, dbus::Dict options) override {
    using Mounts = std::vector<sdbus::Struct<std::vector<std::uint8_t>,
                                             std::string, bool, std::string>>;
    Answer(
        "RegisterPlugin",
        plugin + " " + type + " [" + allocation + "] " + Show(options),
        std::move(reply),
        {{"host_path", Path("/run/mountd/base/p/" + plugin)},
         {"endpoint", Text("unix:///csi/csi.sock")},
         {"mounts", V(Mounts{{{'/', 'p'}, "/csi", false, "bidirectional"}})}});
  }
  void UnregisterPlugin(sdbus::Result<>&& reply, std::string plugin,
                        dbus::Dict options) override {
    Answer("UnregisterPlugin", plugin + " " + Show(options), std::move(reply));
  }
  void GetPlugin(MapReply&& reply, std::string plugin,
                 dbus::Dict options) override {
    Answer("GetPlugin", plugin + " " + Show(options), std::move(reply),
           Plugin(plugin));
  }
  void ListPlugins(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                   dbus::Dict options) override {
    Answer("ListPlugins", Show(options), std::move(reply),
           {Plugin("csi-local"), Plugin("sick")});
  }
  void ListOwed(sdbus::Result<OwedList>&& reply, dbus::Dict options) override {
    OwedList owed{{std::uint64_t{3}, "mount", "web/server/data", "EBUSY", 4U,
                   std::uint64_t{1'700'000'000'000'000}}};
    if (script_.emptied("ListOwed")) {
      owed.clear();
    }
    Answer("ListOwed", Show(options), std::move(reply), owed);
  }
  void RetryOwed(sdbus::Result<std::uint32_t>&& reply,
                 dbus::Dict options) override {
    Answer("RetryOwed", Show(options), std::move(reply), 1U);
  }
  void Cancel(sdbus::Result<>&& reply, std::string operation,
              dbus::Dict options) override {
    Answer("Cancel", operation + " " + Show(options), std::move(reply));
  }
  void ListOperations(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                      dbus::Dict options) override {
    Answer("ListOperations", Show(options), std::move(reply),
           script_.emptied("ListOperations")
               ? std::vector<dbus::Dict>()
               : std::vector<dbus::Dict>{Operation()});
  }
  void GetCapabilities(MapReply&& reply, dbus::Dict options) override {
    Answer("GetCapabilities", Show(options), std::move(reply),
           Capabilities(!script_.emptied("GetCapabilities")));
  }
  void ListHostVolumes(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                       dbus::Dict options) override {
    Answer("ListHostVolumes", Show(options), std::move(reply),
           script_.emptied("ListHostVolumes") ? std::vector<dbus::Dict>()
                                              : HostVolumes());
  }
  void ListFilesystems(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                       dbus::Dict options) override {
    Answer("ListFilesystems", Show(options), std::move(reply),
           script_.emptied("ListFilesystems") ? std::vector<dbus::Dict>()
                                              : Filesystems());
  }
  void ListNetworks(sdbus::Result<std::vector<dbus::Dict>>&& reply,
                    dbus::Dict options) override {
    Answer("ListNetworks", Show(options), std::move(reply),
           script_.emptied("ListNetworks") ? std::vector<dbus::Dict>()
                                           : Networks());
  }
  void GetStatistics(sdbus::Result<Statistics>&& reply,
                     dbus::Dict options) override {
    Answer("GetStatistics", Show(options), std::move(reply),
           Statistics{{"BindMount", std::uint64_t{9}, std::uint64_t{1},
                       std::uint64_t{120}, std::uint64_t{900}}});
  }
  void Reload(sdbus::Result<std::vector<std::string>>&& reply,
              dbus::Dict options) override {
    Answer("Reload", Show(options), std::move(reply),
           std::vector<std::string>{"limits"});
  }
  std::string Version() override { return "0.1.0"; }
  std::map<std::string, sdbus::Struct<std::uint32_t, std::uint32_t>> Addresses()
      override {
    return {};
  }
  std::uint32_t FreeHostPorts() override { return 42; }
  sdbus::Struct<std::uint32_t, std::uint64_t> Owed() override {
    return {1U, std::uint64_t{1'700'000'000'000'000}};
  }
  std::uint32_t StuckExecutors() override { return 0; }
  std::map<std::string, std::uint64_t> DroppedPeers() override {
    return {{"unread", std::uint64_t{7}}};
  }

  Script& script() override { return script_; }
  int socket() const override { return socket_; }

  Script& script_;
  const int socket_;
  std::atomic<bool> subscribed_{false};
};

}  // namespace

// Owns one connection, served on a thread of its own.
class FakeServer::Peer {
 public:
  Peer(UniqueFd socket, Script& script)
      : socket_(::dup(socket.get())),
        thread_([this, fd = socket.release(), &script] { Serve(fd, script); }) {
  }
  ~Peer() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  bool Emit(void (Manager::*emit)()) {
    const std::lock_guard lock(mutex_);
    if (manager_ == nullptr || !manager_->subscribed()) {
      return false;
    }
    ((*manager_).*emit)();
    return true;
  }

 private:
  void Serve(int fd, Script& script) {
    try {
      auto bus = sdbus::createServerBus(fd);
      {
        const std::lock_guard lock(mutex_);
        manager_ = std::make_unique<Manager>(*bus, script, socket_.get());
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

  UniqueFd socket_;
  std::mutex mutex_;
  std::unique_ptr<Manager> manager_;
  std::thread thread_;
};

FakeServer::FakeServer() { Start(); }

FakeServer::~FakeServer() { Stop(); }

void FakeServer::Start() {
  listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.data(), path_.size());
  const void* generic = &address;
  if (::bind(listener_.get(), static_cast<const sockaddr*>(generic),
             sizeof(address)) < 0 ||
      ::listen(listener_.get(), 8) < 0) {
    std::abort();
  }
  stopping_ = false;
  acceptor_ = std::thread([this] { Accept(); });
}

void FakeServer::Stop() {
  if (!acceptor_.joinable()) {
    return;
  }
  std::vector<std::unique_ptr<Peer>> peers;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    peers.swap(peers_);
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  listener_.reset();
  ::unlink(path_.c_str());
}

void FakeServer::Accept() {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) {
      return;
    }
    const std::lock_guard lock(mutex_);
    if (!stopping_) {
      peers_.push_back(std::make_unique<Peer>(std::move(socket), script_));
    }
  }
}

bool FakeServer::EmitSignals() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& peer : peers_) {
    any = peer->Emit(&Manager::EmitAll) || any;
  }
  return any;
}

bool FakeServer::EmitSpans() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& peer : peers_) {
    any = peer->Emit(&Manager::EmitSpans) || any;
  }
  return any;
}

class FakeBusService::Impl {
 public:
  explicit Impl(Script& script)
      : bus_(sdbus::createSystemBusConnection()), manager_(*bus_, script, -1) {
    bus_->requestName(sdbus::ServiceName("org.mountd1"));
    bus_->enterEventLoopAsync();
  }
  void EmitSignals() { manager_.EmitAll(); }

 private:
  std::unique_ptr<sdbus::IConnection> bus_;
  Manager manager_;
};

FakeBusService::FakeBusService() : impl_(std::make_unique<Impl>(script_)) {}
FakeBusService::~FakeBusService() = default;
void FakeBusService::EmitSignals() { impl_->EmitSignals(); }

}  // namespace mountd::agent::test
