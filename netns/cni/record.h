// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "mountd/base/result.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/request.h"
#include "netns/cni/network_list.h"

namespace mountd::cni {

// Holds all that DEL and CHECK need of an ADD, however the configuration
// changes later. Written before the first plugin runs, after each plugin's
// answer, and after the last answer.
//
//   no record ──ADD──► incomplete ──last plugin answered──► complete
//                          │  ▲                                │
//                     DEL, or an undo                     DEL  │
//                          ▼  │                                ▼
//                      no record ◄──last plugin answered── detaching
//
// DEL of an incomplete attachment may run ADD once more (DetachCutOff). DEL of
// an attachment that is detaching, because an earlier DEL began, never does.
//
// After a reboot each record is incomplete, of an earlier boot, and without a
// result.
struct Record {
  NetworkList list;
  // The version of the specification that the runner speaks with the plugins.
  std::string version;
  Attachment attachment;
  std::string netns;
  std::uint64_t netns_inode = 0;
  std::string args;
  Json capabilities = Json::object();
  bool complete = false;
  bool detaching = false;  // a DEL of the complete attachment began
  // The last answer of a plugin; null until there is one.
  Json result;
  // True after a reboot; not written to disk. Only what plugins keep on disk is
  // then left of the attachment. If a namespace has the same name or inode now,
  // it is another namespace.
  bool earlier_boot = false;
};

Json ToJson(const Record& record);

// Reads a record. InvalidArgument if it is not mountd's, or is of another
// release.
Result<Record> ReadRecord(const Json& json, const Attachment& attachment);

}  // namespace mountd::cni
