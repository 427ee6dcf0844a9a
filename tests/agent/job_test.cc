// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/job/job.h"

#include <gtest/gtest.h>

#include <string>

namespace mountd::agent::test {
namespace {

TEST(ExampleJob, IsReadAsItsCommentsSay) {
  const Result<Job> job = ReadJob(MOUNTD_EXAMPLE_JOB);
  ASSERT_TRUE(job) << job.error().detail;
  EXPECT_EQ(job->allocation, "web");
  EXPECT_EQ(job->options.scope, "example");
  ASSERT_TRUE(job->network);
  EXPECT_EQ(job->network->mode, "bridge");
  EXPECT_EQ(job->network->network, "");
  ASSERT_EQ(job->network->ports.size(), 1U);
  EXPECT_EQ(job->network->ports[0].label, "http");
  EXPECT_EQ(job->network->ports[0].host, 8080);
  EXPECT_EQ(job->network->ports[0].container, 80);
  ASSERT_EQ(job->volumes.size(), 1U);
  EXPECT_EQ(job->volumes[0].alias, "data");
  EXPECT_EQ(job->volumes[0].plugin, "csi-local");
  EXPECT_EQ(job->volumes[0].volume, "web-data");
  ASSERT_EQ(job->mounts.size(), 4U);
  EXPECT_EQ(job->mounts[0].source_type, SourceType::kVolume);
  EXPECT_EQ(job->mounts[0].source, "data");
  EXPECT_EQ(job->mounts[0].task_path, "/data");
  EXPECT_EQ(job->mounts[1].propagation, Propagation::kPrivate);
  EXPECT_EQ(job->mounts[2].propagation, Propagation::kHostToTask);
  EXPECT_EQ(job->mounts[3].propagation, Propagation::kBidirectional);
  EXPECT_EQ(job->mounts[3].source_type, SourceType::kHostVolume);
  EXPECT_EQ(job->mounts[3].source, "shared");
}

TEST(Job, NeedsNothingButAnAllocation) {
  const Result<Job> job = ParseJob("[allocation]\nid = 'a'\n", "job.toml");
  ASSERT_TRUE(job);
  EXPECT_FALSE(job->network);
  EXPECT_TRUE(job->volumes.empty());
  EXPECT_TRUE(job->mounts.empty());
  EXPECT_EQ(job->options.group, 0U);
}

TEST(Job, AnAllocationMayNameAGroup) {
  const Result<Job> job =
      ParseJob("[allocation]\nid = 'a'\ngroup = 100000\n", "job.toml");
  ASSERT_TRUE(job) << job.error().detail;
  EXPECT_EQ(job->options.group, 100000U);
}

TEST(Job, ADirectoryIsASourceLikeOthers) {
  const Result<Job> job = ParseJob(
      "[allocation]\nid = 'a'\n[[mount]]\ntask = 't'\nname = 'n'\n"
      "source = 'directory:/srv/image'\npropagation = 'host-to-task'\n"
      "read_only = true\nidmap = ['1000:100000:1']\n",
      "job.toml");
  ASSERT_TRUE(job) << job.error().detail;
  const BindMountSpec& mount = job->mounts.at(0);
  EXPECT_EQ(mount.source_type, SourceType::kDirectory);
  EXPECT_EQ(mount.source, "/srv/image");
  EXPECT_EQ(mount.propagation, Propagation::kHostToTask);
  EXPECT_TRUE(mount.read_only);
  EXPECT_EQ(mount.id_map.size(), 1U);
  EXPECT_FALSE(
      ParseJob("[allocation]\nid = 'a'\n[[mount]]\ntask = 't'\n"
               "name = 'n'\nsource = 'directory:'\n",
               "job.toml"));
}

TEST(Job, EveryKeyOfAVolumeIsRead) {
  const Result<Job> job = ParseJob(
      "[allocation]\nid = 'a'\n[[volume]]\nalias = 'd'\nplugin = 'p'\n"
      "id = 'v'\nread_only = true\naccess_mode = 'm'\nattachment_mode = 'f'\n"
      "fs_type = 'ext4'\nmount_flags = ['x', 'y']\n"
      "publish_context = { k = 'v' }\nvolume_context = { l = 'w' }\n",
      "job.toml");
  ASSERT_TRUE(job) << job.error().detail;
  const VolumeSpec& volume = job->volumes.at(0);
  EXPECT_TRUE(volume.usage.read_only);
  EXPECT_EQ(volume.usage.access_mode, "m");
  EXPECT_EQ(volume.usage.attachment_mode, "f");
  EXPECT_EQ(volume.usage.fs_type, "ext4");
  EXPECT_EQ(volume.usage.mount_flags, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(volume.publish_context.at("k"), "v");
  EXPECT_EQ(volume.volume_context.at("l"), "w");
}

constexpr char kWithTasks[] = R"(
[allocation]
id = "a"
[network]
[[network.port]]
label = "http-1"
host = 8080
container = 80
[[task]]
name = "server"
image = "oci:/srv/images/web"
entrypoint = "/bin/httpd"
command = ["-f", "-p", "80"]
user = "www"
env = { B = "2", A = "1" }
working_directory = "/www"
hostname = "h"
read_only_root = true
ports = ["http-1"]
kill_signal = "SIGINT"
kill_timeout = "1500ms"
[task.resources]
memory = 67108864
cpu_weight = 200
pids = 64
cpuset = "0"
oom_kills_all = false
[task.logs]
mode = "journal"
files = 3
size = 65536
[task.restart]
attempts = 5
interval = "2h"
delay = "1m"
mode = "delay"
[[task]]
name = "other"
image = "dir:/i"
network = "none"
[[mount]]
task = "server"
name = "n"
source = "host:x"
path = "/x"
)";

TEST(Job, EveryKeyOfATaskIsRead) {
  const Result<Job> job = ParseJob(kWithTasks, "job.toml");
  ASSERT_TRUE(job) << job.error().detail;
  ASSERT_EQ(job->tasks.size(), 2U);
  const TaskSpec& task = job->tasks[0];
  EXPECT_EQ(task.config.name, "server");
  EXPECT_EQ(task.config.image, "oci:/srv/images/web");
  EXPECT_EQ(task.config.entrypoint, "/bin/httpd");
  EXPECT_EQ(task.config.command, (std::vector<std::string>{"-f", "-p", "80"}));
  EXPECT_EQ(task.config.user, "www");
  EXPECT_EQ(task.config.working_directory, "/www");
  EXPECT_EQ(task.config.hostname, "h");
  EXPECT_TRUE(task.config.read_only_root);
  EXPECT_EQ(task.config.environment, (std::vector<driver::EnvironmentEntry>{
                                         {"A", "1"},
                                         {"B", "2"},
                                         {"MOUNTD_HOST_PORT_http_1", "8080"},
                                         {"MOUNTD_PORT_http_1", "80"}}));
  EXPECT_EQ(task.config.network.mode, driver::NetworkMode::kGroup);
  EXPECT_EQ(task.config.resources.memory_max, 67'108'864U);
  EXPECT_EQ(task.config.resources.cpu_weight, 200U);
  EXPECT_EQ(task.config.resources.pids_max, 64U);
  EXPECT_EQ(task.config.resources.cpuset, "0");
  EXPECT_FALSE(task.config.resources.oom_kills_all);
  EXPECT_EQ(task.config.logs.mode, driver::LogMode::kJournal);
  EXPECT_EQ(task.config.logs.max_files, 3U);
  EXPECT_EQ(task.config.logs.max_file_bytes, 65'536U);
  EXPECT_EQ(task.restart,
            (RestartPolicy{5, std::chrono::hours(2), std::chrono::minutes(1),
                           RestartMode::kDelay}));
  EXPECT_EQ(task.kill_signal, "SIGINT");
  EXPECT_EQ(task.kill_timeout, std::chrono::milliseconds(1500));
  EXPECT_EQ(job->tasks[1].config.network.mode, driver::NetworkMode::kNone);
  EXPECT_EQ(job->tasks[1].restart, RestartPolicy());
}

struct Broken {
  const char* name;
  const char* text;  // follows "[allocation]\nid = 'a'\n"
  const char* problem;
};

class BrokenJobTest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenJobTest, IsRefusedWithLineAndReason) {
  const Result<Job> job = ParseJob(
      std::string("[allocation]\nid = 'a'\n") + GetParam().text, "job.toml");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, Code::kInvalidArgument);
  EXPECT_EQ(job.error().detail, GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Of, BrokenJobTest,
    testing::Values(
        Broken{"Group", "group = -1\n",
               "job.toml:3: allocation.group: must be a whole number"},
        Broken{"UnknownTable", "[netwrk]\n",
               "job.toml:3: netwrk: is not a known key"},
        Broken{"UnknownKey", "[network]\nmod = 'bridge'\n",
               "job.toml:4: network.mod: is not a known key"},
        Broken{"WrongType", "[network]\nmode = 1\n",
               "job.toml:4: network.mode: must be a string"},
        Broken{"PortTooLarge", "[[network.port]]\nlabel = 'h'\nhost = 70000\n",
               "job.toml:5: network.port.host: must be a port number"},
        Broken{"PortZero", "[[network.port]]\nlabel = 'h'\nhost = 0\n",
               "job.toml:5: network.port.host: must be a port number"},
        Broken{"PortWithoutLabel", "[[network.port]]\nhost = 1\n",
               "job.toml:3: network.port.label: is required"},
        Broken{"PortNotATable", "[network]\nport = [1]\n",
               "job.toml:4: network.port: must be an array of tables"},
        Broken{"VolumeNotATable", "volume = 'x'\n",
               "job.toml:3: allocation.volume: is not a known key"},
        Broken{"VolumeWithoutId", "[[volume]]\nalias = 'd'\nplugin = 'p'\n",
               "job.toml:3: volume.id: is required"},
        Broken{"FlagsNotStrings",
               "[[volume]]\nalias = 'd'\nplugin = 'p'\nid = 'v'\n"
               "mount_flags = ['a', 1]\n",
               "job.toml:7: volume.mount_flags: must be an array of strings"},
        Broken{"ContextNotStrings",
               "[[volume]]\nalias = 'd'\nplugin = 'p'\nid = 'v'\n"
               "[volume.volume_context]\nk = 1\n",
               "job.toml:8: volume.volume_context.k: must be a string"},
        Broken{"Source", "[[mount]]\ntask = 't'\nname = 'n'\nsource = '/etc'\n",
               "job.toml:6: mount.source: must be host:NAME, volume:ALIAS, "
               "filesystem:NAME, directory:PATH or tmpfs"},
        Broken{"EmptySource",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'host:'\n",
               "job.toml:6: mount.source: must be host:NAME, volume:ALIAS, "
               "filesystem:NAME, directory:PATH or tmpfs"},
        Broken{"IdMap",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'host:x'\n"
               "idmap = ['1:2']\n",
               "job.toml:7: mount.idmap: must be an array of "
               "ON_DISK:SHOWN:COUNT"},
        Broken{"UidMap",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'host:x'\n"
               "uidmap = ['1:2']\n",
               "job.toml:7: mount.uidmap: must be an array of "
               "ON_DISK:SHOWN:COUNT"},
        Broken{"TmpfsWithoutSize",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'tmpfs'\n",
               "job.toml:3: mount.size: is required"},
        Broken{"SizeNegative",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'tmpfs'\n"
               "size = -1\n",
               "job.toml:7: mount.size: must be a whole number"},
        Broken{"Mode",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'tmpfs'\n"
               "size = 4096\nmode = '9'\n",
               "job.toml:8: mount.mode: must be octal, as \"0700\""},
        Broken{"SizeOfAnother",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'host:x'\n"
               "size = 4096\n",
               "job.toml:7: mount.size: is not a known key"},
        Broken{"TaskKey", "[[task]]\nname = 't'\nimage = 'i'\nports_ = []\n",
               "job.toml:6: task.ports_: is not a known key"},
        Broken{"TaskWithoutImage", "[[task]]\nname = 't'\n",
               "job.toml:3: task.image: is required"},
        Broken{"TaskName", "[[task]]\nname = 'a/b'\nimage = 'i'\n",
               "job.toml:4: task.name: must be 1 to 128 characters of A-Z a-z "
               "0-9 . _ - [ ]"},
        Broken{"TwoTasks",
               "[[task]]\nname = 't'\nimage = 'i'\n[[task]]\nname = 't'\n"
               "image = 'i'\n",
               "job.toml:7: task.name: is another task's name, too"},
        Broken{"TaskNetwork",
               "[[task]]\nname = 't'\nimage = 'i'\nnetwork = 'group'\n",
               "job.toml:6: task.network: is group, and the job has no "
               "[network]"},
        Broken{"TaskPort",
               "[network]\n[[task]]\nname = 't'\nimage = 'i'\n"
               "ports = ['http']\n",
               "job.toml:7: task.ports: must be labels of ports of a [network] "
               "that the task is in, and differ in letters and digits"},
        Broken{"TaskPortsOfOneVariable",
               "[[network.port]]\nlabel = 'a-b'\nhost = 1\n"
               "[[network.port]]\nlabel = 'a_b'\nhost = 2\n"
               "[[task]]\nname = 't'\nimage = 'i'\n"
               "ports = ['a-b', 'a_b']\n",
               "job.toml:12: task.ports: must be labels of ports of a "
               "[network] that the task is in, and differ in letters and "
               "digits"},
        Broken{"TaskResource",
               "[[task]]\nname = 't'\nimage = 'i'\n[task.resources]\n"
               "memory_max = 1\n",
               "job.toml:7: task.resources.memory_max: is not a known key"},
        Broken{"TaskWeight",
               "[[task]]\nname = 't'\nimage = 'i'\n"
               "resources = { cpu_weight = 10001 }\n",
               "job.toml:6: task.resources.cpu_weight: must be 1 to 10000"},
        Broken{"TaskLogs",
               "[[task]]\nname = 't'\nimage = 'i'\n[task.logs]\n"
               "mode = 'none'\n",
               "job.toml:7: task.logs.mode: must be files, journal or off"},
        Broken{"TaskDelay",
               "[[task]]\nname = 't'\nimage = 'i'\n[task.restart]\n"
               "delay = 15\n",
               "job.toml:7: task.restart.delay: must be a duration such as "
               "\"15s\""},
        Broken{"TaskShortDelay",
               "[[task]]\nname = 't'\nimage = 'i'\n[task.restart]\n"
               "delay = '0s'\n",
               "job.toml:7: task.restart.delay: must be at least 100ms"},
        Broken{"TaskShortInterval",
               "[[task]]\nname = 't'\nimage = 'i'\n[task.restart]\n"
               "interval = '1ms'\n",
               "job.toml:7: task.restart.interval: must be at least 1s"},
        Broken{"TaskSignal",
               "[[task]]\nname = 't'\nimage = 'i'\n"
               "kill_signal = 'SIGTERMM'\n",
               "job.toml:6: task.kill_signal: must be a name such as SIGTERM "
               "or a number from 1 to 64"},
        Broken{"TaskDuration",
               "[[task]]\nname = 't'\nimage = 'i'\nkill_timeout = '9999h'\n",
               "job.toml:6: task.kill_timeout: must be a duration such as "
               "\"15s\""},
        Broken{"MountWithoutPath",
               "[[task]]\nname = 't'\nimage = 'i'\n[[mount]]\ntask = 't'\n"
               "name = 'n'\nsource = 'host:x'\n",
               "job.toml:6: mount.path: is required for a mount of a [[task]]"},
        Broken{"MountOfNoTask",
               "[[task]]\nname = 't'\nimage = 'i'\n[[mount]]\ntask = 'u'\n"
               "name = 'n'\nsource = 'host:x'\n",
               "job.toml:7: mount.task: is not the name of a [[task]]"},
        Broken{"Propagation",
               "[[mount]]\ntask = 't'\nname = 'n'\nsource = 'host:x'\n"
               "propagation = 'shared'\n",
               "job.toml:7: mount.propagation: must be private, host-to-task "
               "or bidirectional"}),
    [](const testing::TestParamInfo<Broken>& each) {
      return std::string(each.param.name);
    });

TEST(BrokenJob, WithoutAnAllocationSaysSo) {
  const Result<Job> job = ParseJob("[network]\n", "job.toml");
  ASSERT_FALSE(job);
  EXPECT_NE(job.error().detail.find("allocation: is required"),
            std::string::npos)
      << job.error().detail;
}

TEST(BrokenJob, ThatIsNoTomlHasTheLine) {
  const Result<Job> job = ParseJob("[allocation]\nid = \n", "job.toml");
  ASSERT_FALSE(job);
  EXPECT_TRUE(job.error().detail.starts_with("job.toml:2: "))
      << job.error().detail;
}

TEST(BrokenJob, ThatIsNotThereHasTheErrno) {
  const Result<Job> job = ReadJob("/nowhere/job.toml");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace mountd::agent::test
