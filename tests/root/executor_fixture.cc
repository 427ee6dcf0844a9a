// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/executor_fixture.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mountd::testing {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;
using exec::ToWire;

namespace {

void MakeHost() {
  for (const char* path :
       {"/run/host/data/sub", "/run/host/ro", "/run/host/real/inner"}) {
    MakeDirectories(path);
  }
  WriteFile("/run/host/data/file", "content");
  WriteFile("/run/host/one", "content");
  ASSERT_EQ(::symlink("/run/host/real", "/run/host/link"), 0);
}

}  // namespace

void ExecutorFixture::SetUp() {
  PrivateNamespaces::SetUp();
  if (IsSkipped() || HasFatalFailure()) {
    return;
  }
  MakeDirectories("/run/mountd");
  MakeHost();
  const std::vector<Propagation> all = {Propagation::kPrivate,
                                        Propagation::kHostToTask,
                                        Propagation::kBidirectional};
  config_.host_volumes = {
      {"data", {"/run/host/data", false, all}},
      {"ro", {"/run/host/ro", true, {Propagation::kPrivate}}},
      {"file", {"/run/host/one", false, {Propagation::kPrivate}}},
      {"link", {"/run/host/link/inner", false, all}},
      {"last-link", {"/run/host/link", false, all}},
      {"missing", {"/run/host/missing", false, all}},
      {"proc", {"/proc/sys", false, all}},
      {"base", {"/run/mountd/base/a", false, all}},
      {"above", {"/run", false, all}},
      {"moved-proc", {"/run/host/moved-proc", false, all}},
  };
  NetworkConfig network;
  network.ipv4 = {netns::ParseIpv4Range("10.88.0.0/16").value()};
  network.ipv6 = {netns::ParseIpv6Range("fd88::/64").value()};
  config_.networks["default"] = network;
  RuleConfig rule;
  rule.host_ports = {{18080, 18090}, {20000, 20200}};
  config_.rules = {rule};
  dispatcher_.emplace(kernel_, config_);
}

void ExecutorFixture::TearDown() {
  last_fd_.reset();
  PrivateNamespaces::TearDown();
}

Reply ExecutorFixture::Call(PlanKind kind) {
  return Call(kind, [](PlanBody* /*body*/) {});
}

Reply ExecutorFixture::Send(const Request& request) {
  Reply reply;
  const auto take = [&](const exec::Dispatcher::Answer& answer) {
    reply = answer.reply;
    last_fd_.reset(answer.fd.valid() ? ::dup(answer.fd.get()) : -1);
    when_told_();
    return Ok();
  };
  EXPECT_TRUE(
      dispatcher_->Handle(std::as_bytes(std::span(&request, 1)), fds_, take));
  return reply;
}

void ExecutorFixture::MoveHostToExt4() {
  MakeImage("/run/host.image");
  ASSERT_EQ(std::system("mount -o loop /run/host.image /run/host"), 0);
  MakeHost();
}

bool ExecutorFixture::HasUniqueMountIds() {
  const auto root = real_.Stat(-1, "/");
  return root && root->mount_id_is_unique;
}

void ExecutorFixture::PrepareBase() {
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareAllocation,
                         [](PlanBody* body) {
                           body->allocation = {ToWire("web"), 1234};
                         })),
            "");
}

Request ExecutorFixture::AttachRequest(const std::string& volume,
                                       Propagation propagation,
                                       const std::string& name) const {
  Request request;
  request.kind = PlanKind::kAttach;
  request.body.attach = exec::AttachPlan{};
  request.body.attach.target = exec::Target("web", "app", name);
  request.body.attach.source.host_volume = ToWire(volume);
  request.body.attach.propagation = propagation;
  return request;
}

Request ExecutorFixture::TmpfsRequest() {
  Request request;
  request.kind = PlanKind::kAttach;
  request.body.attach = exec::AttachPlan{};
  request.body.attach.target = exec::Target("web", "app", "data");
  request.body.attach.source.kind = exec::SourceKind::kTmpfs;
  request.body.attach.source.tmpfs = {65536, 8, 01750, 1234, 5678, 0};
  return request;
}

Request ExecutorFixture::FilesystemRequest(const std::string& name,
                                           Propagation propagation) {
  Request request = TmpfsRequest();
  request.body.attach.source = exec::SourcePlan{};
  request.body.attach.source.kind = exec::SourceKind::kFilesystem;
  request.body.attach.source.filesystem = ToWire(name);
  request.body.attach.propagation = propagation;
  return request;
}

Reply ExecutorFixture::Attach(const std::string& volume,
                              Propagation propagation,
                              const std::string& name) {
  return Send(AttachRequest(volume, propagation, name));
}

Reply ExecutorFixture::Detach(std::uint64_t mount_id, const std::string& name) {
  return Call(PlanKind::kDetach, [&](PlanBody* body) {
    body->detach = {exec::Target("web", "app", name), mount_id};
  });
}

Reply ExecutorFixture::ReleaseHostVolume(const std::string& volume,
                                         std::uint64_t anchor_id) {
  return Call(PlanKind::kReleaseAnchor, [&](PlanBody* body) {
    body->anchor = {exec::SourceKind::kHostVolume, ToWire(volume), anchor_id};
  });
}

Reply ExecutorFixture::ReleaseFilesystem(const std::string& name,
                                         std::uint64_t anchor_id) {
  return Call(PlanKind::kReleaseAnchor, [&](PlanBody* body) {
    body->anchor = {exec::SourceKind::kFilesystem, ToWire(name), anchor_id};
  });
}

std::string ErrorOf(const Reply& reply) {
  if (reply.code == 0) {
    return "";
  }
  const Error error{static_cast<Code>(reply.code), reply.op.data(),
                    reply.object.data(), reply.detail.data(), reply.sys_errno};
  return CodeOf(reply) + ": " + error.Message();
}

std::string CodeOf(const Reply& reply) {
  return reply.code == 0 ? ""
                         : std::string(CodeName(static_cast<Code>(reply.code)));
}

void MakeDirectories(const std::string& path) {
  ::umask(022);
  std::filesystem::create_directories(path);
  ::umask(0);
}

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

bool Exists(const std::string& path) {
  struct stat st = {};
  return ::lstat(path.c_str(), &st) == 0;
}

void MakeImage(const std::string& path) {
  MakeDirectories(path + ".content");
  WriteFile(path + ".content/mark", "");
  ASSERT_EQ(::chown((path + ".content/mark").c_str(), 1000, 1000), 0);
  const std::string command =
      "mkfs.ext4 -q -d " + path + ".content " + path + " 4M >/dev/null 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
}

void MountTmpfs(const std::string& path) {
  MakeDirectories(path);
  ASSERT_EQ(::mount("tmpfs", path.c_str(), "tmpfs", 0, nullptr), 0) << path;
  WriteFile(path + "/mark", "");
}

void Unmount(const std::string& path) {
  ASSERT_EQ(::umount2(path.c_str(), UMOUNT_NOFOLLOW), 0) << path;
}

std::uint64_t ReusableId(const std::string& path) {
  struct statx stx = {};
  EXPECT_EQ(::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &stx), 0) << path;
  return stx.stx_mnt_id;
}

}  // namespace mountd::testing
