// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client.h"

#include <algorithm>
#include <functional>
#include <thread>
#include <type_traits>
#include <utility>

#include "agent/connection.h"
#include "agent/convert.h"
#include "agent/secrets.h"

namespace mountd::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kMostPatience{20'000};
constexpr milliseconds kJoinPause{10};

void AddText(VariantMap& options, const char* key, const std::string& text) {
  if (!text.empty()) {
    options.emplace(key, sdbus::Variant(text));
  }
}

}  // namespace

class Client::Impl {
 public:
  explicit Impl(ClientOptions options) : options_(std::move(options)) {}

  Result<void> Connect() {
    MOUNTD_ASSIGN(connection_, Connection::Open(options_, nullptr));
    return Ok();
  }

  // One method call with its joins and its one reconnect. `call` is given the
  // proxy and the options to send, and may run more than once.
  template <typename F>
  // NOLINTNEXTLINE(performance-unnecessary-value-param): moved, if F is void
  auto Call(const char* op, std::string_view object, VariantMap options,
            const F& call)
      -> Result<std::invoke_result_t<const F&, ManagerProxy&, VariantMap&>> {
    using Answer = std::invoke_result_t<const F&, ManagerProxy&, VariantMap&>;
    if constexpr (std::is_void_v<Answer>) {
      return Run(op, std::string(object), std::move(options), call);
    } else {
      Answer answer{};
      MOUNTD_TRY(Run(op, std::string(object), std::move(options),
                     [&](ManagerProxy& proxy, VariantMap& sent) {
                       answer = call(proxy, sent);
                     }));
      return answer;
    }
  }

 private:
  using Step = std::function<void(ManagerProxy&, VariantMap&)>;

  Result<void> Run(const std::string& op, const std::string& object,
                   VariantMap options, const Step& call) {
    const auto deadline = steady_clock::now() + options_.deadline;
    for (;;) {
      const auto started = steady_clock::now();
      SetPatience(options, deadline - started);
      Result<void> done = Once(op, object, options, call);
      if (done || done.error().code != Code::kInProgress || !options_.join ||
          steady_clock::now() >= deadline) {
        return done;
      }
      // A daemon of little patience must not make this a busy loop.
      if (steady_clock::now() - started < kJoinPause) {
        std::this_thread::sleep_for(kJoinPause);
      }
    }
  }

  void SetPatience(VariantMap& options, steady_clock::duration left) const {
    milliseconds patience = options_.patience;
    const auto left_ms = std::max(
        milliseconds(1), std::chrono::duration_cast<milliseconds>(left));
    if (options_.join &&
        left_ms < (patience.count() == 0 ? kMostPatience : patience)) {
      patience = left_ms;
    }
    if (patience.count() > 0) {
      options["patience_ms"] =
          sdbus::Variant(static_cast<std::uint32_t>(patience.count()));
    }
  }

  Result<void> Once(const std::string& op, const std::string& object,
                    VariantMap& options, const Step& call) {
    // The analyzer does not follow the exception to where it is read.
    // NOLINTBEGIN(clang-analyzer-deadcode.DeadStores)
    bool may_reconnect = options_.reconnect;
    for (;;) {
      if (connection_ == nullptr) {
        if (!options_.reconnect) {
          return MakeError(Code::kUnavailable, op, object,
                           "the connection to mountd was lost");
        }
        may_reconnect = false;
        // NOLINTEND(clang-analyzer-deadcode.DeadStores)
        MOUNTD_TRY(Connect());
      }
      CallFailure failure;
      try {
        call(connection_->proxy(), options);
        return Ok();
      } catch (const sdbus::Error& error) {
        failure = FailureOf(error, op, object);
      }
      if (failure.connection_lost) {
        connection_.reset();
      }
      if (!failure.connection_lost || !may_reconnect) {
        return failure.error;
      }
    }
  }

  const ClientOptions options_;
  std::unique_ptr<Connection> connection_;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Client> Client::Connect(ClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  MOUNTD_TRY(impl->Connect());
  return Client(std::move(impl));
}

Result<std::string> Client::Version() {
  return impl_->Call("Version", "", {}, [](ManagerProxy& proxy, VariantMap&) {
    return proxy.Version();
  });
}

Result<std::string> Client::PrepareAllocation(
    std::string_view allocation, const AllocationOptions& options) {
  VariantMap sent;
  AddText(sent, "scope", options.scope);
  if (options.cgroup >= 0) {
    sent.emplace("cgroup", sdbus::Variant(sdbus::UnixFd(options.cgroup)));
  }
  const std::string id(allocation);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("PrepareAllocation", id, std::move(sent),
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.PrepareAllocation(id, opts);
                            }));
  return ToHostPath(answer);
}

Result<AllocationStatus> Client::GetAllocation(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("GetAllocation", id, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.GetAllocation(id, opts);
                            }));
  return ToAllocation(answer);
}

Result<std::vector<AllocationEntry>> Client::ListAllocations() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListAllocations", "", {},
                            [](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ListAllocations(opts);
                            }));
  std::vector<AllocationEntry> list;
  list.reserve(answer.size());
  for (const auto& entry : answer) {
    list.push_back(
        {entry.get<0>(), entry.get<1>(), entry.get<2>(), entry.get<3>()});
  }
  return list;
}

Result<Receipt> Client::ReleaseAllocation(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("ReleaseAllocation", id, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ReleaseAllocation(id, opts);
                            }));
  return ToReceipt(answer);
}

Result<Receipt> Client::GetReceipt(std::string_view allocation) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("GetReceipt", id, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.GetReceipt(id, opts);
                            }));
  return ToReceipt(answer);
}

Result<NetworkStatus> Client::SetupNetwork(std::string_view allocation,
                                           const NetworkSpec& spec) {
  VariantMap sent;
  AddText(sent, "network", spec.network);
  const std::string id(allocation);
  const auto ports = ToWire(spec.ports);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("SetupNetwork", id, std::move(sent),
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.SetupNetwork(id, spec.mode, ports,
                                                        opts);
                            }));
  return ToNetwork(answer);
}

Result<void> Client::TeardownNetwork(std::string_view allocation) {
  const std::string id(allocation);
  return impl_->Call("TeardownNetwork", id, {},
                     [&](ManagerProxy& proxy, VariantMap& opts) {
                       proxy.TeardownNetwork(id, opts);
                     });
}

Result<PublishedVolume> Client::PublishVolume(std::string_view allocation,
                                              const VolumeSpec& spec) {
  VariantMap sent;
  if (!spec.secrets.empty()) {
    MOUNTD_ASSIGN(UniqueFd fd, SealSecrets(spec.secrets));
    sent.emplace("secrets",
                 sdbus::Variant(sdbus::UnixFd(fd.release(), sdbus::adopt_fd)));
  }
  const std::string id(allocation);
  const VariantMap usage = ToWire(spec.usage);
  MOUNTD_ASSIGN(
      const VariantMap answer,
      impl_->Call("PublishVolume", id + "/" + spec.alias, std::move(sent),
                  [&](ManagerProxy& proxy, VariantMap& opts) {
                    return proxy.PublishVolume(
                        id, spec.alias, spec.volume, spec.plugin, usage,
                        spec.publish_context, spec.volume_context, opts);
                  }));
  return ToPublished(answer);
}

Result<void> Client::UnpublishVolume(std::string_view allocation,
                                     std::string_view alias) {
  const std::string id(allocation);
  const std::string name(alias);
  return impl_->Call("UnpublishVolume", id + "/" + name, {},
                     [&](ManagerProxy& proxy, VariantMap& opts) {
                       proxy.UnpublishVolume(id, name, opts);
                     });
}

namespace {

void AddTmpfs(VariantMap& sent, const TmpfsOptions& tmpfs) {
  const auto add = [&](const char* key, const auto& value) {
    if (value) {
      sent.emplace(key, sdbus::Variant(*value));
    }
  };
  sent.emplace("size", sdbus::Variant(tmpfs.size));
  add("inodes", tmpfs.inodes);
  add("mode", tmpfs.mode);
  add("uid", tmpfs.uid);
  add("gid", tmpfs.gid);
  if (tmpfs.noswap) {
    sent.emplace("noswap", sdbus::Variant(true));
  }
}

VariantMap OptionsOf(const BindMountSpec& spec) {
  VariantMap sent;
  AddText(sent, "task_path", spec.task_path);
  for (const auto& [key, value] :
       {std::pair("noexec", spec.noexec), std::pair("noatime", spec.noatime)}) {
    if (value) {
      sent.emplace(key, sdbus::Variant(true));
    }
  }
  if (!spec.id_map.empty()) {
    std::vector<sdbus::Struct<std::uint32_t, std::uint32_t, std::uint32_t>> map;
    for (const IdExtent& extent : spec.id_map) {
      map.emplace_back(extent.on_disk, extent.shown, extent.count);
    }
    sent.emplace("idmap", sdbus::Variant(map));
  }
  if (spec.tmpfs) {
    AddTmpfs(sent, *spec.tmpfs);
  }
  if (spec.directory >= 0) {
    sent.emplace("directory", sdbus::Variant(sdbus::UnixFd(spec.directory)));
  }
  if (spec.container >= 0) {
    sent.emplace("container", sdbus::Variant(sdbus::UnixFd(spec.container)));
  }
  return sent;
}

// One element of BindMounts' array.
VariantMap ToWire(const BindMountSpec& spec) {
  VariantMap sent = OptionsOf(spec);
  sent.emplace("task", sdbus::Variant(spec.task));
  sent.emplace("name", sdbus::Variant(spec.name));
  sent.emplace("source_type", sdbus::Variant(ToWire(spec.source_type)));
  sent.emplace("source", sdbus::Variant(spec.source));
  sent.emplace("read_only", sdbus::Variant(spec.read_only));
  sent.emplace("propagation", sdbus::Variant(ToWire(spec.propagation)));
  return sent;
}

std::string ObjectOf(const std::string& allocation, const BindMountSpec& spec) {
  return allocation + "/" + spec.task + "/" + spec.name;
}

}  // namespace

Result<MountConfig> Client::BindMount(std::string_view allocation,
                                      const BindMountSpec& spec) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("BindMount", ObjectOf(id, spec), OptionsOf(spec),
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.BindMount(
                                  id, spec.task, spec.name,
                                  ToWire(spec.source_type), spec.source,
                                  spec.read_only, ToWire(spec.propagation),
                                  opts);
                            }));
  return ToMountConfig(answer);
}

Result<std::vector<MountConfig>> Client::BindMounts(
    std::string_view allocation, const std::vector<BindMountSpec>& specs) {
  const std::string id(allocation);
  std::vector<VariantMap> mounts;
  mounts.reserve(specs.size());
  for (const BindMountSpec& spec : specs) {
    mounts.push_back(ToWire(spec));
  }
  MOUNTD_ASSIGN(const std::vector<VariantMap> answer,
                impl_->Call("BindMounts", id, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.BindMounts(id, mounts, opts);
                            }));
  return ToList(answer, &ToMountConfig);
}

Result<ReplacedMount> Client::ReplaceMount(std::string_view allocation,
                                           const BindMountSpec& spec) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("ReplaceMount", ObjectOf(id, spec), OptionsOf(spec),
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ReplaceMount(
                                  id, spec.task, spec.name,
                                  ToWire(spec.source_type), spec.source,
                                  spec.read_only, ToWire(spec.propagation),
                                  opts);
                            }));
  return ToReplacedMount(answer);
}

Result<RepairedMount> Client::RepairMount(std::string_view allocation,
                                          std::string_view task,
                                          std::string_view name) {
  const std::string id(allocation);
  const std::string task_name(task);
  const std::string mount(name);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("RepairMount", id + "/" + task_name + "/" + mount,
                            {}, [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.RepairMount(id, task_name, mount,
                                                       opts);
                            }));
  return ToRepairedMount(answer);
}

Result<UniqueFd> Client::OpenTree(std::string_view allocation,
                                  const BindMountSpec& spec) {
  const std::string id(allocation);
  MOUNTD_ASSIGN(sdbus::UnixFd answer,
                impl_->Call("OpenTree", id + "/" + spec.source, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.OpenTree(
                                  id, ToWire(spec.source_type), spec.source,
                                  ToWire(spec.propagation), opts);
                            }));
  return UniqueFd(answer.release());
}

Result<InboxConfig> Client::PrepareInbox(std::string_view allocation,
                                         std::string_view task) {
  const std::string id(allocation);
  const std::string name(task);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("PrepareInbox", id + "/" + name, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.PrepareInbox(id, name, opts);
                            }));
  return ToInboxConfig(answer);
}

Result<void> Client::RemoveInbox(std::string_view allocation,
                                 std::string_view task) {
  const std::string id(allocation);
  const std::string name(task);
  return impl_->Call("RemoveInbox", id + "/" + name, {},
                     [&](ManagerProxy& proxy, VariantMap& opts) {
                       proxy.RemoveInbox(id, name, opts);
                     });
}

Result<void> Client::Unmount(std::string_view allocation, std::string_view task,
                             std::string_view name, UnmountMode mode) {
  const std::string id(allocation);
  const std::string task_name(task);
  const std::string mount(name);
  VariantMap sent;
  if (mode != UnmountMode::kPlain) {
    sent.emplace("mode", sdbus::Variant(ToWire(mode)));
  }
  return impl_->Call("Unmount", id + "/" + task_name + "/" + mount,
                     std::move(sent),
                     [&](ManagerProxy& proxy, VariantMap& opts) {
                       proxy.Unmount(id, task_name, mount, opts);
                     });
}

Result<std::vector<StagedVolume>> Client::ListVolumes() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListVolumes", "", {},
                            [](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ListVolumes(opts);
                            }));
  return ToList(answer, &ToStagedVolume);
}

Result<TreeResult> Client::RemoveTree(int directory) {
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("RemoveTree", "directory", {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.RemoveTree(sdbus::UnixFd(directory),
                                                      opts);
                            }));
  return ToTreeResult(answer);
}

Result<TreeResult> Client::ChownTree(int directory, std::uint32_t uid,
                                     std::uint32_t gid) {
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("ChownTree", "directory", {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ChownTree(sdbus::UnixFd(directory),
                                                     uid, gid, opts);
                            }));
  return ToTreeResult(answer);
}

Result<Holders> Client::ListHolders(std::string_view allocation,
                                    std::string_view task,
                                    std::string_view name, bool node) {
  VariantMap sent;
  AddText(sent, "scope", node ? "node" : "");
  const std::string id(allocation);
  const std::string task_name(task);
  const std::string mount(name);
  MOUNTD_ASSIGN(
      const VariantMap answer,
      impl_->Call("ListHolders", id + "/" + task_name + "/" + mount,
                  std::move(sent), [&](ManagerProxy& proxy, VariantMap& opts) {
                    return proxy.ListHolders(id, task_name, mount, opts);
                  }));
  return ToHolders(answer);
}

Result<TaskReport> Client::VerifyTask(std::string_view allocation,
                                      std::string_view task, int pidfd) {
  const std::string id(allocation);
  const std::string task_name(task);
  const sdbus::UnixFd process(pidfd);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("VerifyTask", id + "/" + task_name, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.VerifyTask(id, task_name, process,
                                                      opts);
                            }));
  return ToTaskReport(answer);
}

Result<PluginRegistration> Client::RegisterPlugin(const PluginSpec& spec) {
  VariantMap sent;
  AddText(sent, "mount_dir", spec.mount_dir);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("RegisterPlugin", spec.plugin, std::move(sent),
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.RegisterPlugin(
                                  spec.plugin, ToWire(spec.type),
                                  spec.allocation, opts);
                            }));
  return ToRegistration(answer);
}

Result<void> Client::UnregisterPlugin(std::string_view plugin) {
  const std::string id(plugin);
  return impl_->Call("UnregisterPlugin", id, {},
                     [&](ManagerProxy& proxy, VariantMap& opts) {
                       proxy.UnregisterPlugin(id, opts);
                     });
}

Result<PluginStatus> Client::GetPlugin(std::string_view plugin) {
  const std::string id(plugin);
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("GetPlugin", id, {},
                            [&](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.GetPlugin(id, opts);
                            }));
  return ToPlugin(answer);
}

Result<std::vector<PluginStatus>> Client::ListPlugins() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListPlugins", "", {},
                            [](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ListPlugins(opts);
                            }));
  return ToList(answer, &ToPlugin);
}

Result<std::vector<OwedTeardown>> Client::ListOwed() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("ListOwed", "", {},
                            [](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.ListOwed(opts);
                            }));
  std::vector<OwedTeardown> list;
  list.reserve(answer.size());
  for (const auto& owed : answer) {
    list.push_back({owed.get<0>(), owed.get<1>(), owed.get<2>(), owed.get<3>(),
                    owed.get<4>(), ToTimestamp(owed.get<5>())});
  }
  return list;
}

Result<std::uint32_t> Client::RetryOwed() {
  return impl_->Call("RetryOwed", "", {},
                     [](ManagerProxy& proxy, VariantMap& opts) {
                       return proxy.RetryOwed(opts);
                     });
}

Result<void> Client::Cancel(std::string_view operation) {
  const std::string id(operation);
  return impl_->Call(
      "Cancel", id, {},
      [&](ManagerProxy& proxy, VariantMap& opts) { proxy.Cancel(id, opts); });
}

Result<Capabilities> Client::GetCapabilities() {
  MOUNTD_ASSIGN(const VariantMap answer,
                impl_->Call("GetCapabilities", "", {},
                            [](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.GetCapabilities(opts);
                            }));
  return ToCapabilities(answer);
}

Result<std::vector<MethodStatistics>> Client::GetStatistics() {
  MOUNTD_ASSIGN(const auto answer,
                impl_->Call("GetStatistics", "", {},
                            [](ManagerProxy& proxy, VariantMap& opts) {
                              return proxy.GetStatistics(opts);
                            }));
  std::vector<MethodStatistics> list;
  list.reserve(answer.size());
  for (const auto& entry : answer) {
    list.push_back({entry.get<0>(), entry.get<1>(), entry.get<2>(),
                    entry.get<3>(), entry.get<4>()});
  }
  return list;
}

}  // namespace mountd::agent
