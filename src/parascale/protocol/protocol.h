#pragma once

// Front door of the protocol module.
#include "parascale/protocol/dtype.h"
#include "parascale/protocol/frame.h"
#include "parascale/protocol/messages.h"
#include "parascale/protocol/pulse.h"
#include "parascale/protocol/region.h"
#include "parascale/protocol/results.h"
#include "parascale/protocol/slot.h"
