// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/port_text.h"

#include <gtest/gtest.h>

namespace mountd::agent::test {
namespace {

// Returns the port as "label address host container protocols".
std::string Parsed(const char* text) {
  const Result<Port> port = ParsePort(text);
  return port ? port->label + " " + port->host_address + " " +
                    std::to_string(port->host) + " " +
                    std::to_string(port->container) + " " + port->protocols
              : "";
}

TEST(PortText, IsReadAsItIsWritten) {
  EXPECT_EQ(Parsed("8080"), "  8080 0 tcp");
  EXPECT_EQ(Parsed("8080:80"), "  8080 80 tcp");
  EXPECT_EQ(Parsed("http=8080:80/tcp+udp?"), "http  8080 80 tcp+udp?");
  EXPECT_EQ(Parsed("127.0.0.1:8080"), " 127.0.0.1 8080 0 tcp");
  EXPECT_EQ(Parsed("127.0.0.1:8080:80/udp"), " 127.0.0.1 8080 80 udp");
  EXPECT_EQ(Parsed("[2001:db8::1]:8080:80"), " 2001:db8::1 8080 80 tcp");
  EXPECT_EQ(Parsed("six=[::]:8080/udp"), "six :: 8080 0 udp");
}

TEST(PortText, AnythingElseIsRefused) {
  for (const char* text : {"", "http=", "0", "65536", "8080:", ":80",
                           "8080:80:1", "8080/", "127.0.0.1", "127.0.0.1:",
                           "::1:8080", "[::1]", "[::1:8080", "8080x", "-1"}) {
    EXPECT_EQ(Parsed(text), "") << text;
  }
}

}  // namespace
}  // namespace mountd::agent::test
