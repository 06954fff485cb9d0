#pragma once

#include "parascale/plan/capabilities.h"

namespace parascale::backends {

/// The records of every back end by name, built or not: one file per built back end, listed here. *thread-safe*
std::vector<plan::BackendRecord> backend_records();

/// One rank, one device, no communication.
plan::BackendRecord native();

}  // namespace parascale::backends
