#pragma once

// Front door of the plan module.
#include "parascale/plan/capabilities.h"
#include "parascale/plan/planner.h"
#include "parascale/plan/runtime_plan.h"
