#pragma once

/// Front door of the checkpoint module: commit, verify, find, open, validate.
#include "parascale/checkpoint/committer.h"    // IWYU pragma: export
#include "parascale/checkpoint/manifest.h"     // IWYU pragma: export
#include "parascale/checkpoint/options.h"      // IWYU pragma: export
#include "parascale/checkpoint/safetensors.h"  // IWYU pragma: export
#include "parascale/checkpoint/store.h"        // IWYU pragma: export
#include "parascale/checkpoint/validate.h"     // IWYU pragma: export
