// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/real/cni/readme_config.h"

#include <fstream>
#include <sstream>

namespace mountd::testing {

std::string ReadmeNetworkConfig() {
  std::ifstream file(MOUNTD_README);
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  constexpr std::string_view kBegin = "```json\n";
  const std::size_t section = text.find("\n## A configuration\n");
  const std::size_t begin = text.find(kBegin, section);
  const std::size_t end = text.find("```", begin + kBegin.size());
  if (section == std::string::npos || begin == std::string::npos ||
      end == std::string::npos) {
    return "";
  }
  return text.substr(begin + kBegin.size(), end - begin - kBegin.size());
}

}  // namespace mountd::testing
