#include "parascale/backends/backends.h"

namespace parascale::backends {

plan::BackendRecord native() {
  return {.name = "native",
          .built = true,
          .when = "one rank on one device",
          .devices = {"cpu"},
          .workers = {"cpp", "fake"},
          .precisions = {"fp32"},
          .max_world_size = 1};
}

}  // namespace parascale::backends
