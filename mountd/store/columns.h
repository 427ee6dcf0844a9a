// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "mountd/store/records.h"

// Stores values that have no SQL type as JSON text in one column. Reading never
// fails. A value that was damaged in the store reads as empty. mountd then sees
// that the record and the kernel differ, and repairs.
namespace mountd::store {

std::string ToColumn(const StringMap& map);
std::string ToColumn(const std::vector<std::string>& texts);
std::vector<std::string> TextsFromColumn(std::string_view text);
StringMap MapFromColumn(std::string_view text);

std::string ToColumn(const std::vector<PortMapping>& ports);
std::string ToColumn(const NetworkFiles& files);
NetworkFiles FilesFromColumn(std::string_view text);
std::string ToColumn(const CniSettings& settings);
CniSettings CniSettingsFromColumn(std::string_view text);
std::string ToColumn(const CniResult& result);
CniResult CniResultFromColumn(std::string_view text);
std::vector<PortMapping> PortsFromColumn(std::string_view text);

std::string ToColumn(const exec::IdMapPlan& ids);
exec::IdMapPlan IdsFromColumn(std::string_view text);

std::string ToColumn(const exec::TmpfsPlan& tmpfs);
exec::TmpfsPlan TmpfsFromColumn(std::string_view text);

// Writes "" if the file system is unknown.
std::string ToColumn(const exec::FileSystemPlan& file_system);
exec::FileSystemPlan FileSystemFromColumn(std::string_view text);

std::string ToColumn(const std::vector<ReceiptRecord::Volume>& volumes);
std::vector<ReceiptRecord::Volume> ReceiptVolumesFromColumn(
    std::string_view text);

std::string ToColumn(const csi::Fingerprint& fingerprint);
csi::Fingerprint FingerprintFromColumn(std::string_view text);

}  // namespace mountd::store
