// SPDX-License-Identifier: LGPL-2.1-or-later
// Invalid calls are refused by name, before anything is written or made.
#include <fcntl.h>
#include <sys/mman.h>

#include "tests/dbus/api_test.h"
#include "tests/dbus/refusal_probes.h"

namespace mountd::test {
namespace {

constexpr char kInvalid[] = "org.mountd1.Error.InvalidArgument";
constexpr char kNotSupported[] = "org.mountd1.Error.NotSupported";

// Methods without arguments but their options.
constexpr const char* kLists[] = {
    "ListAllocations", "ListVolumes",     "ListPlugins",     "ListOwed",
    "RetryOwed",       "GetStatistics",   "GetCapabilities", "Reload",
    "ListOperations",  "ListHostVolumes", "ListFilesystems", "ListNetworks"};

// Has an object of every kind. Each refused call must leave all of them as they
// were.
class Refusals : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    Publish(*client_);
    before_ = State();
  }
  void TearDown() override { EXPECT_EQ(State(), before_); }

  void Expect(const Answer& answer, const std::string& error,
              const std::string& part) {
    EXPECT_EQ(answer.error, error) << answer.message;
    EXPECT_NE(answer.message.find(part), std::string::npos) << answer.message;
  }

  std::unique_ptr<BusClient> client_;
  std::string before_;
};

TEST_P(Refusals, AnUnknownOptionIsNamed) {
  for (const Probe& probe : WithOption()) {
    SCOPED_TRACE(probe.what);
    Expect(probe.call(*client_, "no_such"), kInvalid,
           "options[\"no_such\"]: is not an option");
  }
  for (const char* method : kLists) {
    SCOPED_TRACE(method);
    Expect(client_->Call(method, "a{sv}", 1, "no_such", "b", 1), kInvalid,
           "options[\"no_such\"]: is not an option");
  }
}

TEST_P(Refusals, AnOptionOfTheWrongTypeIsNamed) {
  for (const Probe& probe : WithOption()) {
    SCOPED_TRACE(probe.what);
    Expect(probe.call(*client_, "patience_ms"), kInvalid,
           "options[\"patience_ms\"]: has the wrong type");
  }
  for (const char* method : kLists) {
    SCOPED_TRACE(method);
    Expect(client_->Call(method, "a{sv}", 1, "patience_ms", "i", 1), kInvalid,
           "options[\"patience_ms\"]: has the wrong type");
  }
}

// Every method reads a call's names in the same place.
TEST_P(Refusals, ANameOfTheCallThatIsNoneIsRefused) {
  for (const Probe& probe : WithOption()) {
    SCOPED_TRACE(probe.what);
    Expect(probe.call(*client_, "traceparent"), kInvalid,
           "options[\"traceparent\"]: must be a traceparent");
  }
  const std::string too_long(129, 'r');
  for (const char* method : kLists) {
    SCOPED_TRACE(method);
    Expect(client_->Call(method, "a{sv}", 1, "traceparent", "s",
                         "00-00000000000000000000000000000000-"
                         "b7ad6b7169203331-01"),
           kInvalid, "options[\"traceparent\"]: must be a traceparent");
    Expect(client_->Call(method, "a{sv}", 1, "traceparent", "u", 1), kInvalid,
           "options[\"traceparent\"]: has the wrong type");
    for (const char* id : {"", "a b", "a\nb", "\x1b[2J", too_long.c_str()}) {
      Expect(client_->Call(method, "a{sv}", 1, "request_id", "s", id), kInvalid,
             "options[\"request_id\"]: must be 1 to 128");
    }
  }
}

TEST_P(Refusals, AKeyIsPrintedPlainAndShort) {
  const std::string key = "a\n\x1b[31m\"" + std::string(5000, 'k');
  const Answer answer =
      client_->Call("ListOwed", "a{sv}", 1, key.c_str(), "s", "x");
  Expect(answer, kInvalid, "is not an option");
  EXPECT_LT(answer.message.size(), 200U);
  EXPECT_EQ(answer.message.find('\n'), std::string::npos);
  EXPECT_EQ(answer.message.find('\x1b'), std::string::npos);
}

TEST_P(Refusals, NamesThatAreNone) {
  const std::string too_long(129, 'a');
  const char* const names[] = {
      "../x", "..",   ".",        "a/b", "/",
      " ",    "a\nb", "\xc3\xa4", "a:b", too_long.c_str()};
  for (const Probe& probe : WithName()) {
    for (const char* name : names) {
      SCOPED_TRACE(std::string(probe.what) + " = " + name);
      Expect(probe.call(*client_, name), kInvalid, "");
    }
    if (!probe.may_be_empty) {
      SCOPED_TRACE(std::string(probe.what) + " empty");
      Expect(probe.call(*client_, ""), kInvalid, "");
    }
  }
}

TEST_P(Refusals, WordsOutsideTheContract) {
  const auto bind = [&](const char* source_type, const char* propagation) {
    return client_->Call("BindMount", "sssssbsa{sv}", "web", "t", "n",
                         source_type, "data", 0, propagation, 0);
  };
  Expect(bind("path", "private"), kInvalid, "source_type");
  Expect(bind("host", "shared"), kInvalid, "propagation");
  const auto network = [&](const char* mode, const char* protocol, int port) {
    return client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", mode, 1, "",
                         "", port, 0, 1, protocol, 0);
  };
  Expect(network("weave", "tcp", 20080), kNotSupported, "mode");
  Expect(network("bridge", "icmp", 20080), kInvalid, "port");
  Expect(network("bridge", "tcp+", 20080), kInvalid, "port");
  Expect(network("bridge", "tcp+tcp", 20080), kInvalid, "port");
  Expect(network("bridge", "", 20080), kInvalid, "port");
  Expect(network("none", "tcp", 20080), kInvalid, "mode none");
}

TEST_P(Refusals, NetworksOutsideTheContract) {
  const auto port = [&](const char* host, int number, int count) {
    return client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", "bridge", 1,
                         "p", host, number, 0, count, "tcp", 0);
  };
  Expect(port("localhost", 20080, 1), kInvalid, "port p");
  Expect(port("::1", 20080, 1), kNotSupported, "port p");
  Expect(port("", 20080, 0), kInvalid, "port p");
  const auto option = [&](const char* mode, const char* key, const char* type,
                          auto value) {
    return client_->Call("SetupNetwork", "ssa(ssqqqs)a{sv}", "web", mode, 0, 1,
                         key, type, value);
  };
  Expect(option("bridge", "address", "s", "fd00::5"), kInvalid,
         "options[\"address\"]");
  Expect(option("bridge", "address6", "s", "::"), kInvalid,
         "options[\"address6\"]");
  Expect(option("bridge", "address", "s", "192.0.2.1"), kInvalid, "192.0.2.1");
  Expect(option("bridge", "interface", "s", "lo"), kInvalid, "interface");
  Expect(option("bridge", "interface", "s", "sixteen-bytes-it"), kInvalid,
         "interface");
  Expect(option("bridge", "default_route", "s", "yes"), kInvalid,
         "options[\"default_route\"]");
  Expect(option("none", "interface", "s", "eth0"), kInvalid, "interface");
  Expect(option("none", "isolated", "b", 1), kInvalid, "mode none");
  Expect(option("driver", "network", "s", "default"), kInvalid, "mode driver");
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Expect(option("driver", "netns", "h", null.get()), kInvalid,
         "options[\"netns\"]");
  Expect(option("bridge", "ports_keeper", "h", null.get()), kInvalid,
         "options[\"ports_keeper\"]");
  const UniqueFd own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  Expect(option("none", "netns", "h", own.get()), kInvalid, "mode none");
}

TEST_P(Refusals, UsageOutsideTheContract) {
  const auto publish = [&](const char* key, const char* type,
                           const char* value) {
    return client_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web",
                         "v2", "vol2", "csi", 1, key, type, value, 0, 0, 0);
  };
  const std::string too_long(129, 'f');
  Expect(publish("no_such", "s", "x"), kInvalid, "usage[\"no_such\"]");
  Expect(publish("read_only", "s", "true"), kInvalid, "usage[\"read_only\"]");
  Expect(publish("mount_flags", "s", "ro"), kInvalid, "usage[\"mount_flags\"]");
  Expect(publish("access_mode", "s", "any"), kInvalid,
         "usage[\"access_mode\"]");
  Expect(publish("fs_type", "s", too_long.c_str()), kInvalid,
         "usage[\"fs_type\"]");
  Expect(publish("attachment_mode", "s", "weird"), kInvalid,
         "usage[\"attachment_mode\"]");
  Expect(publish("volume_mount_group", "s", too_long.c_str()), kInvalid,
         "usage[\"volume_mount_group\"]");
}

TEST_P(Refusals, MountFlagsThatAreTooLargeAreNotRepeated) {
  const std::string flag = "password=hunter2" + std::string(4096, 'x');
  const Answer answer = client_->Call(
      "PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "v2", "vol2", "csi",
      1, "mount_flags", "as", 1, flag.c_str(), 0, 0, 0);
  Expect(answer, kInvalid, "usage[\"mount_flags\"]");
  EXPECT_EQ(answer.message.find("hunter2"), std::string::npos);
}

TEST_P(Refusals, VolumeIdsAndContextsBeyondTheirBounds) {
  const std::string large(4097, 'v');
  const std::string key(129, 'k');
  const std::string id(1025, 'i');
  const auto publish = [&](const char* volume, const char* context_key,
                           const char* value) {
    return client_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web",
                         "v2", volume, "csi", 0, 1, context_key, value, 0, 0);
  };
  Expect(publish("", "k", "v"), kInvalid, "volume");
  Expect(publish(id.c_str(), "k", "v"), kInvalid, "volume");
  Expect(publish("vol2", key.c_str(), "v"), kInvalid, "publish_context");
  Expect(publish("vol2", "k", large.c_str()), kInvalid, "publish_context");
  Expect(client_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web", "v2",
                       "vol2", "csi", 0, 0, 1, "k", large.c_str(), 0),
         kInvalid, "volume_context");
}

TEST_P(Refusals, PathsThatAreNone) {
  const std::string large(4096, 'p');
  const auto mount_dir = [&](const char* path) {
    return client_->Call("RegisterPlugin", "sssa{sv}", "new", "node", "", 1,
                         "mount_dir", "s", path);
  };
  Expect(mount_dir("csi"), kInvalid, "mount_dir");
  Expect(mount_dir("/csi/../etc"), kInvalid, "mount_dir");
  Expect(
      client_->Call("BindMount", "sssssbsa{sv}", "web", "t", "n", "host",
                    "data", 0, "private", 1, "task_path", "s", large.c_str()),
      kInvalid, "task_path");
}

TEST_P(Refusals, SecretsThatAreNoSealedMemfd) {
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const int fd : {unsealed.get(), null.get()}) {
    Expect(client_->Call("PublishVolume", "ssssa{sv}a{ss}a{ss}a{sv}", "web",
                         "v2", "vol2", "csi", 0, 0, 0, 1, "secrets", "h", fd),
           kInvalid, "options[\"secrets\"]");
  }
}

TEST_P(Refusals, TreesThatAreNoDirectories) {
  const UniqueFd file(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  const UniqueFd memory(memfd_create("x", MFD_CLOEXEC));
  for (const int fd : {file.get(), memory.get()}) {
    Expect(client_->Call("RemoveTree", "ha{sv}", fd, 0), kInvalid,
           "must be a directory");
    Expect(client_->Call("ChownTree", "huua{sv}", fd, 0, 0, 0), kInvalid,
           "must be a directory");
  }
}

TEST_P(Refusals, ACgroupThatIsNone) {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd root(::open("/", O_PATH | O_CLOEXEC));
  for (const int fd : {null.get(), root.get()}) {
    Expect(client_->Call("PrepareAllocation", "sa{sv}", "new", 1, "cgroup", "h",
                         fd),
           kInvalid, "options[\"cgroup\"]");
  }
}

TEST_P(Refusals, HoldersOfAnotherScope) {
  Expect(client_->Call("ListHolders", "sssa{sv}", "web", "t", "n", 1, "scope",
                       "s", "world"),
         kInvalid, "options[\"scope\"]");
}

TEST_P(Refusals, AnotherSignature) {
  for (const char* types : {"s", "", "ss"}) {
    SCOPED_TRACE(types);
    const Answer answer =
        client_->Call("PrepareAllocation", types, "new", "more");
    EXPECT_EQ(answer.error, "org.freedesktop.DBus.Error.InvalidArgs");
  }
  EXPECT_EQ(client_->Call("PrepareAllocation", "ua{sv}", 1, 0).error,
            "org.freedesktop.DBus.Error.InvalidArgs");
  EXPECT_EQ(client_->Call("ReleaseAllocation", "sa{ss}", "web", 0).error,
            "org.freedesktop.DBus.Error.InvalidArgs");
}

TEST_P(Refusals, WhatIsNotThere) {
  EXPECT_EQ(client_->Call("Reboot", "").error,
            "org.freedesktop.DBus.Error.UnknownMethod");
  EXPECT_EQ(client_
                ->CallOn("/org/mountd1", "org.mountd1.Nothing",
                         "ReleaseAllocation", "sa{sv}", "web", 0)
                .error,
            "org.freedesktop.DBus.Error.UnknownMethod");
  for (const char* path : {"/", "/org", "/org/mountd1/web", "/org/mountd2"}) {
    SCOPED_TRACE(path);
    EXPECT_EQ(client_
                  ->CallOn(path, "org.mountd1.Manager", "ReleaseAllocation",
                           "sa{sv}", "web", 0)
                  .error,
              "org.freedesktop.DBus.Error.UnknownObject");
  }
}

MOUNTD_ON_BOTH_TRANSPORTS(Refusals);

}  // namespace
}  // namespace mountd::test
