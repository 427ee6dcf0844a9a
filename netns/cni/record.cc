// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/record.h"

#include <utility>

namespace mountd::cni {
namespace {

constexpr std::uint64_t kFormat = 1;

Error Unreadable(const Attachment& attachment) {
  return MakeError(Code::kInvalidArgument, "record", attachment.ToText(),
                   "has a record in an unknown format");
}

}  // namespace

Json ToJson(const Record& record) {
  return {{"format", kFormat},
          {"containerId", record.attachment.container_id},
          {"ifname", record.attachment.ifname},
          {"network", ToJson(record.list)},
          {"version", record.version},
          {"netns", record.netns},
          {"netnsInode", record.netns_inode},
          {"args", record.args},
          {"capabilities", record.capabilities},
          {"complete", record.complete},
          {"detaching", record.detaching},
          {"result", record.result}};
}

Result<Record> ReadRecord(const Json& json, const Attachment& attachment) {
  MemberReader reader(json, "record");
  Record record;
  constexpr std::size_t kMaxBytes = 1U << 20U;
  const std::uint64_t format = reader.Number("format", kFormat);
  record.attachment.container_id = reader.Text("containerId", kMaxBytes);
  record.attachment.ifname = reader.Text("ifname", kMaxBytes);
  const Json* list = reader.Object("network", kMaxBytes);
  record.version = reader.Text("version", kMaxBytes);
  record.netns = reader.Text("netns", kMaxBytes);
  record.netns_inode = reader.Number("netnsInode", ~std::uint64_t{0});
  record.args = reader.Text("args", kMaxBytes);
  const Json* capabilities = reader.Object("capabilities", kMaxBytes);
  const Json* result = reader.Object("result", kMaxBytes);
  const Json* complete = FindMember(json, "complete");
  // Absent in a record of an earlier release.
  const Json* detaching = FindMember(json, "detaching");
  if (format != kFormat || record.attachment != attachment || list == nullptr ||
      capabilities == nullptr || complete == nullptr ||
      !complete->is_boolean()) {
    return Unreadable(attachment);
  }
  MOUNTD_ASSIGN(record.list, FromJson(*list, "record"));
  record.capabilities = *capabilities;
  record.complete = complete->get<bool>();
  record.detaching = detaching != nullptr && *detaching == true;
  record.result = result == nullptr ? Json(nullptr) : *result;
  return record;
}

}  // namespace mountd::cni
