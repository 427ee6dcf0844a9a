// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/fake_answers.h"

#include <unistd.h>

namespace mountd::agent::test {

dbus::Value Text(const char* text) { return V(std::string(text)); }

dbus::Value Path(const std::string& text) {
  return V(std::vector<std::uint8_t>(text.begin(), text.end()));
}

using Extent = sdbus::Struct<std::uint32_t, std::uint32_t, std::uint32_t>;

namespace {

using Dicts = std::vector<dbus::Dict>;
using Texts = std::map<std::string, std::string>;

// Returns the text of a volume spec's parts; "" for other values.
std::string ShowNested(const dbus::Value& value) {
  std::string text;
  if (value.containsValueOfType<dbus::Dict>()) {
    text = Show(value.get<dbus::Dict>());
  } else if (value.containsValueOfType<Texts>()) {
    text = Show(value.get<Texts>());
  } else if (value.containsValueOfType<Dicts>()) {
    for (const dbus::Dict& each : value.get<Dicts>()) {
      text += Show(each) + "+";
    }
  } else if (value.containsValueOfType<std::vector<Texts>>()) {
    for (const Texts& each : value.get<std::vector<Texts>>()) {
      text += Show(each) + "+";
    }
  }
  return text;
}

}  // namespace

std::string Show(const dbus::Dict& map) {
  std::string text = "{";
  for (const auto& [key, value] : map) {
    text += key + "=";
    if (value.containsValueOfType<std::string>()) {
      text += value.get<std::string>();
    } else if (value.containsValueOfType<bool>()) {
      text += value.get<bool>() ? "true" : "false";
    } else if (value.containsValueOfType<std::uint32_t>()) {
      text += "u" + std::to_string(value.get<std::uint32_t>());
    } else if (value.containsValueOfType<std::uint64_t>()) {
      text += "t" + std::to_string(value.get<std::uint64_t>());
    } else if (value.containsValueOfType<std::int64_t>()) {
      text += "x" + std::to_string(value.get<std::int64_t>());
    } else if (const std::string nested = ShowNested(value); !nested.empty()) {
      text += nested;
    } else if (value.containsValueOfType<std::vector<std::string>>()) {
      for (const auto& word : value.get<std::vector<std::string>>()) {
        text += word + "+";
      }
    } else if (value.containsValueOfType<std::vector<Extent>>()) {
      for (const auto& extent : value.get<std::vector<Extent>>()) {
        text += std::to_string(std::get<0>(extent)) + ":" +
                std::to_string(std::get<1>(extent)) + ":" +
                std::to_string(std::get<2>(extent)) + "+";
      }
    } else {
      text += value.peekValueType();
    }
    text += ";";
  }
  return text + "}";
}

std::string Show(const std::map<std::string, std::string>& map) {
  std::string text = "{";
  for (const auto& [key, value] : map) {
    text += key + "=" + value + ";";
  }
  return text + "}";
}

std::string Show(const Ports& ports) {
  std::string text;
  for (const auto& port : ports) {
    text += port.get<0>() + "," + port.get<1>() + "," +
            std::to_string(port.get<2>()) + "," +
            std::to_string(port.get<3>()) + "," +
            std::to_string(port.get<4>()) + "," + port.get<5>() + " ";
  }
  return text;
}

dbus::Dict Network() {
  return {{"mode", Text("bridge")},
          {"network", Text("default")},
          {"isolated", V(false)},
          {"default_route", V(true)},
          {"files",
           V(std::vector<sdbus::Struct<std::vector<std::uint8_t>, std::string>>{
               {{'/', 'h'}, "/etc/hosts"}})},
          {"netns_path", Path("/run/netns/web")},
          {"netns_inode", V(std::uint64_t{4026531840})},
          {"interface", Text("eth0")},
          {"address", Text("10.88.0.2")},
          {"address6", Text("fd00::2")},
          {"gateway", Text("10.88.0.1")},
          {"gateway6", Text("fd00::1")},
          {"host_interface", Text("mdabc")},
          {"mac", Text("02:4d:0a:58:00:02")},
          {"dns_servers", V(std::vector<std::string>{"192.0.2.53"})},
          {"ports", V(Ports{{"http", "", std::uint16_t{8080}, std::uint16_t{80},
                             std::uint16_t{1}, "tcp"}})}};
}

dbus::Dict Inbox() {
  return {{"host_path", Path("/run/mountd/base/a/web/server")},
          {"propagation", Text("host-to-task")},
          {"required_rootfs_propagation", Text("slave")}};
}

dbus::Dict MountConfig(const std::string& propagation) {
  return {{"host_path", Path("/run/mountd/base/a/web/server/data")},
          {"task_path", Text("/data")},
          {"read_only", V(true)},
          {"propagation", V(propagation)},
          {"required_rootfs_propagation", Text("slave")},
          {"mount_id", V(std::uint64_t{11})},
          {"peer_group", V(std::uint64_t{12})},
          {"master", V(std::uint64_t{13})},
          {"of_a_later_release", V(1.5)}};
}

dbus::Dict Receipt(const std::string& allocation) {
  return {
      {"allocation", V(allocation)},
      {"released_at", V(std::uint64_t{1'700'000'000'000'000})},
      {"node_detached", V(true)},
      {"volumes", V(std::vector<sdbus::Struct<std::string, std::string, bool>>{
                      {"csi-local", "web-data", true}})},
      {"serial", V(std::uint64_t{7})}};
}

dbus::Dict LeaseOf(const std::string& name) {
  return {{"lease", V(name)},
          {"uid", V(1000U)},
          {"allocation", Text("web")},
          {"scope", Text("")},
          {"kind", Text("heartbeat")},
          {"timeout_ms", V(std::uint64_t{5000})},
          {"on_lapse", Text("release")},
          {"stop_tasks", Text("kill")},
          {"state", Text("lapsed")},
          {"deadline_boottime", V(std::uint64_t{7'000'000})},
          {"reason", Text("no renewal came before its deadline")},
          {"traceparent", Text("")},
          {"request_id", Text("r1")}};
}

dbus::Dict FenceOf(const std::string& allocation) {
  constexpr std::uint64_t kBoot = 7'000'000;
  constexpr std::uint64_t kWall = 1'700'000'000'000'000;
  dbus::Dict fence = {{"allocation", V(allocation)},
                      {"lease", Text("agent")},
                      {"uid", V(1000U)},
                      {"lapse_reason", Text("late\x1b[2J")},
                      {"on_lapse", Text("release")},
                      {"stop_tasks", Text("kill")},
                      {"state", Text("done")},
                      {"lifted", V(false)},
                      {"had_tasks", V(true)},
                      {"copies", Text("")},
                      {"handed_out", V(1U)},
                      {"volumes_detached", V(true)},
                      {"error", Text("")},
                      {"attempts", V(2U)},
                      {"boot_id", Text("b")},
                      {"traceparent", Text("")},
                      {"request_id", Text("r1")}};
  std::uint64_t second = 0;
  for (const char* step : {"lapsed", "tasks_stopped", "searched", "done"}) {
    fence.emplace(std::string(step) + "_boottime",
                  V(kBoot + second * 1'000'000));
    fence.emplace(std::string(step) + "_at", V(kWall + second * 1'000'000));
    ++second;
  }
  return fence;
}

std::vector<dbus::Dict> RowsUnless(bool empty, const dbus::Dict& row) {
  return empty ? std::vector<dbus::Dict>() : std::vector<dbus::Dict>{row};
}

// "bare" and "cni-bare" have no network, and "cni-empty" has nothing at all.
dbus::Dict Allocation(const std::string& id) {
  dbus::Dict volume{
      {"alias", Text("data")},      {"plugin", Text("csi-local")},
      {"volume", Text("web-data")}, {"state", Text("published")},
      {"read_only", V(false)},      {"host_path", Path("/p/data")}};
  const bool is_empty = id == "cni-empty";
  const bool has_no_network = is_empty || id == "bare" || id == "cni-bare";
  dbus::Dict mount = MountConfig("private");
  mount.emplace("task", Text("server"));
  mount.emplace("name", Text("data"));
  mount.emplace("source_type", Text("volume"));
  mount.emplace("source", Text("data"));
  mount.emplace("state", Text("mounted"));
  return {{"id", V(id)},
          {"uid", V(std::uint32_t{1000})},
          {"scope", Text("example")},
          {"state", Text("prepared")},
          {"host_path", Path("/run/mountd/base/a/" + id)},
          {"group", V(100000U)},
          {"networks", V(RowsUnless(has_no_network, Network()))},
          {"volumes", V(RowsUnless(is_empty, volume))},
          {"mounts", V(RowsUnless(is_empty, mount))}};
}

dbus::Dict Plugin(const std::string& id) {
  const dbus::Dict instance{{"type", Text("node")},
                            {"allocation", Text("web")},
                            {"provider", Text("local.csi")},
                            {"vendor_version", Text("0.2")}};
  return {
      {"mount_dir", Text("/csi")},
      {"bare_directories", V(true)},
      {"update_time", V(std::uint64_t{1'700'000'000'000'000})},
      {"instances", V(std::vector<dbus::Dict>{instance, instance})},
      {"id", V(id)},
      {"type", Text("node")},
      {"uid", V(std::uint32_t{0})},
      {"allocation", Text("")},
      {"state", Text(id == "sick" ? "unhealthy" : "healthy")},
      {"reason", Text("\x1b[2J")},
      {"provider", Text("local.csi")},
      {"vendor_version", Text("0.1")},
      {"node_id", Text("n1")},
      {"max_volumes", V(std::int64_t{64})},
      {"topology", V(std::map<std::string, std::string>{{"zone", "a"}})},
      {"node_capabilities", V(std::vector<std::int32_t>{1, 2})},
      {"controller_capabilities", V(std::vector<std::int32_t>{})},
      {"plugin_capabilities", V(std::vector<std::int32_t>{3})},
      {"generation", V(std::uint64_t{5})},
      {"of_a_later_release", V(sdbus::ObjectPath("/org/mountd1/plugin/x"))}};
}

dbus::Dict Holders() {
  const dbus::Dict known{{"pid", V(12U)},
                         {"uid", V(1000U)},
                         {"command", Text("sh")},
                         {"how", Text("fd 5")},
                         {"in_cgroup", V(true)},
                         {"copy", V(true)},
                         {"of_a_later_release", V(1.5)}};
  return {{"holders", V(std::vector<dbus::Dict>{known, {{"pid", V(13U)}}})},
          {"more", V(true)},
          {"complete", V(false)}};
}

dbus::Dict HandedOut() {
  dbus::Dict tree = Holders();
  tree.emplace("kind", Text("detached"));
  tree.emplace("source_type", Text("host"));
  tree.emplace("source", Text("shared"));
  tree.emplace("mount_id", V(std::uint64_t{4711}));
  dbus::Dict inbox = Holders();
  inbox.emplace("kind", Text("inbox"));
  inbox.emplace("task", Text("server"));
  inbox.emplace("mount_id", V(std::uint64_t{4712}));
  return {{"descriptors", V(std::vector<dbus::Dict>{tree, inbox})},
          {"complete", V(false)}};
}

std::vector<dbus::Dict> Reconciled() {
  return {{{"allocation", Text("busy")},
           {"outcome", Text("live")},
           {"reason", Text("processes in its cgroup")},
           {"holders", V(Holders())}},
          {{"allocation", Text("old")},
           {"outcome", Text("released")},
           {"reason", Text("")}},
          {{"allocation", Text("web")},
           {"outcome", Text("present")},
           {"reason", Text("why")},
           {"needs", V(std::vector<std::string>{"bare", "volume/data"})}}};
}

dbus::Dict TaskReport(const std::string& task) {
  const dbus::Dict mount{{"name", Text("data")},
                         {"verdict", Text("lost-propagation")},
                         {"reason", Text("the runtime's rootfsPropagation")},
                         {"read_only", V(true)},
                         {"nosuid", V(true)},
                         {"nodev", V(true)},
                         {"noexec", V(false)},
                         {"peer_group", V(std::uint64_t{12})},
                         {"master", V(std::uint64_t{13})}};
  return {{"ok", V(task == "fine")},
          {"mounts", V(std::vector<dbus::Dict>{mount})},
          {"mount_namespace", V(std::uint64_t{4026531841})},
          {"own_user_namespace", V(true)}};
}

dbus::Dict TracedOperation() {
  const Dicts spans = {
      {{"name", Text("BindMount")},
       {"kind", Text("server")},
       {"span_id", Text("00f067aa0ba902b7")},
       {"parent_span_id", Text("b7ad6b7169203331")},
       {"start_ns", V(std::uint64_t{1'700'000'000'000'000'000})},
       {"end_ns", V(std::uint64_t{1'700'000'000'000'500'000})}},
      {{"name", Text("Attach")},
       {"kind", Text("client")},
       {"span_id", Text("00f067aa0ba902b8")},
       {"parent_span_id", Text("00f067aa0ba902b7")},
       {"start_ns", V(std::uint64_t{1'700'000'000'000'100'000})},
       {"end_ns", V(std::uint64_t{1'700'000'000'000'400'000})},
       {"error", Text("Busy")}}};
  dbus::Dict operation = Operation();
  operation["step"] = Text("end");
  operation.emplace(
      "traceparent",
      Text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
  operation.emplace("request_id", Text("r1"));
  operation.emplace("span_id", Text("00f067aa0ba902b7"));
  operation.emplace("spans", V(spans));
  operation.emplace("spans_left_out", V(std::uint64_t{3}));
  return operation;
}

dbus::Dict Operation() {
  return {{"id", Text("op-1")},
          {"method", Text("ReleaseAllocation")},
          {"object", Text("allocation web")},
          {"uid", V(::geteuid())},
          {"elapsed_ms", V(std::uint64_t{90'000})},
          {"waiters", V(1U)},
          {"cancelled", V(false)},
          {"step", Text("stage")},
          {"done", V(std::uint64_t{2})},
          {"total", V(std::uint64_t{7})},
          {"attempt", V(3U)},
          {"error", Text("Unavailable")},
          {"of_a_later_release", V(1.5)}};
}

dbus::Dict Capabilities(bool named) {
  using Words = std::vector<std::string>;
  return {
      {"version", Text("0.1.0")},
      {"kernel", Text("6.18")},
      {"cni_plugins",
       V(std::map<std::string, std::string>{{"bridge", "1.6.0"}})},
      {"network_modes", V(Words{"bridge", "cni/net"})},
      {"host_ports",
       V(std::vector<
           sdbus::Struct<std::uint16_t, std::uint16_t, std::uint32_t>>{
           {std::uint16_t{20000}, std::uint16_t{20100}, 99U}})},
      {"addresses",
       V(std::map<std::string, sdbus::Struct<std::uint32_t, std::uint32_t>>{
           {"default", {254U, 250U}}})},
      {"propagation", V(Words{"private", "host-to-task"})},
      {"source_types", V(Words{"host", "volume"})},
      {"features", V(std::map<std::string, bool>{{"statmount", false}})},
      {"missing",
       V(std::map<std::string, std::string>{{"statmount", "needs Linux 6.8"}})},
      {"mount_reserve", V(77U)},
      {"owed_warning_ms", V(1500U)},
      {"administrator", V(named)},
      {"rules", V(named)}};
}

namespace {

using Limits = std::map<std::string, std::uint64_t>;

dbus::Dict Source(const char* name) {
  using Words = std::vector<std::string>;
  using Ids = std::vector<sdbus::Struct<std::uint32_t, std::uint32_t>>;
  return {{"name", Text(name)},
          {"read_only_propagation", V(Words{"private", "host-to-task"})},
          {"writable_propagation", V(Words{"private"})},
          {"attributes", V(Words{"nosuid", "nodev"})},
          {"ids", V(Ids{{100000U, 165535U}, {7U, 7U}})},
          {"limits", V(Limits{{"mounts_per_uid", 10000U}})},
          {"of_a_later_release", V(1.5)}};
}

}  // namespace

std::vector<dbus::Dict> HostVolumes() {
  dbus::Dict volume = Source("shared");
  volume.emplace("path", Path("/srv/shared"));
  volume.emplace("root_as_caller", V(std::vector<std::string>{"read-only"}));
  return {volume};
}

std::vector<dbus::Dict> Filesystems() {
  dbus::Dict filesystem = Source("homes");
  filesystem.emplace("type", Text("nfs4"));
  filesystem.emplace("options", V(std::vector<std::string>{"soft"}));
  return {filesystem};
}

std::vector<dbus::Dict> Networks() {
  using Words = std::vector<std::string>;
  using HostPorts = std::vector<sdbus::Struct<std::uint16_t, std::uint16_t>>;
  const HostPorts ports{{std::uint16_t{20000}, std::uint16_t{20100}}};
  const Limits limits{{"namespaces_per_uid", 512U}};
  return {{{"network", Text("default")},
           {"mode", Text("bridge")},
           {"ipv4", V(Words{"10.88.0.0/16"})},
           {"ipv6", V(Words{"fd88::/64"})},
           {"mtu", V(9000U)},
           {"host_ports", V(ports)},
           {"host_namespaces", V(true)},
           {"limits", V(limits)}},
          {{"network", Text("net")},
           {"mode", Text("cni/net")},
           {"unusable", Text("no such \x1b[2Jplugin")},
           {"host_ports", V(ports)},
           {"host_namespaces", V(false)},
           {"limits", V(limits)}}};
}

dbus::Dict CreatedVolume(const std::string& volume) {
  return {{"volume", V(volume)},
          {"capacity_bytes", V(std::int64_t{1} << 30U)},
          {"volume_context", V(Texts{{"pool", "a"}})},
          {"source_snapshot", Text("snap-1")},
          {"source_volume", Text("")},
          {"topology", V(std::vector<Texts>{{{"zone", "a"}}})},
          {"of_a_later_release", V(1.5)}};
}

std::vector<std::uint8_t> SnapshotResponse(const std::string& rpc) {
  const std::map<std::string, std::string> responses = {
      {"CreateSnapshot",
       "\x0a\x24\x08\x80\x80\x80\x80\x04\x12\x06snap-1\x1a\x05vol-1"
       "\x22\x0b\x08\x80\xe2\xcf\xaa\x06\x10\x80\xe5\x9a\x77\x28\x01"},
      {"ListSnapshots",
       "\x0a\x1e\x0a\x1c\x12\x06snap-2\x1a\x05vol-2\x22\x0b\x08"
       "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}};
  const auto found = responses.find(rpc);
  if (found == responses.end()) {
    return {};
  }
  return {found->second.begin(), found->second.end()};
}

}  // namespace mountd::agent::test
