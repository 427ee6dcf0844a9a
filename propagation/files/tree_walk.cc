// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/files/tree_walk.h"

namespace mountd::propagation {

// Bounds the text and replaces odd characters, because tasks choose these
// names.
std::string TreeTrail::Text(const std::string& name) const {
  // A reply has room for 192 bytes of detail (mountd/plan/message.h).
  constexpr std::size_t kMost = 120;
  std::string text;
  for (const std::string& part : names_) {
    text += part + "/";
  }
  text += name.empty() ? "." : name;
  if (text.size() > kMost) {
    text = "..." + text.substr(text.size() - kMost);
  }
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) {
      c = '?';
    }
  }
  return text;
}

std::string TreeTrail::Described(const std::string& name) const {
  return object_ + "/" + Text(name);
}

Error TreeTrail::Failed(int err, const char* op,
                        const std::string& name) const {
  return ErrnoError(err, op, object_, "at " + Text(name));
}

Error TreeTrail::AtMount(const char* op, const std::string& name) const {
  return Refused(Code::kBusy, op, name, "a mount is");
}

Error TreeTrail::Refused(Code code, const char* op, const std::string& name,
                         const std::string& why) const {
  return MakeError(code, op, object_, why + " at " + Text(name));
}

}  // namespace mountd::propagation
