// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A CSI plugin with real mounts that fails as its file says.
//   csi-fault-plugin SOCKET DIRECTORY [NODE_ID]
//
// The plugin reads DIRECTORY/faults for each call. The first matching line
// decides what the call does; without one the call works:
//   RPC N ACTION [ARGUMENT]
// RPC is a name ("NodeStageVolume") or "*". N is the number of the call of that
// RPC since DIRECTORY was made (over restarts, from 1), "N+" (that and later
// calls) or "*". ACTION:
//   code C        answers gRPC's code C, and does nothing
//   code-after C  does it, then answers C
//   echo C        answers code C with all secrets and mount flags in its text;
//                 "echo-late C" half a second later
//   delay MS      waits so long first
//   hang          never answers
//   die, die-after   ends at once, before or after it has done it
//   lie           answers OK, and does nothing
//   huge          does it, and answers 8 MiB (CreateVolume,
//                 ControllerPublishVolume, GetPluginInfo, NodeGetInfo)
//   elsewhere     mounts beside the path, at PATH.elsewhere
//   tmpfs         mounts an empty tmpfs in place of the volume
//   room N        answers N as max_volumes_per_node (NodeGetInfo)
//
// The calls that mount and unmount one volume run one after the other, because
// a call whose client is gone still mounts when its delay ends.
//
// Each call adds a line of JSON to DIRECTORY/calls as it begins: {"rpc", "n",
// "volume", "path", "secrets": how many}, never a secret. A volume's data is
// DIRECTORY/data/<its id in hex>; an attachment is DIRECTORY/attached/<id in
// hex>.<node>. CreateVolume's ids are the names.
#include <csi.grpc.pb.h>
#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>

namespace {

namespace fs = std::filesystem;
namespace pb = ::csi::v1;
using grpc::Status;
using grpc::StatusCode;

std::string Hex(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4U];
    hex += kDigits[byte & 15U];
  }
  return hex;
}

struct Fault {
  std::string action;
  std::string argument;
};

// The facts of a call, known before it is made.
struct CallInfo {
  std::string rpc;
  std::string volume;
  std::string path;
  int secrets = 0;
  std::string given{};  // the secrets' values and the mount flags
};

// Returns the text that a careless plugin quotes in an error.
template <typename Request>
std::string Given(const Request& request) {
  std::string text;
  for (const auto& [key, value] : request.secrets()) {
    text += " " + key + "=" + value;
  }
  if constexpr (requires { request.volume_capability(); }) {
    for (const auto& flag : request.volume_capability().mount().mount_flags()) {
      text += " " + flag;
    }
  }
  return text;
}

class Plugin {
 public:
  Plugin(fs::path directory, std::string node)
      : directory_(std::move(directory)), node_(std::move(node)) {
    fs::create_directories(directory_ / "data");
    fs::create_directories(directory_ / "attached");
  }

  const std::string& node() const { return node_; }
  fs::path DataOf(const std::string& volume) const {
    return directory_ / "data" / Hex(volume);
  }
  fs::path AttachedTo(const std::string& volume,
                      const std::string& node) const {
    return directory_ / "attached" / (Hex(volume) + "." + node);
  }

  // Makes one call: the fault of `faults`, around `effect`.
  Status Run(grpc::ServerContext* context, const CallInfo& call,
             const std::function<Status(const Fault&)>& effect) {
    const Fault fault = FaultOf(call.rpc, Record(call));
    const auto turn = TurnOf(call);
    if (fault.action == "delay") {
      std::this_thread::sleep_for(
          std::chrono::milliseconds(std::atoi(fault.argument.c_str())));
    }
    while (fault.action == "hang" && !context->IsCancelled()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (fault.action == "die") {
      ::_exit(1);
    }
    if (fault.action == "code") {
      return Told(fault);
    }
    if (fault.action == "echo-late") {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    if (fault.action.rfind("echo", 0) == 0) {
      return {Told(fault).error_code(), "cannot log in with" + call.given};
    }
    if (fault.action == "lie" || fault.action == "hang") {
      return Status::OK;
    }
    const Status done = effect(fault);
    if (fault.action == "die-after") {
      ::_exit(1);
    }
    return fault.action == "code-after" ? Told(fault) : done;
  }

 private:
  // Returns the turn of a call that mounts or unmounts a volume, once the calls
  // before it have ended. A call of another kind needs none.
  std::unique_lock<std::mutex> TurnOf(const CallInfo& call) {
    static constexpr std::array kMounts = {
        "NodeStageVolume", "NodeUnstageVolume", "NodePublishVolume",
        "NodeUnpublishVolume"};
    if (std::find(kMounts.begin(), kMounts.end(), call.rpc) == kMounts.end()) {
      return {};
    }
    return std::unique_lock(MutexOf(call.volume));
  }

  std::mutex& MutexOf(const std::string& volume) {
    const std::scoped_lock hold(turns_lock_);
    return turns_[volume];  // a map's elements stay where they are
  }

  // Returns the status of a fault whose argument is a code.
  static Status Told(const Fault& fault) {
    return {static_cast<StatusCode>(std::atoi(fault.argument.c_str())),
            "as faults says"};
  }

  // Records the call. Returns its number among the calls of its RPC.
  int Record(const CallInfo& call) {
    const fs::path file = directory_ / "calls";
    const int lock = ::open((file.string() + ".lock").c_str(),
                            O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ::flock(lock, LOCK_EX);
    const std::string begin = "{\"rpc\": \"" + call.rpc + "\",";
    int n = 1;
    std::ifstream before(file);
    for (std::string line; std::getline(before, line);) {
      n += line.rfind(begin, 0) == 0 ? 1 : 0;
    }
    std::ofstream(file, std::ios::app)
        << begin << " \"n\": " << n << ", \"volume\": \"" << Quoted(call.volume)
        << "\", \"path\": \"" << Quoted(call.path)
        << "\", \"secrets\": " << call.secrets << "}\n";
    ::close(lock);
    return n;
  }

  static std::string Quoted(const std::string& text) {
    std::string quoted;
    for (const char c : text) {
      if (c == '"' || c == '\\') {
        quoted += '\\';
      }
      quoted += static_cast<unsigned char>(c) < 0x20U ? '?' : c;
    }
    return quoted;
  }

  static bool Matches(const std::string& which, int n) {
    if (which == "*") {
      return true;
    }
    const int first = std::atoi(which.c_str());
    return which.back() == '+' ? n >= first : n == first;
  }

  Fault FaultOf(const std::string& rpc, int n) const {
    std::ifstream file(directory_ / "faults");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string name;
      std::string which;
      Fault fault;
      words >> name >> which >> fault.action >> fault.argument;
      if ((name == rpc || name == "*") && !which.empty() && Matches(which, n)) {
        return fault;
      }
    }
    return {};
  }

  const fs::path directory_;
  const std::string node_;
  std::mutex turns_lock_;
  std::map<std::string, std::mutex> turns_;  // by the volume's id
};

std::string Answer(const std::string& text, const Fault& fault) {
  return fault.action == "huge" ? std::string(8U << 20U, 'x') : text;
}

Status Failed(const std::string& what) {
  return {StatusCode::INTERNAL, what + ": errno " + std::to_string(errno)};
}

bool IsMountPoint(const std::string& path) {
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string word;
    for (int i = 0; i < 5; ++i) {
      words >> word;
    }
    if (word == path) {
      return true;
    }
  }
  return false;
}

// Returns the source of this process's file systems, and of no others.
std::string Source() { return "fault-" + std::to_string(::getpid()); }

Status Mount(const fs::path& source, std::string path, const Fault& fault,
             bool read_only) {
  if (fault.action == "elsewhere") {
    path += ".elsewhere";
  }
  fs::create_directories(path);
  if (IsMountPoint(path)) {
    return Status::OK;
  }
  const int made =
      fault.action == "tmpfs"
          ? ::mount(Source().c_str(), path.c_str(), "tmpfs", 0, "size=64k")
          : ::mount(source.c_str(), path.c_str(), nullptr, MS_BIND, nullptr);
  if (made != 0) {
    return Failed("mount");
  }
  if (read_only && ::mount(nullptr, path.c_str(), nullptr,
                           MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
    return Failed("remount");
  }
  return Status::OK;
}

Status Unmount(const std::string& path, bool directory_too) {
  if (IsMountPoint(path) && ::umount2(path.c_str(), UMOUNT_NOFOLLOW) != 0) {
    return Failed("umount2");
  }
  std::error_code left;
  if (directory_too) {
    fs::remove(path, left);
  }
  return Status::OK;
}

class Identity final : public pb::Identity::Service {
 public:
  explicit Identity(Plugin& plugin) : plugin_(plugin) {}
  Status GetPluginInfo(grpc::ServerContext* context,
                       const pb::GetPluginInfoRequest* /*request*/,
                       pb::GetPluginInfoResponse* response) override {
    return plugin_.Run(context, {"GetPluginInfo", "", "", 0},
                       [&](const Fault& fault) {
                         response->set_name(Answer("fault.example", fault));
                         response->set_vendor_version("1");
                         return Status::OK;
                       });
  }
  Status GetPluginCapabilities(
      grpc::ServerContext* context,
      const pb::GetPluginCapabilitiesRequest* /*request*/,
      pb::GetPluginCapabilitiesResponse* response) override {
    return plugin_.Run(
        context, {"GetPluginCapabilities", "", "", 0}, [&](const Fault&) {
          response->add_capabilities()->mutable_service()->set_type(
              pb::PluginCapability::Service::CONTROLLER_SERVICE);
          return Status::OK;
        });
  }
  Status Probe(grpc::ServerContext* context,
               const pb::ProbeRequest* /*request*/,
               pb::ProbeResponse* /*response*/) override {
    return plugin_.Run(context, {"Probe", "", "", 0},
                       [](const Fault&) { return Status::OK; });
  }

 private:
  Plugin& plugin_;
};

class Controller final : public pb::Controller::Service {
 public:
  explicit Controller(Plugin& plugin) : plugin_(plugin) {}
  Status ControllerGetCapabilities(
      grpc::ServerContext* context,
      const pb::ControllerGetCapabilitiesRequest* /*request*/,
      pb::ControllerGetCapabilitiesResponse* response) override {
    using Rpc = pb::ControllerServiceCapability::RPC;
    return plugin_.Run(
        context, {"ControllerGetCapabilities", "", "", 0}, [&](const Fault&) {
          for (const Rpc::Type type :
               {Rpc::CREATE_DELETE_VOLUME, Rpc::PUBLISH_UNPUBLISH_VOLUME,
                Rpc::LIST_VOLUMES, Rpc::GET_CAPACITY, Rpc::EXPAND_VOLUME,
                Rpc::CREATE_DELETE_SNAPSHOT}) {
            response->add_capabilities()->mutable_rpc()->set_type(type);
          }
          return Status::OK;
        });
  }
  Status CreateVolume(grpc::ServerContext* context,
                      const pb::CreateVolumeRequest* request,
                      pb::CreateVolumeResponse* response) override {
    return plugin_.Run(
        context,
        {"CreateVolume", request->name(), "", request->secrets_size(),
         Given(*request)},
        [&](const Fault& fault) {
          fs::create_directories(plugin_.DataOf(request->name()));
          response->mutable_volume()->set_volume_id(request->name());
          (*response->mutable_volume()->mutable_volume_context())["made"] =
              Answer("by fault", fault);
          return Status::OK;
        });
  }
  Status DeleteVolume(grpc::ServerContext* context,
                      const pb::DeleteVolumeRequest* request,
                      pb::DeleteVolumeResponse* /*response*/) override {
    return plugin_.Run(context,
                       {"DeleteVolume", request->volume_id(), "",
                        request->secrets_size(), Given(*request)},
                       [&](const Fault&) {
                         fs::remove_all(plugin_.DataOf(request->volume_id()));
                         return Status::OK;
                       });
  }
  Status ControllerPublishVolume(
      grpc::ServerContext* context,
      const pb::ControllerPublishVolumeRequest* request,
      pb::ControllerPublishVolumeResponse* response) override {
    return plugin_.Run(
        context,
        {"ControllerPublishVolume", request->volume_id(), request->node_id(),
         request->secrets_size(), Given(*request)},
        [&](const Fault& fault) {
          std::ofstream(
              plugin_.AttachedTo(request->volume_id(), request->node_id()));
          (*response->mutable_publish_context())["attached"] =
              Answer(request->node_id(), fault);
          return Status::OK;
        });
  }
  Status ControllerUnpublishVolume(
      grpc::ServerContext* context,
      const pb::ControllerUnpublishVolumeRequest* request,
      pb::ControllerUnpublishVolumeResponse* /*response*/) override {
    return plugin_.Run(
        context,
        {"ControllerUnpublishVolume", request->volume_id(), request->node_id(),
         request->secrets_size(), Given(*request)},
        [&](const Fault&) {
          fs::remove(
              plugin_.AttachedTo(request->volume_id(), request->node_id()));
          return Status::OK;
        });
  }
  Status ValidateVolumeCapabilities(
      grpc::ServerContext* context,
      const pb::ValidateVolumeCapabilitiesRequest* request,
      pb::ValidateVolumeCapabilitiesResponse* response) override {
    return plugin_.Run(
        context,
        {"ValidateVolumeCapabilities", request->volume_id(), "",
         request->secrets_size(), ""},
        [&](const Fault&) {
          *response->mutable_confirmed()->mutable_volume_capabilities() =
              request->volume_capabilities();
          return Status::OK;
        });
  }
  Status ControllerExpandVolume(
      grpc::ServerContext* context,
      const pb::ControllerExpandVolumeRequest* request,
      pb::ControllerExpandVolumeResponse* response) override {
    return plugin_.Run(context,
                       {"ControllerExpandVolume", request->volume_id(), "",
                        request->secrets_size(), ""},
                       [&](const Fault&) {
                         response->set_capacity_bytes(
                             request->capacity_range().required_bytes());
                         return Status::OK;
                       });
  }
  Status ListVolumes(grpc::ServerContext* context,
                     const pb::ListVolumesRequest* /*request*/,
                     pb::ListVolumesResponse* response) override {
    return plugin_.Run(context, {"ListVolumes", "", "", 0}, [&](const Fault&) {
      response->add_entries()->mutable_volume()->set_volume_id("listed");
      return Status::OK;
    });
  }
  Status GetCapacity(grpc::ServerContext* context,
                     const pb::GetCapacityRequest* /*request*/,
                     pb::GetCapacityResponse* response) override {
    return plugin_.Run(context, {"GetCapacity", "", "", 0}, [&](const Fault&) {
      response->set_available_capacity(1 << 20);
      return Status::OK;
    });
  }
  Status CreateSnapshot(grpc::ServerContext* context,
                        const pb::CreateSnapshotRequest* request,
                        pb::CreateSnapshotResponse* response) override {
    return plugin_.Run(
        context,
        {"CreateSnapshot", request->source_volume_id(), "",
         request->secrets_size(), ""},
        [&](const Fault&) {
          response->mutable_snapshot()->set_snapshot_id(request->name());
          return Status::OK;
        });
  }

 private:
  Plugin& plugin_;
};

class Node final : public pb::Node::Service {
 public:
  explicit Node(Plugin& plugin) : plugin_(plugin) {}
  Status NodeGetInfo(grpc::ServerContext* context,
                     const pb::NodeGetInfoRequest* /*request*/,
                     pb::NodeGetInfoResponse* response) override {
    return plugin_.Run(context, {"NodeGetInfo", "", "", 0},
                       [&](const Fault& fault) {
                         response->set_node_id(Answer(plugin_.node(), fault));
                         if (fault.action == "room") {
                           response->set_max_volumes_per_node(
                               std::atoi(fault.argument.c_str()));
                         }
                         return Status::OK;
                       });
  }
  Status NodeGetCapabilities(
      grpc::ServerContext* context,
      const pb::NodeGetCapabilitiesRequest* /*request*/,
      pb::NodeGetCapabilitiesResponse* response) override {
    return plugin_.Run(
        context, {"NodeGetCapabilities", "", "", 0}, [&](const Fault&) {
          using Rpc = pb::NodeServiceCapability::RPC;
          for (const auto type : {Rpc::STAGE_UNSTAGE_VOLUME,
                                  Rpc::GET_VOLUME_STATS, Rpc::EXPAND_VOLUME}) {
            response->add_capabilities()->mutable_rpc()->set_type(type);
          }
          return Status::OK;
        });
  }
  Status NodeExpandVolume(grpc::ServerContext* context,
                          const pb::NodeExpandVolumeRequest* request,
                          pb::NodeExpandVolumeResponse* response) override {
    return plugin_.Run(
        context,
        {"NodeExpandVolume", request->volume_id(), request->volume_path(),
         request->secrets_size(), Given(*request)},
        [&](const Fault&) {
          response->set_capacity_bytes(
              request->capacity_range().required_bytes());
          return Status::OK;
        });
  }
  Status NodeGetVolumeStats(grpc::ServerContext* context,
                            const pb::NodeGetVolumeStatsRequest* request,
                            pb::NodeGetVolumeStatsResponse* response) override {
    return plugin_.Run(
        context,
        {"NodeGetVolumeStats", request->volume_id(), request->volume_path(), 0},
        [&](const Fault&) {
          const fs::space_info space = fs::space(request->volume_path());
          auto* const usage = response->add_usage();
          usage->set_unit(pb::VolumeUsage::BYTES);
          usage->set_total(static_cast<std::int64_t>(space.capacity));
          usage->set_available(static_cast<std::int64_t>(space.available));
          usage->set_used(
              static_cast<std::int64_t>(space.capacity - space.free));
          return Status::OK;
        });
  }
  Status NodeStageVolume(grpc::ServerContext* context,
                         const pb::NodeStageVolumeRequest* request,
                         pb::NodeStageVolumeResponse* /*response*/) override {
    return plugin_.Run(
        context,
        {"NodeStageVolume", request->volume_id(),
         request->staging_target_path(), request->secrets_size(),
         Given(*request)},
        [&](const Fault& fault) {
          const fs::path data = plugin_.DataOf(request->volume_id());
          fs::create_directories(data);
          return Mount(data, request->staging_target_path(), fault, false);
        });
  }
  Status NodeUnstageVolume(
      grpc::ServerContext* context, const pb::NodeUnstageVolumeRequest* request,
      pb::NodeUnstageVolumeResponse* /*response*/) override {
    return plugin_.Run(context,
                       {"NodeUnstageVolume", request->volume_id(),
                        request->staging_target_path(), 0},
                       [&](const Fault&) {
                         return Unmount(request->staging_target_path(), false);
                       });
  }
  Status NodePublishVolume(
      grpc::ServerContext* context, const pb::NodePublishVolumeRequest* request,
      pb::NodePublishVolumeResponse* /*response*/) override {
    return plugin_.Run(
        context,
        {"NodePublishVolume", request->volume_id(), request->target_path(),
         request->secrets_size(), Given(*request)},
        [&](const Fault& fault) {
          return Mount(request->staging_target_path(), request->target_path(),
                       fault, request->readonly());
        });
  }
  Status NodeUnpublishVolume(
      grpc::ServerContext* context,
      const pb::NodeUnpublishVolumeRequest* request,
      pb::NodeUnpublishVolumeResponse* /*response*/) override {
    return plugin_.Run(
        context,
        {"NodeUnpublishVolume", request->volume_id(), request->target_path(),
         0},
        [&](const Fault&) { return Unmount(request->target_path(), true); });
  }

 private:
  Plugin& plugin_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    return 2;
  }
  Plugin plugin(argv[2], argc > 3 ? argv[3] : "node-1");
  Identity identity(plugin);
  Controller controller(plugin);
  Node node(plugin);
  // A plugin that died leaves its socket.
  ::unlink(argv[1]);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix:") + argv[1],
                           grpc::InsecureServerCredentials());
  builder.RegisterService(&identity);
  builder.RegisterService(&controller);
  builder.RegisterService(&node);
  const auto server = builder.BuildAndStart();
  if (server == nullptr) {
    return 1;
  }
  server->Wait();
}
