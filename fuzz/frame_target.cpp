#include "fuzz/targets.h"
#include "parascale/protocol/protocol.h"

namespace parascale::fuzz {

namespace {

/// Reads the message as everything it could be; a peer may send any of them at any time.
void read_as_message(const Json& message) {
  if (const auto hello = protocol::Hello::from_json(message); hello.ok()) {
    (void)protocol::check_version(*hello);
  }
  if (const auto entry = protocol::StateEntry::from_json(message); entry.ok()) {
    PS_CHECK(protocol::StateEntry::from_json(entry->to_json()).ok(), "a state entry reads back");
  }
  if (const auto done = protocol::StepDone::from_json(message); done.ok()) {
    PS_CHECK(done->to_json().is_object(), "a finished step can be written");
  }
  if (const auto fill = protocol::Fill::from_json(message); fill.ok()) {
    PS_CHECK(protocol::Fill::from_json(fill->to_json()).ok(), "an order to the engine reads back");
  }
  if (const auto filled = protocol::Filled::from_json(message); filled.ok()) {
    PS_CHECK(protocol::Filled::from_json(filled->to_json()).ok(), "an answer of the engine reads back");
  }
  if (const auto error = protocol::WorkerError::from_json(message); error.ok()) {
    PS_CHECK(protocol::WorkerError::from_json(error->to_json()).ok(), "a reported error reads back");
  }
  if (const Json* layout = message.find("layout")) {
    if (const auto slots = protocol::SlotLayout::from_json(*layout); slots.ok()) {
      PS_CHECK(slots->region_bytes() / slots->slot_count == slots->slot_bytes, "the ring's size does not overflow");
    }
    if (const auto results = protocol::ResultsLayout::from_json(*layout); results.ok()) {
      PS_CHECK(results->region_bytes() / results->slot_count == results->block_bytes,
               "the result region's size does not overflow");
    }
  }
}

}  // namespace

void frame(Input input) {
  std::string_view rest = text_of(input);
  while (true) {
    const auto parsed = protocol::parse_frame(rest);
    if (!parsed.ok()) {
      PS_CHECK(parsed.error().code() == Code::protocol_violation, "a bad frame is a violation");
      return;
    }
    if (!*parsed) {
      return;
    }
    PS_CHECK((*parsed)->size_bytes > 0 && (*parsed)->size_bytes <= rest.size(), "a frame lies inside the bytes");
    read_as_message((*parsed)->message);
    rest.remove_prefix((*parsed)->size_bytes);
  }
}

}  // namespace parascale::fuzz
