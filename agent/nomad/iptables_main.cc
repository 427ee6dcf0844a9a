// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The stand-in for iptables in the PATH of a Nomad client without root.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "agent/nomad/iptables_answers.h"

int main(int argc, char** argv) {
  if (argc < 1) {
    return EXIT_FAILURE;
  }
  const std::string path = argv[0];
  const std::string name = path.substr(path.rfind('/') + 1);
  const auto reply = mountd::nomad::AnswerIptables(
      name, std::vector<std::string>(argv + 1, argv + argc));
  std::fputs(reply.err.c_str(), stderr);
  std::fputs(reply.out.c_str(), stdout);
  // A failed write shows at the latest in fflush.
  return std::fflush(stdout) == 0 ? reply.status : EXIT_FAILURE;
}
