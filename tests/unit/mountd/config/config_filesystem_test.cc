// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_filesystem.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace mountd {
namespace {

TEST(ConfigFilesystem, KnowsTheseTypes) {
  for (const char* type :
       {"nfs", "nfs4", "cifs", "ceph", "9p", "virtiofs", "ext4", "xfs", "btrfs",
        "squashfs", "erofs", "fuse.bindfs", "fuse.s3-fs_2"}) {
    EXPECT_EQ(FaultOfType(type), "") << type;
  }
  for (const char* type :
       {"", "auto", "proc", "overlay", "tmpfs", "none", "fuse", "fuse.", "NFS",
        "fuse.a/b", "fuse.-x", "fuse.a b", "fuse.a;b", "fuseblk", "ntfs",
        "fuse.../x"}) {
    EXPECT_NE(FaultOfType(type), "") << type;
  }
}

TEST(ConfigFilesystem, ASourceIsAWordThatIsNoOption) {
  for (const char* source : {"server:/export", "[fd00::1]:/export",
                             "//host/share", "user@host:dir", "tag", "mon1,"}) {
    EXPECT_EQ(FaultOfSource("nfs", source).empty(),
              std::string(source).find(',') == std::string::npos)
        << source;
  }
  for (const char* source :
       {"", "-osuid", "a b", "a,b", "a;b", "$(x)", "`x`", "a\nb", "a\\b", "a'b",
        "a\"b", "a|b", "a&b", "a*b", "a?b"}) {
    EXPECT_NE(FaultOfSource("fuse.bindfs", source), "") << source;
  }
  EXPECT_NE(FaultOfSource("nfs", std::string(1025, 'a')), "");
  EXPECT_EQ(FaultOfSource("ext4", "/srv/image"), "");
  EXPECT_EQ(FaultOfSource("xfs", "/dev/disk/by-partuuid/1-2"), "");
  for (const char* source :
       {"image", "LABEL=x", "UUID=1", "/srv/../etc/x", "/srv/x/..", "/a//b"}) {
    EXPECT_NE(FaultOfSource("ext4", source), "") << source;
  }
}

struct Case {
  const char* type;
  const char* option;
};

TEST(ConfigFilesystem, TakesWhatTheTypeNeeds) {
  for (const Case& each : {
           Case{"nfs", "soft"},
           {"nfs4", "vers=4.2"},
           {"nfs", "sec=krb5p"},
           {"nfs", "timeo=50"},
           {"nfs", "lookupcache=none"},
           {"cifs", "credentials=/etc/mountd/share.cred"},
           {"cifs", "uid=1000"},
           {"ceph", "secretfile=/etc/mountd/ceph/key"},
           {"9p", "trans=virtio"},
           {"virtiofs", "dax=never"},
           {"ext4", "errors=remount-ro"},
           {"ext4", "noload"},
           {"xfs", "nouuid"},
           {"btrfs", "subvol=/data"},
           {"squashfs", "noatime"},
           {"erofs", "noacl"},
           {"fuse.bindfs", "map=1000/1001"},
           {"fuse.bindfs", "allow_other"},
           {"fuse.sshfs", "IdentityFile=/etc/mountd/id"},
           {"fuse.other", "default_permissions"},
           {"fuse.other", "max_read=65536"},
       }) {
    EXPECT_EQ(FaultOfOption(each.type, each.option), "")
        << each.type << " " << each.option;
  }
}

// These types and options could run a program, give a file of the host to
// others, stop the host, or weaken the mount.
TEST(ConfigFilesystem, RefusesWhatReachesFurther) {
  for (const char* type : {"nfs", "cifs", "ext4", "fuse.bindfs", "fuse.sshfs",
                           "fuse.other", "9p", "btrfs"}) {
    for (const char* option : {"",
                               "suid",
                               "dev",
                               "exec",
                               "rw",
                               "ro",
                               "defaults",
                               "user",
                               "users",
                               "owner",
                               "loop",
                               "loop=/dev/loop0",
                               "offset=1",
                               "helper=x",
                               "uhelper=x",
                               "x-systemd.automount",
                               "X-mount.mkdir",
                               "remount",
                               "bind",
                               "rbind",
                               "shared",
                               "context=x",
                               "soft,suid",
                               "noatime,suid",
                               "noatime=1",
                               "=",
                               "=x",
                               "noatime ",
                               "NOATIME"}) {
      EXPECT_NE(FaultOfOption(type, option), "") << type << " " << option;
    }
  }
  for (const Case& each : {
           Case{"nfs", "bg"},
           {"nfs", "timeo=x"},
           {"nfs", "timeo=-1"},
           {"nfs", "timeo="},
           {"nfs", "timeo"},
           {"nfs", "vers=4,suid"},
           {"nfs", "lookupcache=maybe"},
           {"cifs", "password=x"},
           {"cifs", "credentials=/etc/shadow"},
           {"cifs", "credentials=/etc/mountd/../shadow"},
           {"cifs", "credentials=/etc/mountd/"},
           {"cifs", "credentials=share.cred"},
           {"cifs", "cruid=0"},
           {"ceph", "secret=x"},
           {"ceph", "conf=/etc/x"},
           {"ceph", "secretfile=/etc/mountd/x/../../shadow"},
           {"9p", "trans=fd"},
           {"9p", "trans=unix"},
           {"9p", "rfdno=3"},
           {"9p", "wfdno=3"},
           {"ext4", "errors=panic"},
           {"ext4", "journal_path=/dev/sda"},
           {"ext4", "journal_dev=5"},
           {"xfs", "logdev=/dev/sda"},
           {"xfs", "rtdev=/dev/sda"},
           {"btrfs", "device=/dev/sda"},
           {"squashfs", "errors=panic"},
           {"erofs", "device=/dev/sda"},
           {"erofs", "fsid=x"},
           {"fuse.bindfs", "resolve-symlinks"},
           {"fuse.bindfs", "map=1/2,suid"},
           {"fuse.sshfs", "ssh_command=/bin/sh"},
           {"fuse.sshfs", "ProxyCommand=x"},
           {"fuse.sshfs", "IdentityFile=/root/.ssh/id"},
           {"fuse.other", "map=1/2"},
           {"fuse.other", "setuid=nobody"},
           {"fuse.other", "fd=3"},
           {"fuse.other", "passwd_file=/etc/shadow"},
           {"ext4", "soft"},
       }) {
    EXPECT_NE(FaultOfOption(each.type, each.option), "")
        << each.type << " " << each.option;
  }
}

TEST(ConfigFilesystem, UsersSeeOptionsWithoutFreeText) {
  for (const auto& [type, option] :
       std::vector<std::pair<const char*, const char*>>{
           {"nfs4", "soft"},
           {"nfs4", "timeo=50"},
           {"nfs", "lookupcache=none"},
           {"ext4", "noexec"},
           {"fuse.sshfs", "idmap=user"}}) {
    EXPECT_EQ(FaultOfOption(type, option), "") << option;
    EXPECT_TRUE(IsShownOption(type, option)) << option;
  }
  for (const auto& [type, option] :
       std::vector<std::pair<const char*, const char*>>{
           {"cifs", "credentials=/etc/mountd/a"},
           {"cifs", "username=joe"},
           {"ceph", "secretfile=/etc/mountd/a"},
           {"ceph", "mon_addr=10.0.0.1"},
           {"nfs4", "clientaddr=10.0.0.1"},
           {"fuse.sshfs", "IdentityFile=/etc/mountd/key"},
           {"fuse.bindfs", "force-user=joe"}}) {
    EXPECT_EQ(FaultOfOption(type, option), "") << option;
    EXPECT_FALSE(IsShownOption(type, option)) << option;
  }
  EXPECT_FALSE(IsShownOption("nfs4", "no_such_option"));
}

}  // namespace
}  // namespace mountd
