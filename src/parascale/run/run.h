#pragma once

// Front door of the run module.
#include "parascale/run/inference.h"
#include "parascale/run/ports/event_sink.h"
#include "parascale/run/process.h"
#include "parascale/run/run_directory.h"
#include "parascale/run/run_record.h"
#include "parascale/run/train.h"
