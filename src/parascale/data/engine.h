#pragma once

#include "parascale/base/file_system.h"
#include "parascale/base/result.h"
#include "parascale/protocol/frame.h"

namespace parascale::data {

/// The data engine: main loop of the child process that fills the batch slots of a run. Returns when the agent says `stop` or
/// closes its end.
///
/// Frames (docs of the agent's side: `parascale/protocol/messages.h`):
///   -> hello {protocol, role: "engine", pid}             <- hello {protocol}
///   <- open {options, layout, splits: [name], descriptors: 1} with the memfd of the ring `batches`
///   -> progress {what: "index", split, bytes_done, bytes}...   -> opened {splits: {name: DatasetSummary}}
///   <- fill (a credit for one slot)                      -> filled, in the order of the fills
///   <- stop                                              -> bye {cpu_seconds, slots, reads, failures}
///   -> error {class: data | version | internal, code, message, notes, helps} before it gives up
/// Unknown requests (with `id`) are answered `unsupported`; unknown notifications are ignored.
///
/// Changes the process: SIGINT and SIGTERM are ignored (the agent decides), the calling thread and the decode threads get nice 5,
/// and `options.memory_limit_bytes` limits the address space. Errors: those of the first failure, after it has been reported to
/// the agent.
Status run_engine(protocol::Channel channel, FileSystem& files);

}  // namespace parascale::data
