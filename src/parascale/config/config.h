#pragma once

/// The front door of the config module: what the command line includes.

#include "parascale/config/load_config.h"      // IWYU pragma: export
#include "parascale/config/report.h"           // IWYU pragma: export
#include "parascale/config/resolved_config.h"  // IWYU pragma: export
#include "parascale/config/settings_table.h"   // IWYU pragma: export
