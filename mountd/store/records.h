// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The records that mountd keeps, as plain values. A record carries its intent
// as a state if making or undoing its object takes more than a store write.
// mountd writes that state before the plan or RPC. At the start mountd
// finishes, adopts or rolls back each record in such a state.
//
// This header includes the records of every subject.
#include "mountd/store/allocation_records.h"
#include "mountd/store/lease_records.h"
#include "mountd/store/mount_records.h"
#include "mountd/store/network_records.h"
#include "mountd/store/volume_records.h"
