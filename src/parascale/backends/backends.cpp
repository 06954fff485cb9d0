#include "parascale/backends/backends.h"

namespace parascale::backends {

std::vector<plan::BackendRecord> backend_records() {
  return {native(),
          {.name = "native_ddp", .when = "data parallel ranks in C++; not built yet"},
          {.name = "fsdp", .when = "needs the Python worker; not built yet"},
          {.name = "deepspeed", .when = "needs the Python worker; not built yet"},
          {.name = "ascend_native", .when = "needs the Python worker and an NPU; not built yet"}};
}

}  // namespace parascale::backends
