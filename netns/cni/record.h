// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/base/result.h"
#include "netns/cni/json.h"
#include "netns/cni/network_list.h"
#include "netns/cni/request.h"

namespace mountd::cni {

// All that DEL and CHECK need of an ADD, whatever has become of the
// configuration since. Written before the first plugin runs, after each one's
// answer, and when the last has answered.
//
//   no record ──ADD──► incomplete ──last plugin answered──► complete
//                          │  ▲                                │
//                     DEL, or an undo                     DEL  │
//                          ▼  └────────── DEL failed ──────────┤
//                      no record ◄─────────────────────────────┘
//
// A reboot makes any of them incomplete, of an earlier boot, without a result.
struct Record {
  NetworkList list;
  // The version that was spoken.
  std::string version;
  Attachment attachment;
  std::string netns;
  std::uint64_t netns_inode = 0;
  std::string args;
  Json capabilities = Json::object();
  bool complete = false;
  // The last answer of a plugin; null while there is none.
  Json result;
  // Not written: what is there of it is what plugins keep on disk. A namespace
  // of the same name, or of the same inode, is another.
  bool earlier_boot = false;
};

Json ToJson(const Record& record);

// InvalidArgument: it is not ours, or of another release.
Result<Record> ReadRecord(const Json& json, const Attachment& attachment);

}  // namespace mountd::cni
