// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/AdaptorInterfaces.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dbus/generated/manager_adaptor.h"
#include "dbus/methods/answers_to_dict.h"
#include "dbus/methods/api_parts.h"
#include "dbus/methods/call_trace_option.h"
#include "dbus/methods/caller_source.h"
#include "dbus/methods/dict_to_network_request.h"

namespace mountd::dbus {

struct MountArguments;  // dbus/methods/bind_mount_request.h

// Serves org.mountd1.Manager on one connection. Decodes calls, gives them to
// the verbs as operations, and encodes the answers; never decides anything.
// Runs on the loop's thread. A pending answer keeps the connection, so the
// connection may outlive its peer; only the failing send then shows that the
// peer has gone.
class ManagerAdaptor final
    : public sdbus::AdaptorInterfaces<org::mountd1::Manager_adaptor> {
 public:
  ManagerAdaptor(const std::shared_ptr<sdbus::IConnection>& connection,
                 const ApiParts& parts, CallerSource& callers);
  virtual ~ManagerAdaptor();
  ManagerAdaptor(const ManagerAdaptor&) = delete;
  ManagerAdaptor& operator=(const ManagerAdaptor&) = delete;

 private:
  using Dicts = std::vector<Dict>;

  // A decoded call: the work, its strand, and how long its caller waits.
  template <typename T>
  struct Decoded {
    std::string strand;
    bool strand_is_callers = false;  // each user has a strand of that name
    std::string arguments;
    bool joins = true;  // Operations::Call
    std::chrono::milliseconds patience{0};
    // Runs on a worker, perhaps after the peer and its adaptor have gone.
    std::function<Result<T>(Services&, const CallContext&)> work;
  };

  // Decodes the call, runs it as an operation, converts the result and answers.
  // `decode` returns a Result<Decoded<T>>.
  template <typename T, typename Decode, typename Convert, typename... Out>
  void Serve(sdbus::Result<Out...>&& answer, const std::string& method,
             Decode decode, Convert convert);
  template <typename T>
  void AskIfRefused(Operations::Call<T>& call);
  // Serves calls that are answered on the loop, without a worker.
  template <typename Body, typename... Out>
  void ServeNow(sdbus::Result<Out...>&& answer, const Dict& options, Body body);

  // Logs a call that mountd cannot decode, and throws the error.
  [[noreturn]] void RefuseUndecodable(const char* method, const Error& error);
  // Read the options that every method has: "patience_ms", and the caller's
  // names of the call, which Patience leaves in `names_` for Serve.
  std::chrono::milliseconds Patience(OptionReader& reader) const;
  Result<std::chrono::milliseconds> OnlyPatience(const Dict& options) const;
  Result<bool> ReadSubscription(const Dict& options,
                                const sdbus::Message& message) const;
  // Decodes a call that lists the objects its caller may see, or those of all
  // users with the option "all_users". The call's `arguments` are this option
  // alone.
  template <typename T>
  Result<Decoded<T>> DecodeListing(
      const Dict& options,
      std::function<Result<T>(Services&, const CallContext&)> list) const;
  // Serves a list of GrantVerbs. Calls on the same strand run one after the
  // other.
  template <typename Grant>
  void ServeGrants(sdbus::Result<std::vector<Dict>>&& answer,
                   const std::string& method, const std::string& strand,
                   const Dict& options,
                   Result<std::vector<Grant>> (GrantVerbs::*list)(
                       const CallContext&, const GrantsOf&) const);
  // Decodes a call of a function of MountVerbs that takes a BindMountRequest.
  template <typename T>
  Result<Decoded<T>> DecodeRequest(
      const MountArguments& arguments, const Dict& options,
      Result<T> (MountVerbs::*verb)(const CallContext&,
                                    BindMountRequest)) const;

  // A function of ControllerVerbs.
  template <typename T, typename Request>
  using ControlVerb = Result<T> (ControllerVerbs::*)(const CallContext&,
                                                     const std::string& plugin,
                                                     const Request&,
                                                     const UniqueFd& secrets);
  struct ControlOptions;
  Result<ControlOptions> ReadControl(const std::string& plugin,
                                     OptionReader& reader) const;
  template <typename T, typename Request>
  static Decoded<T> DecodeControl(const ControlOptions& options,
                                  const std::string& subject,
                                  const Request& request,
                                  ControlVerb<T, Request> verb);

  // ---- org.mountd1.Manager, in the order of the XML ----
  void Subscribe(const Dict& options) override;
  void Unsubscribe(const Dict& options) override;
  void PrepareAllocation(sdbus::Result<Dict>&& answer, std::string allocation,
                         Dict options) override;
  void SetupNetwork(sdbus::Result<Dict>&& answer, std::string allocation,
                    std::string mode, std::vector<PortStruct> ports,
                    Dict options) override;
  void GetNetwork(sdbus::Result<Dict>&& answer, std::string allocation,
                  Dict options) override;
  void UpdatePorts(sdbus::Result<Dict>&& answer, std::string allocation,
                   std::vector<PortStruct> ports, Dict options) override;
  void TeardownNetwork(sdbus::Result<>&& answer, std::string allocation,
                       Dict options) override;
  void PublishVolume(sdbus::Result<Dict>&& answer, std::string allocation,
                     std::string alias, std::string volume, std::string plugin,
                     Dict usage, StringMap publish_context,
                     StringMap volume_context, Dict options) override;
  void UnpublishVolume(sdbus::Result<>&& answer, std::string allocation,
                       std::string alias, Dict options) override;
  void BindMount(sdbus::Result<Dict>&& answer, std::string allocation,
                 std::string task, std::string name, std::string source_type,
                 std::string source, bool read_only, std::string propagation,
                 Dict options) override;
  void BindMounts(sdbus::Result<Dicts>&& answer, std::string allocation,
                  std::vector<Dict> mounts, Dict options) override;
  void ReplaceMount(sdbus::Result<Dict>&& answer, std::string allocation,
                    std::string task, std::string name, std::string source_type,
                    std::string source, bool read_only, std::string propagation,
                    Dict options) override;
  void RepairMount(sdbus::Result<Dict>&& answer, std::string allocation,
                   std::string task, std::string name, Dict options) override;
  void OpenTree(sdbus::Result<sdbus::UnixFd>&& answer, std::string allocation,
                std::string source_type, std::string source,
                std::string propagation, Dict options) override;
  void PrepareInbox(sdbus::Result<Dict>&& answer, std::string allocation,
                    std::string task, Dict options) override;
  void RemoveInbox(sdbus::Result<>&& answer, std::string allocation,
                   std::string task, Dict options) override;
  void Unmount(sdbus::Result<>&& answer, std::string allocation,
               std::string task, std::string name, Dict options) override;
  void RemoveTree(sdbus::Result<Dict>&& answer, sdbus::UnixFd directory,
                  Dict options) override;
  void ChownTree(sdbus::Result<Dict>&& answer, sdbus::UnixFd directory,
                 std::uint32_t uid, std::uint32_t gid, Dict options) override;
  void ListHolders(sdbus::Result<Dict>&& answer, std::string allocation,
                   std::string task, std::string name, Dict options) override;
  void ListHandedOut(sdbus::Result<Dict>&& answer, std::string allocation,
                     Dict options) override;
  void VerifyTask(sdbus::Result<Dict>&& answer, std::string allocation,
                  std::string task, sdbus::UnixFd pidfd, Dict options) override;
  void ReleaseAllocation(sdbus::Result<Dict>&& answer, std::string allocation,
                         Dict options) override;
  void GetReceipt(sdbus::Result<Dict>&& answer, std::string allocation,
                  Dict options) override;
  void GetAllocation(sdbus::Result<Dict>&& answer, std::string allocation,
                     Dict options) override;
  void ListAllocations(sdbus::Result<std::vector<AllocationStruct>>&& answer,
                       Dict options) override;
  void Reconcile(sdbus::Result<Dicts>&& answer, std::string scope,
                 std::uint64_t epoch, std::vector<std::string> wanted,
                 bool dry_run, Dict options) override;
  void ExpandVolume(sdbus::Result<std::int64_t>&& answer,
                    std::string allocation, std::string alias,
                    std::int64_t required_bytes, Dict options) override;
  void GetVolumeStats(sdbus::Result<Dict>&& answer, std::string allocation,
                      std::string alias, Dict options) override;
  void ListVolumes(sdbus::Result<Dicts>&& answer, Dict options) override;
  void RegisterPlugin(sdbus::Result<Dict>&& answer, std::string plugin,
                      std::string type, std::string allocation,
                      Dict options) override;
  void UnregisterPlugin(sdbus::Result<>&& answer, std::string plugin,
                        Dict options) override;
  void GetPlugin(sdbus::Result<Dict>&& answer, std::string plugin,
                 Dict options) override;
  void ListPlugins(sdbus::Result<Dicts>&& answer, Dict options) override;
  void ControllerPublishVolume(sdbus::Result<StringMap>&& answer,
                               std::string plugin, std::string volume,
                               std::string node_id, Dict usage,
                               StringMap volume_context, Dict options) override;
  void ControllerUnpublishVolume(sdbus::Result<>&& answer, std::string plugin,
                                 std::string volume, std::string node_id,
                                 Dict options) override;
  void ValidateVolume(sdbus::Result<Dict>&& answer, std::string plugin,
                      std::string volume, Dict usage, StringMap volume_context,
                      Dict options) override;
  void CreateVolume(sdbus::Result<Dict>&& answer, std::string plugin,
                    std::string name, Dict spec, Dict options) override;
  void DeleteVolume(sdbus::Result<>&& answer, std::string plugin,
                    std::string volume, Dict options) override;
  void ControllerExpandVolume(sdbus::Result<Dict>&& answer, std::string plugin,
                              std::string volume, std::int64_t required_bytes,
                              Dict options) override;
  void ListPluginVolumes(sdbus::Result<Dict>&& answer, std::string plugin,
                         Dict options) override;
  void GetCapacity(sdbus::Result<Dict>&& answer, std::string plugin,
                   Dict options) override;
  void CallController(sdbus::Result<std::vector<std::uint8_t>>&& answer,
                      std::string plugin, std::string rpc,
                      std::vector<std::uint8_t> request, Dict options) override;
  void AcquireLease(sdbus::Result<Dict>&& answer, std::string lease,
                    Dict options) override;
  void RenewLease(sdbus::Result<Dict>&& answer, std::string lease,
                  Dict options) override;
  void ReleaseLease(sdbus::Result<>&& answer, std::string lease,
                    Dict options) override;
  void ListLeases(sdbus::Result<Dicts>&& answer, Dict options) override;
  void GetFence(sdbus::Result<Dict>&& answer, std::string allocation,
                Dict options) override;
  void ListOwed(sdbus::Result<std::vector<OwedStruct>>&& answer,
                Dict options) override;
  void RetryOwed(sdbus::Result<std::uint32_t>&& answer, Dict options) override;
  void Cancel(sdbus::Result<>&& answer, std::string operation,
              Dict options) override;
  void ListOperations(sdbus::Result<Dicts>&& answer, Dict options) override;
  void GetCapabilities(sdbus::Result<Dict>&& answer, Dict options) override;
  void ListHostVolumes(sdbus::Result<Dicts>&& answer, Dict options) override;
  void ListFilesystems(sdbus::Result<Dicts>&& answer, Dict options) override;
  void ListNetworks(sdbus::Result<Dicts>&& answer, Dict options) override;
  void GetStatistics(sdbus::Result<std::vector<StatisticsStruct>>&& answer,
                     Dict options) override;
  void Reload(sdbus::Result<std::vector<std::string>>&& answer,
              Dict options) override;
  std::string Version() override;
  AddressesMap Addresses() override;
  sdbus::Struct<std::uint32_t, std::uint64_t> Owed() override;
  std::uint32_t FreeHostPorts() override;
  std::uint32_t StuckExecutors() override;
  std::map<std::string, std::uint64_t> DroppedPeers() override;

  // Weak, because the connection owns this adaptor (through its peer).
  const std::weak_ptr<sdbus::IConnection> connection_;
  const ApiParts parts_;
  CallerSource& callers_;
  // The names of the call that is being decoded; null: none.
  mutable std::shared_ptr<const CallTrace> names_;
  std::shared_ptr<const void> span_wish_;  // null: none
};

inline constexpr char kManagerPath[] = "/org/mountd1";

}  // namespace mountd::dbus
