// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

// The records that mountd keeps, as plain values. If making or undoing an
// object takes more than a store write, the record's state says that this has
// begun: the state is the intent. mountd writes that state before the plan or
// RPC. At its start mountd finishes, adopts or rolls back each record in such a
// state.
//
// This header includes the records of every subject.
#include "mountd/store/allocation_records.h"
#include "mountd/store/lease_records.h"
#include "mountd/store/mount_records.h"
#include "mountd/store/network_records.h"
#include "mountd/store/volume_records.h"
