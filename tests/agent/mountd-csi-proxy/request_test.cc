// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The proxy's parts that need neither gRPC nor mountd.
#include "agent/mountd-csi-proxy/request.h"

#include <gtest/gtest.h>

#include <string>

#include "agent/mountd-csi-proxy/plugin_server.h"
#include "agent/mountd-csi-proxy/publication.h"
#include "agent/mountd-csi-proxy/status.h"
#include "agent/mountd-csi-proxy/target.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::csi_proxy {
namespace {

namespace pb = ::csi::v1;
using Mode = pb::VolumeCapability::AccessMode;

TEST(CsiProxyStatus, EachErrorHasItsCode) {
  const std::pair<Code, int> codes[] = {{Code::kNotFound, 5},
                                        {Code::kAlreadyExists, 6},
                                        {Code::kInvalidArgument, 3},
                                        {Code::kPermissionDenied, 7},
                                        {Code::kBusy, 9},
                                        {Code::kUnavailable, 14},
                                        {Code::kDeadlineExceeded, 4},
                                        {Code::kResourceExhausted, 8},
                                        {Code::kFailedPrecondition, 9},
                                        {Code::kAborted, 10},
                                        {Code::kNotSupported, 12},
                                        {Code::kInProgress, 10},
                                        {Code::kInternal, 13}};
  EXPECT_EQ(std::size(codes), static_cast<std::size_t>(kLastCode));
  for (const auto& [code, status] : codes) {
    const auto made = ToStatus(MakeError(code, "op", "object", "why"));
    EXPECT_EQ(made.error_code(), status) << CodeName(code);
    EXPECT_NE(made.error_message().find("op object: why"), std::string::npos);
  }
  EXPECT_TRUE(ToStatus(Ok()).ok());
}

TEST(CsiProxyRequest, APathIsAbsoluteAndClean) {
  EXPECT_EQ(CleanPath("p", "//a///b/").value(), "/a/b");
  for (const std::string& bad :
       {std::string(), std::string("a"), std::string("/"), std::string("//"),
        std::string("/a/../b"), std::string("/a/./b"), std::string("/.."),
        std::string("/a\x7f"), std::string("/a\tb"), std::string("/a\0b", 4),
        "/" + std::string(256, 'a'), std::string(4096, '/')}) {
    EXPECT_THAT(CleanPath("p", bad), IsErr(Code::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(CleanPath("p", "/" + std::string(255, 'a')), IsOk());
  EXPECT_THAT(CleanPath("p", "/a..b/...c"), IsOk());
}

TEST(CsiProxyRequest, ANulAnywhereIsRefusedWithoutItsText) {
  const std::string nul("hunter2\0", 8);
  pb::CreateVolumeRequest request;
  EXPECT_THAT(CheckTexts(request), IsOk());
  request.add_volume_capabilities()->mutable_mount()->add_mount_flags(nul);
  const auto flags = CheckTexts(request);
  EXPECT_THAT(flags, IsErrOf(Code::kInvalidArgument, "mount_flags"));
  EXPECT_EQ(flags.error().Message().find("hunter2"), std::string::npos);
  request.clear_volume_capabilities();
  (*request.mutable_secrets())[nul] = "a";
  EXPECT_THAT(CheckTexts(request), IsErr(Code::kInvalidArgument));
  request.clear_secrets();
  (*request.mutable_parameters())["a"] = nul;
  EXPECT_THAT(CheckTexts(request), IsErr(Code::kInvalidArgument));
  request.clear_parameters();
  (*request.mutable_accessibility_requirements()
        ->add_preferred()
        ->mutable_segments())["zone"] = nul;
  EXPECT_THAT(CheckTexts(request), IsErr(Code::kInvalidArgument));
}

TEST(CsiProxyRequest, ACapabilityIsAUsage) {
  const std::pair<Mode::Mode, const char*> modes[] = {
      {Mode::SINGLE_NODE_WRITER, "single-node-writer"},
      {Mode::SINGLE_NODE_READER_ONLY, "single-node-reader-only"},
      {Mode::MULTI_NODE_READER_ONLY, "multi-node-reader-only"},
      {Mode::MULTI_NODE_SINGLE_WRITER, "multi-node-single-writer"},
      {Mode::MULTI_NODE_MULTI_WRITER, "multi-node-multi-writer"},
      {Mode::SINGLE_NODE_SINGLE_WRITER, "single-node-single-writer"},
      {Mode::SINGLE_NODE_MULTI_WRITER, "single-node-multi-writer"}};
  pb::VolumeCapability capability;
  EXPECT_THAT(UsageOf(capability, false), IsErr(Code::kInvalidArgument));
  capability.mutable_mount()->set_fs_type("ext4");
  EXPECT_THAT(UsageOf(capability, false), IsErr(Code::kInvalidArgument));
  capability.mutable_mount()->add_mount_flags("noatime");
  capability.mutable_mount()->set_volume_mount_group("7");
  for (const auto& [mode, name] : modes) {
    capability.mutable_access_mode()->set_mode(mode);
    ASSERT_OK_AND_ASSIGN(const agent::VolumeUsage usage,
                         UsageOf(capability, false));
    EXPECT_EQ(usage.access_mode, name);
    EXPECT_EQ(usage.read_only,
              std::string(name).find("reader") != std::string::npos);
    EXPECT_EQ(usage.attachment_mode, "");
    EXPECT_EQ(usage.fs_type, "ext4");
    EXPECT_EQ(usage.volume_mount_group, "7");
    EXPECT_EQ(usage.mount_flags, std::vector<std::string>{"noatime"});
    EXPECT_TRUE(UsageOf(capability, true)->read_only);
  }
  capability.mutable_access_mode()->set_mode(static_cast<Mode::Mode>(99));
  EXPECT_THAT(UsageOf(capability, false), IsErr(Code::kInvalidArgument));
  capability.mutable_access_mode()->set_mode(Mode::SINGLE_NODE_WRITER);
  capability.mutable_block();
  EXPECT_EQ(UsageOf(capability, false)->attachment_mode, "block-device");
  EXPECT_THAT(NodeUsageOf(capability, false),
              IsErrOf(Code::kInvalidArgument, "block device"));
}

TEST(CsiProxyPublication, ItsNameFollowsFromPluginAndPath) {
  const Publication one("csi-local", "/a/b");
  EXPECT_EQ(one.allocation(), Publication("csi-local", "/a/b").allocation());
  EXPECT_EQ(one.allocation().size(), 36U);
  EXPECT_NE(one.allocation(), Publication("csi-local", "/a/c").allocation());
  EXPECT_NE(one.allocation(), Publication("csi", "-local/a/b").allocation());
}

TEST(CsiProxyTarget, ItIsMadeAndRemovedWithoutFollowingALink) {
  const TempDirectory directory;
  const std::string path = directory.File("target");
  EXPECT_THAT(RemoveTarget(path), IsOk());
  EXPECT_THAT(OpenTarget(path), IsOk());
  EXPECT_THAT(OpenTarget(path), IsOk()) << "it is there already";
  EXPECT_THAT(RemoveTarget(path), IsOk());
  EXPECT_THAT(OpenTarget(path + "/below"), IsErr(Code::kFailedPrecondition));
  ASSERT_EQ(::symlink("/", path.c_str()), 0);
  EXPECT_THAT(OpenTarget(path), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(RemoveTarget(path), IsErr(Code::kFailedPrecondition));
}

TEST(CsiProxyAddress, ANameAndASocket) {
  const auto parsed = ParseAddress("csi-local=unix:///run/a=b.sock", "");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->plugin, "csi-local");
  EXPECT_EQ(parsed->socket, "/run/a=b.sock");
  EXPECT_EQ(ParseAddress("a", "unix:/run/c.sock")->socket, "/run/c.sock");
  EXPECT_EQ(ParseAddress("a=/run/d.sock", "unix:/run/c.sock")->socket,
            "/run/d.sock");
  for (const char* bad : {"a", "", "=/run/a", "a/b=/run/a", "..=/run/a",
                          "a=", "a=run/a", "a=tcp://127.0.0.1:1"}) {
    EXPECT_THAT(ParseAddress(bad, ""), IsErr(Code::kInvalidArgument)) << bad;
  }
}

}  // namespace
}  // namespace mountd::csi_proxy
