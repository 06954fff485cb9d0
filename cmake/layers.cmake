# The only table of modules: name, layer, and the modules whose headers it may include (base is always allowed).
# `tests/architecture/include_graph.py` reads the same lines; a finer rule (which header of a module) stands behind a colon.
set(PARASCALE_LAYERS
  "base         0"
  "config       1"
  "protocol     1"
  "data         2 protocol"
  "checkpoint   2 protocol"
  "plan         3 config:resolved_config.h data:options.h checkpoint:options.h"
  "run          4 config:resolved_config.h plan:runtime_plan.h protocol data checkpoint"
  "evidence     5 config:resolved_config.h plan:runtime_plan.h run:run_record.h run:ports/event_sink.h"
  "backends     5 run:ports/* protocol plan:runtime_plan.h plan:capabilities.h data checkpoint"
  "workloads    5 run:ports/* protocol plan:runtime_plan.h plan:capabilities.h data checkpoint"
  "cli          6 config:config.h protocol:protocol.h data:data.h checkpoint:checkpoint.h plan:plan.h run:run.h evidence:evidence.h backends:backends.h workloads:workloads.h"
  "torch        6 protocol plan:runtime_plan.h checkpoint:safetensors.h"
)
