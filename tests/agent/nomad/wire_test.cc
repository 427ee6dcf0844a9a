// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The bytes of Nomad's messages, written by hand, against our own .proto.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nomad_base.pb.h>

#include <nlohmann/json.hpp>
#include <string>

#include "agent/nomad/plugin/replies.h"
#include "agent/nomad/plugin/schema.h"
#include "agent/nomad/plugin/task_request.h"
#include "tests/support/matchers.h"

namespace mountd::nomad {
namespace {

using driver::MountPropagation;
using ::testing::ElementsAre;

// A field with bytes.
std::string Text(int number, const std::string& bytes) {
  std::string key;
  for (unsigned left = static_cast<unsigned>(number) << 3U | 2U;; left >>= 7U) {
    key += static_cast<char>(left > 127 ? left | 128U : left);
    if (left <= 127) {
      break;
    }
  }
  EXPECT_LT(bytes.size(), 128U);
  return key + static_cast<char>(bytes.size()) + bytes;
}

// A field with a number below 128; its own number is below 16.
std::string Number(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

wire::TaskConfig Parsed(const std::string& bytes) {
  wire::TaskConfig task;
  EXPECT_TRUE(task.ParseFromString(bytes));
  EXPECT_TRUE(task.GetReflection()->GetUnknownFields(task).empty());
  return task;
}

const Keys kKeys = {
    {"image", driver::SchemaKey::Type::kString, true, ""},
    {"entrypoint", driver::SchemaKey::Type::kString, false, ""},
    {"command", driver::SchemaKey::Type::kStrings, false, ""},
    {"working_directory", driver::SchemaKey::Type::kString, false, ""},
    {"hostname", driver::SchemaKey::Type::kString, false, ""},
    {"read_only_root", driver::SchemaKey::Type::kBool, false, ""},
};

TEST(NomadWire, ReadsEveryFieldOfATask) {
  // {"image": "oci:/i", "command": ["a"], "read_only_root": true,
  //  "hostname": nil}
  const std::string config =
      "\x84\xa5image\xa6oci:/i\xa7"
      "command\x91\xa1"
      "a\xaeread_only_root\xc3\xa8hostname\xc0";
  const std::string resources =
      Text(1,
           Text(1, Number(1, 100)) + Text(2, Number(2, 16) + Number(3, 32))) +
      Text(2, Number(1, 50) + Number(2, 20) + Number(3, 2) + Number(4, 1) +
                  Text(6, "0-1"));
  wire::TaskConfig task = Parsed(
      Text(1, "a1/web/0000") + Text(2, "web") + Text(3, config) +
      Text(4, Text(1, "B") + Text(2, "2")) +
      Text(5, Text(1, "A") + Text(2, "1")) + Text(6, resources) +
      Text(7, Text(1, "/data") + Text(2, "/srv/x") + Number(3, 1) +
                  Text(4, "host-to-task") + Text(6, "vol")) +
      Text(8, Text(1, "/dev/a") + Text(2, "/dev/b") + Text(3, "rw")) +
      Text(9, "1000:1000") + Text(10, "/var/none/a1") +
      Text(11, "/var/none/a1/alloc/logs/.web.stdout.fifo") +
      Text(12, "/var/none/a1/alloc/logs/.web.stderr.fifo") + Text(13, "group") +
      Text(14, "job") + Text(15, "a1") +
      Text(16, Number(1, 1) + Text(2, "/run/netns/a") +
                   Text(3, Text(1, "hostname") + Text(2, "h"))) +
      Text(17, Text(1, "9.9.9.9") + Text(2, "example") + Text(3, "ndots:5")) +
      Text(18, "job-id") + Text(19, "default"));
  ASSERT_OK_AND_ASSIGN(const driver::TaskConfig got, TaskConfigOf(task, kKeys));
  driver::TaskConfig want;
  want.id = "a1/web/0000";
  want.allocation = "cni-a1";
  want.name = "web";
  want.job = "job";
  want.image = "oci:/i";
  want.command = {"a"};
  want.read_only_root = true;
  want.user = "1000:1000";
  want.environment = {{"A", "1"}, {"B", "2"}};
  want.directories = {"/var/none/a1/alloc", "/var/none/a1/web/local",
                      "/var/none/a1/web/secrets", ""};
  want.resources.memory_max = 32U << 20U;
  want.resources.memory_low = 16U << 20U;
  want.resources.cpu_weight = 1;
  want.resources.cpu_quota_us = 20;
  want.resources.cpu_period_us = 50;
  want.resources.cpuset = "0-1";
  want.mounts = {
      {"/data", "/srv/x", true, false, MountPropagation::kHostToTask, "vol"}};
  want.devices = {{"/dev/a", "/dev/b", "rw"}};
  want.network = {
      driver::NetworkMode::kGroup, "/run/netns/a", {{"hostname", "h"}}};
  want.dns = driver::DnsConfig{{"9.9.9.9"}, {"example"}, {"ndots:5"}};
  want.logs.mode = driver::LogMode::kFifos;
  want.logs.stdout_path = "/var/none/a1/alloc/logs/.web.stdout.fifo";
  want.logs.stderr_path = "/var/none/a1/alloc/logs/.web.stderr.fifo";
  EXPECT_EQ(got, want);
}

TEST(NomadWire, TakesMemoryAloneForTheLimit) {
  wire::TaskConfig task;
  task.set_alloc_id("a1");
  task.set_name("web");
  task.set_alloc_dir("/var/none");
  task.set_msgpack_driver_config("\x81\xa5image\xa6oci:/i");
  auto* memory =
      task.mutable_resources()->mutable_allocated_resources()->mutable_memory();
  memory->set_memory_mb(16);
  ASSERT_OK_AND_ASSIGN(driver::TaskConfig got, TaskConfigOf(task, kKeys));
  EXPECT_EQ(got.resources.memory_max, 16U << 20U);
  EXPECT_EQ(got.resources.memory_low, 0U);
  EXPECT_EQ(got.logs.mode, driver::LogMode::kOff);
  memory->set_memory_max_mb(-1);
  ASSERT_OK_AND_ASSIGN(got, TaskConfigOf(task, kKeys));
  EXPECT_EQ(got.resources.memory_max, 0U);
  EXPECT_EQ(got.resources.memory_low, 16U << 20U);
}

// Nomad sends "rwm" for a device whose job names no permissions.
TEST(NomadWire, LeavesOutThePermissionToMakeNodes) {
  wire::TaskConfig task;
  task.set_alloc_id("a1");
  task.set_name("web");
  task.set_alloc_dir("/var/none");
  task.set_msgpack_driver_config("\x81\xa5image\xa6oci:/i");
  for (const char* permissions : {"rwm", "mr", "m", "rx"}) {
    task.add_devices()->set_cgroup_permissions(permissions);
  }
  ASSERT_OK_AND_ASSIGN(const driver::TaskConfig got, TaskConfigOf(task, kKeys));
  std::vector<std::string> permissions;
  for (const driver::Device& device : got.devices) {
    permissions.push_back(device.cgroup_permissions);
  }
  EXPECT_THAT(permissions, ElementsAre("rw", "r", "", "rx"));
}

TEST(NomadWire, BoundsNumbersOfTheCaller) {
  google::protobuf::Duration duration;
  duration.set_seconds(-5);
  EXPECT_EQ(DurationOf(duration).count(), 0);
  duration.set_seconds(std::int64_t{1} << 62U);
  EXPECT_EQ(DurationOf(duration), std::chrono::hours(24 * 365));
  duration.set_seconds(1);
  duration.set_nanos(500'000'000);
  EXPECT_EQ(DurationOf(duration).count(), 1500);
}

TEST(NomadWire, WritesCapabilities) {
  driver::DriverCapabilities from;
  from.sends_signals = true;
  from.executes = true;
  from.file_system = driver::FileSystemIsolation::kImage;
  from.networks = {driver::NetworkMode::kHost, driver::NetworkMode::kGroup};
  from.must_create_network = true;
  wire::DriverCapabilities to;
  Fill(from, &to);
  EXPECT_EQ(to.SerializeAsString(), Number(1, 1) + Number(2, 1) + Number(3, 2) +
                                        Text(4, std::string("\0\1", 2)) +
                                        Number(5, 1));
}

TEST(NomadWire, WritesAnEvent) {
  driver::TaskEvent from{"id", "cni-a1", "web", driver::Timestamp(), "ran", {}};
  from.at += std::chrono::seconds(2);
  wire::DriverTaskEvent to;
  Fill(from, &to);
  EXPECT_EQ(to.SerializeAsString(), Text(1, "id") + Text(2, "a1") +
                                        Text(3, "web") + Text(4, Number(1, 2)) +
                                        Text(5, "ran"));
}

TEST(NomadWire, WritesTheEndOfAnExec) {
  driver::ExecResponse from;
  from.stdout_data = driver::ExecData{"x", true};
  from.stderr_data = driver::ExecData{"", true};
  from.result = driver::ExitResult{4, 9, true};
  wire::ExecTaskStreamingResponse to;
  Fill(from, &to);
  EXPECT_EQ(to.SerializeAsString(),
            Text(1, Text(1, "x") + Number(2, 1)) + Text(2, Number(2, 1)) +
                Number(3, 1) +
                Text(4, Number(1, 4) + Number(2, 9) + Number(3, 1)));
}

TEST(NomadWire, WritesRatesOfTwoSamples) {
  driver::TaskStats first;
  first.cpu_user_us = 1'000'000;
  first.cpu_system_us = 0;
  driver::TaskStats second;
  second.at = first.at + std::chrono::seconds(2);
  second.cpu_user_us = 2'000'000;
  second.cpu_system_us = 500'000;
  wire::TaskStats to;
  Fill(second, first, &to);
  const wire::CPUUsage& cpu = to.agg_resource_usage().cpu();
  EXPECT_EQ(cpu.user_mode(), 50);
  EXPECT_EQ(cpu.system_mode(), 25);
  EXPECT_EQ(cpu.percent(), 75);
  EXPECT_THAT(cpu.measured_fields(),
              ElementsAre(wire::CPUUsage::SYSTEM_MODE,
                          wire::CPUUsage::USER_MODE, wire::CPUUsage::PERCENT));
}

TEST(NomadSchema, WritesAnAttribute) {
  const Spec spec =
      SpecOf({{"image", driver::SchemaKey::Type::kString, true, ""}});
  EXPECT_EQ(
      spec.SerializeAsString(),
      Text(1, Text(1, Text(1, "image") +
                          Text(2, Text(3, Text(1, "image") + Text(2, "string") +
                                              Number(3, 1))))));
}

TEST(NomadSchema, ReadsEachTypeAndNoOther) {
  using Type = driver::SchemaKey::Type;
  const Keys keys = {{"s", Type::kString, false, ""},
                     {"b", Type::kBool, false, ""},
                     {"n", Type::kNumber, false, ""},
                     {"l", Type::kStrings, false, ""},
                     {"m", Type::kStringMap, false, ""}};
  const auto read = [&](const nlohmann::json& values) {
    const auto bytes = nlohmann::json::to_msgpack(values);
    return ReadValues({bytes.begin(), bytes.end()}, keys);
  };
  EXPECT_THAT(read({{"s", "x"},
                    {"b", true},
                    {"n", 1.5},
                    {"l", {"x"}},
                    {"m", nlohmann::json::array({{{"k", "v"}}})}}),
              IsOk());
  for (const nlohmann::json& wrong :
       std::vector<nlohmann::json>{{{"s", 1}},
                                   {{"b", 0}},
                                   {{"n", "1"}},
                                   {{"l", {1}}},
                                   {{"l", "x"}},
                                   {{"m", nlohmann::json::array({{{"k", 1}}})}},
                                   {{"x", nullptr}}}) {
    EXPECT_THAT(read(wrong),
                IsErrOf(Code::kInvalidArgument, wrong.begin().key()));
  }
  EXPECT_THAT(ReadValues("", keys), IsOk());
  EXPECT_THAT(ReadValues("\xc0", keys), IsOk());
  EXPECT_THAT(ReadValues("\x90", keys), IsErr(Code::kInvalidArgument));
}

}  // namespace
}  // namespace mountd::nomad
