// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The plugin's side of go-plugin, part by part.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/nomad/goplugin/base64.h"
#include "agent/nomad/goplugin/certificate.h"
#include "agent/nomad/goplugin/hclog.h"
#include "agent/nomad/goplugin/host_offer.h"
#include "agent/nomad/goplugin/plugin_server.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::goplugin {
namespace {

namespace fs = std::filesystem;

constexpr Cookie kCookie = {"TEST_COOKIE", "open"};

TEST(GoPluginOffer, IsRefusedWithoutTheCookie) {
  ::unsetenv("TEST_COOKIE");
  EXPECT_THAT(TakeHostOffer(kCookie), IsErr(Code::kFailedPrecondition));
  ::setenv("TEST_COOKIE", "opens", 1);
  EXPECT_THAT(TakeHostOffer(kCookie), IsErr(Code::kFailedPrecondition));
}

TEST(GoPluginOffer, IsTakenOutOfTheEnvironment) {
  ::setenv("TEST_COOKIE", "open", 1);
  ::setenv("PLUGIN_PROTOCOL_VERSIONS", "2,x,10", 1);
  ::setenv("PLUGIN_UNIX_SOCKET_DIR", "/run/host", 1);
  ::setenv("PLUGIN_UNIX_SOCKET_GROUP", "42", 1);
  ::setenv("PLUGIN_CLIENT_CERT", "PEM", 1);
  ::setenv("PLUGIN_MULTIPLEX_GRPC", "true", 1);
  ::setenv("PLUGIN_MIN_PORT", "10000", 1);
  ::setenv("PLUGIN_MAX_PORT", "25000", 1);
  ASSERT_OK_AND_ASSIGN(const HostOffer offer, TakeHostOffer(kCookie));
  EXPECT_EQ(offer.versions, (std::vector{2, 10}));
  EXPECT_EQ(offer.socket_directory, "/run/host");
  EXPECT_EQ(offer.socket_group, "42");
  EXPECT_EQ(offer.client_certificate, "PEM");
  EXPECT_TRUE(offer.asks_for_multiplexing);
  EXPECT_EQ(::getenv("TEST_COOKIE"), nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    EXPECT_FALSE(std::string(*variable).starts_with("PLUGIN_")) << *variable;
  }
}

TEST(GoPluginHandshake, HasSixFields) {
  EXPECT_EQ(HandshakeLine({}, {2, "/run/s", ""}), "1|2|unix|/run/s|grpc|\n");
  EXPECT_EQ(HandshakeLine({}, {2, "/run/s", "abcd"}),
            "1|2|unix|/run/s|grpc|YWJjZA\n");
}

TEST(GoPluginHandshake, SaysNoToMultiplexingIfTheHostAsks) {
  HostOffer offer;
  offer.asks_for_multiplexing = true;
  EXPECT_EQ(HandshakeLine(offer, {2, "/run/s", ""}),
            "1|2|unix|/run/s|grpc||false\n");
}

TEST(GoPluginBase64, HasNoPadding) {
  EXPECT_EQ(Base64WithoutPadding(""), "");
  EXPECT_EQ(Base64WithoutPadding("f"), "Zg");
  EXPECT_EQ(Base64WithoutPadding("fo"), "Zm8");
  EXPECT_EQ(Base64WithoutPadding("foo"), "Zm9v");
  EXPECT_EQ(Base64WithoutPadding("\xff\xfe"), "//4");
}

TEST(GoPluginLog, IsAnObjectOnOneLine) {
  const std::string line = HclogLine(LogLevel::kWarn, "mountd", "two\nlines",
                                     {{"task", "web"}, {"@level", "hostile"}},
                                     1'700'000'000'000'042);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line,
            "{\"@level\":\"warn\",\"@message\":\"two\\nlines\",\"@module\":"
            "\"mountd\",\"@timestamp\":\"2023-11-14T22:13:20.000042Z\","
            "\"task\":\"web\"}\n");
}

TEST(GoPluginLog, IsBoundedAndValidForAnyText) {
  const std::string bytes(100'000, '\xff');
  LogPairs pairs;
  for (int i = 0; i < 20; ++i) {
    pairs.emplace_back(std::to_string(i) + bytes, bytes);
  }
  const std::string line = HclogLine(LogLevel::kError, bytes, bytes, pairs, 0);
  EXPECT_LE(line.size(), std::size_t{50} << 10U);
  EXPECT_TRUE(nlohmann::json::accept(line));
}

TEST(GoPluginSocket, IsAloneInAPrivateDirectory) {
  const TempDirectory host;
  HostOffer offer;
  offer.socket_directory = host.File("");
  {
    ASSERT_OK_AND_ASSIGN(const SocketPlace place, SocketPlace::Make(offer));
    EXPECT_TRUE(place.socket().starts_with(offer.socket_directory));
    const fs::path directory = fs::path(place.socket()).parent_path();
    EXPECT_EQ(fs::status(directory).permissions(), fs::perms::owner_all);
  }
  EXPECT_TRUE(fs::is_empty(host.File("")));
}

TEST(GoPluginSocket, RefusesAPathThatNoSocketHas) {
  HostOffer offer;
  offer.socket_directory = "/" + std::string(100, 'a');
  EXPECT_THAT(SocketPlace::Make(offer), IsErr(Code::kInvalidArgument));
}

// The certificate in the sixth field of the line, as PEM.
std::string CertificateOf(const std::string& line) {
  std::string text = line.substr(line.rfind('|') + 1);
  text.pop_back();
  text.append((4 - text.size() % 4) % 4, '=');
  for (std::size_t at = 64; at < text.size(); at += 65) {
    text.insert(at, "\n");
  }
  return "-----BEGIN CERTIFICATE-----\n" + text +
         "\n-----END CERTIFICATE-----\n";
}

class GoPluginServer : public ::testing::Test {
 protected:
  std::unique_ptr<PluginServer> Start(const HostOffer& offer) {
    auto server = PluginServer::Start(offer, 2, {}, stop_);
    EXPECT_THAT(server, IsOk());
    return server ? *std::move(server) : nullptr;
  }
  static std::shared_ptr<grpc::Channel> Connect(const PluginServer& server) {
    return grpc::CreateChannel("unix:" + server.socket(),
                               grpc::InsecureChannelCredentials());
  }
  static bool ShutdownBy(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    plugin::Empty answer;
    return plugin::GRPCController::NewStub(channel)
        ->Shutdown(&context, {}, &answer)
        .ok();
  }

  StopRequest stop_;
};

TEST_F(GoPluginServer, AsksForItsEndAfterTheAnswerToShutdown) {
  const auto server = Start({});
  ASSERT_NE(server, nullptr);
  EXPECT_TRUE(ShutdownBy(Connect(*server)));
  stop_.Await();
}

TEST_F(GoPluginServer, KeepsTheStreamsOfAHostOpen) {
  const auto server = Start({});
  ASSERT_NE(server, nullptr);
  const auto channel = Connect(*server);
  grpc::ClientContext of_stdio;
  const auto stdio = plugin::GRPCStdio::NewStub(channel)->StreamStdio(
      &of_stdio, google::protobuf::Empty());
  grpc::ClientContext of_broker;
  const auto broker =
      plugin::GRPCBroker::NewStub(channel)->StartStream(&of_broker);
  plugin::ConnInfo info;
  info.set_service_id(7);
  EXPECT_TRUE(broker->Write(info));
  EXPECT_TRUE(broker->WritesDone());
  EXPECT_FALSE(broker->Read(&info));
  EXPECT_TRUE(broker->Finish().ok());
  of_stdio.TryCancel();
  plugin::StdioData data;
  EXPECT_FALSE(stdio->Read(&data));
  EXPECT_EQ(stdio->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(GoPluginServer, IsReachedByTheGroupThatTheHostNames) {
  HostOffer offer;
  offer.socket_group = std::to_string(::getegid());
  const auto server = Start(offer);
  ASSERT_NE(server, nullptr);
  struct stat found = {};
  ASSERT_EQ(::stat(server->socket().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0660U);
  EXPECT_EQ(fs::status(fs::path(server->socket()).parent_path()).permissions(),
            fs::perms(0710));
}

TEST_F(GoPluginServer, IsItsOwnersAlone) {
  const auto server = Start({});
  ASSERT_NE(server, nullptr);
  struct stat found = {};
  ASSERT_EQ(::stat(server->socket().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0600U);
}

TEST_F(GoPluginServer, TakesOnlyTheClientOfTheCertificate) {
  ASSERT_OK_AND_ASSIGN(const Certificate client, MakeCertificate());
  ASSERT_OK_AND_ASSIGN(const Certificate other, MakeCertificate());
  HostOffer offer;
  offer.client_certificate = client.pem;
  const auto server = Start(offer);
  ASSERT_NE(server, nullptr);
  EXPECT_FALSE(ShutdownBy(Connect(*server)));
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("localhost");
  for (const Certificate* mine : {&other, &client}) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = CertificateOf(server->handshake());
    options.pem_private_key = mine->key_pem;
    options.pem_cert_chain = mine->pem;
    EXPECT_EQ(ShutdownBy(grpc::CreateCustomChannel(
                  "unix:" + server->socket(), grpc::SslCredentials(options),
                  arguments)),
              mine == &client);
  }
}

TEST_F(GoPluginServer, RefusesACertificateThatIsNone) {
  HostOffer offer;
  offer.client_certificate = "no certificate";
  EXPECT_THAT(PluginServer::Start(offer, 2, {}, stop_),
              IsErr(Code::kUnavailable));
}

}  // namespace
}  // namespace mountd::goplugin
