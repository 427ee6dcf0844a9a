// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nomad_drivers.pb.h>

#include "agent/nomad/plugin/driver_source.h"
#include "mountd/base/result.h"

// The calls of Nomad that have one answer, without gRPC. Each one blocks.
namespace mountd::nomad {

namespace wire = hashicorp::nomad::plugins::drivers::proto;

Result<void> Answer(DriverSource& source,
                    const wire::TaskConfigSchemaRequest& request,
                    wire::TaskConfigSchemaResponse* response);
Result<void> Answer(DriverSource& source,
                    const wire::CapabilitiesRequest& request,
                    wire::CapabilitiesResponse* response);
// Knows a task by the names in its handle, because a client that was restarted
// (Nomad 2.0.5) sends a handle without the driver's configuration.
Result<void> Answer(DriverSource& source,
                    const wire::RecoverTaskRequest& request,
                    wire::RecoverTaskResponse* response);
Result<void> Answer(DriverSource& source, const wire::StartTaskRequest& request,
                    wire::StartTaskResponse* response);
// A task that is not there has been stopped, and destroyed.
Result<void> Answer(DriverSource& source, const wire::StopTaskRequest& request,
                    wire::StopTaskResponse* response);
Result<void> Answer(DriverSource& source,
                    const wire::DestroyTaskRequest& request,
                    wire::DestroyTaskResponse* response);
Result<void> Answer(DriverSource& source,
                    const wire::InspectTaskRequest& request,
                    wire::InspectTaskResponse* response);
Result<void> Answer(DriverSource& source,
                    const wire::SignalTaskRequest& request,
                    wire::SignalTaskResponse* response);
Result<void> Answer(DriverSource& source, const wire::ExecTaskRequest& request,
                    wire::ExecTaskResponse* response);
// Prepares the allocation at mountd before its network.
Result<void> Answer(DriverSource& source,
                    const wire::CreateNetworkRequest& request,
                    wire::CreateNetworkResponse* response);
// Releases the allocation after its network, unless it has volumes or mounts.
Result<void> Answer(DriverSource& source,
                    const wire::DestroyNetworkRequest& request,
                    wire::DestroyNetworkResponse* response);

}  // namespace mountd::nomad
