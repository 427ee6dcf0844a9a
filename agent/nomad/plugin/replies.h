// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nomad_drivers.pb.h>

#include <optional>
#include <string>

#include "agent/driver/exec_stream.h"
#include "agent/driver/task_status.h"

// From the words of a driver to Nomad's messages.
namespace mountd::nomad {

namespace wire = hashicorp::nomad::plugins::drivers::proto;

void Fill(const driver::DriverCapabilities& from, wire::DriverCapabilities* to);
// The attributes are named after this plugin, not after the driver's kind.
void Fill(const driver::Fingerprint& from, wire::FingerprintResponse* to);
void Fill(const driver::ExitResult& from, wire::ExitResult* to);
void Fill(const driver::NetworkIsolation& from, wire::NetworkIsolationSpec* to);
void Fill(const driver::DriverNetwork& from, wire::NetworkOverride* to);
// Sets a time of completion and a result in any state, because Nomad's client
// reads both always. The time of a task that runs is Go's zero.
void Fill(const driver::TaskStatus& from, wire::InspectTaskResponse* to);
void Fill(const driver::TaskEvent& from, wire::DriverTaskEvent* to);
void Fill(const driver::ExecResponse& from,
          wire::ExecTaskStreamingResponse* to);
// `before` is the sample before this one: rates need two.
void Fill(const driver::TaskStats& from,
          const std::optional<driver::TaskStats>& before, wire::TaskStats* to);

// Returns the id of a task's allocation, as Nomad has it.
std::string AllocIdOf(const std::string& allocation);

}  // namespace mountd::nomad
