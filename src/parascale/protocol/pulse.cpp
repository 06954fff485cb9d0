#include "parascale/protocol/pulse.h"

#include <array>

#include "parascale/base/check.h"

namespace parascale::protocol {

std::string_view phase_name(Phase phase) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "not started", "idle", "wait_data", "h2d", "forward", "backward", "comm", "optimizer", "snapshot", "load", "infer"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kNames.size() ? kNames.at(index) : "unknown";
}

PulseWriter::PulseWriter(std::span<std::byte> page) {
  PS_CHECK(page.size() >= sizeof(PulsePage), "the pulse page has its size");
  void* raw = page.data();
  page_ = static_cast<PulsePage*>(raw);
}

void PulseWriter::enter(Phase phase, std::uint64_t step, std::uint32_t micro_step) {
  page_->step.value.store(step, std::memory_order_relaxed);
  page_->micro_step.value.store(micro_step, std::memory_order_relaxed);
  page_->phase.value.store(static_cast<std::uint64_t>(phase), std::memory_order_relaxed);
  page_->changed_ns.value.store(static_cast<std::uint64_t>(real_clock().monotonic_ns()), std::memory_order_release);
}

void PulseWriter::add_samples(std::uint64_t count) { page_->samples_done.value.fetch_add(count, std::memory_order_relaxed); }

void PulseWriter::set_memory(std::uint64_t allocated_bytes, std::uint64_t peak_bytes) {
  page_->allocated_bytes.value.store(allocated_bytes, std::memory_order_relaxed);
  page_->peak_bytes.value.store(peak_bytes, std::memory_order_relaxed);
}

Pulse read_pulse(std::span<const std::byte> bytes) {
  PS_CHECK(bytes.size() >= sizeof(PulsePage), "the pulse page has its size");
  const void* raw = bytes.data();
  const auto* page = static_cast<const PulsePage*>(raw);
  const auto read = [](const PulsePage::Cell& cell) { return cell.value.load(std::memory_order_relaxed); };
  Pulse pulse;
  pulse.changed_ns = static_cast<std::int64_t>(page->changed_ns.value.load(std::memory_order_acquire));
  pulse.phase = static_cast<Phase>(read(page->phase));
  pulse.step = read(page->step);
  pulse.micro_step = read(page->micro_step);
  pulse.collective = read(page->collective);
  pulse.bucket = read(page->bucket);
  pulse.allocated_bytes = read(page->allocated_bytes);
  pulse.peak_bytes = read(page->peak_bytes);
  pulse.samples_done = read(page->samples_done);
  return pulse;
}

}  // namespace parascale::protocol
