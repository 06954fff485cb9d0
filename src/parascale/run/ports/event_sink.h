#pragma once

#include "parascale/run/run_record.h"

namespace parascale::run {

/// Port: receives what happens in a run, in order, from the agent's thread. Implementations must return quickly; they must not
/// call back into the agent.
///
/// The record files are written by an implementation in `run`; others print progress or collect for tests. *confined to the
/// agent's thread*
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_event(const EventRecord& event) = 0;
  virtual void on_metrics(const MetricsRecord& metrics) = 0;
};

}  // namespace parascale::run
