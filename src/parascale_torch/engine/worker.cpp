#include "parascale_torch/engine/worker.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <fmt/core.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "parascale/base/text.h"
#include "parascale_torch/engine/process.h"
#include "parascale_torch/state/transfer.h"

namespace parascale::native {

namespace {

Error violation(std::string message) { return Error(Code::protocol_violation, std::move(message)); }

/// Class of an `error` frame.
std::string_view error_class(const Error& error) {
  switch (error.code()) {
    case Code::nonfinite:
      return "nan";
    case Code::label_invalid:
      return "data";
    case Code::memory_exceeded:
      return "oom";
    default:
      return "internal";
  }
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

/// 64-bit numbers may come as decimal strings.
Result<std::uint64_t> wide_number(const Json& message, std::string_view key) {
  const Json* member = message.find(key);
  if (member != nullptr && member->is_string()) {
    const auto value = parse_uint64(*member->to_string());
    if (!value) {
      return violation(fmt::format("member `{}` is no number", key));
    }
    return *value;
  }
  return message.get<std::uint64_t>(key);
}

/// A denominator from {loss: value}.
Result<double> loss_denominator(const Json& message, std::string_view key) {
  PS_ASSIGN(const Json terms, message.get<Json>(key));
  return terms.get<double>("loss");
}

bool is_request(const Json& message) { return message.contains("id"); }

}  // namespace

std::string torch_version() { return TORCH_VERSION; }

Json capabilities() {
  return Json::object({{"worker", "cpp"},
                       {"protocol", protocol::kProtocolVersion},
                       {"torch", torch_version()},
                       {"devices", Json::array({"cpu"})},
                       {"models", Json::array({"vit"})},
                       {"optimizers", Json::array({"adamw", "sgd"})},
                       {"dtypes", Json::array({"F32"})},
                       {"precisions", Json::array({"fp32"})},
                       {"snapshot", Json::array({"arena"})},
                       {"requests", Json::array({"init", "load", "step", "eval", "infer", "snapshot", "stop"})},
                       {"threads", static_cast<std::int64_t>(at::get_num_threads())}});
}

Worker::Worker(protocol::Channel channel, std::uint64_t rank) : channel_(std::move(channel)), rank_(rank) {}

int Worker::run() {
  try {
    const Status status = serve();
    return status.ok() ? kDone : report_failure(status.error());
  } catch (const std::bad_alloc&) {
    return report_failure(Error(Code::memory_exceeded, "memory is exhausted"));
  } catch (const c10::Error& fault) {
    const std::string text = first_line(fault.what_without_backtrace());
    const bool memory = text.find("allocate memory") != std::string::npos;
    dump_stack();
    return report_failure(Error(memory ? Code::memory_exceeded : Code::internal, text));
  } catch (const std::exception& fault) {
    dump_stack();
    return report_failure(Error(Code::internal, first_line(fault.what())));
  }
}

int Worker::report_failure(const Error& error) {
  const Location here = location();
  const std::string rendered = render(error);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, rendered.data(), rendered.size());
  if (error.code() == Code::io_failed && !channel_.valid()) {
    return kFailed;
  }
  std::string message = error.message();
  for (const Error* cause = error.cause(); cause != nullptr; cause = cause->cause()) {
    message += ": " + cause->message();
  }
  const Status sent = channel_.send(Json::object({{"type", "error"},
                                                  {"class", error_class(error)},
                                                  {"code", code_text(error.code())},
                                                  {"phase", protocol::phase_name(here.phase)},
                                                  {"step", here.step},
                                                  {"micro", here.micro_step},
                                                  {"message", std::move(message)},
                                                  {"stack", ""}}));
  const bool mismatch = error.code() == Code::version_mismatch;
  return sent.ok() && mismatch ? kVersionMismatch : kFailed;
}

Status Worker::serve() {
  enter(protocol::Phase::idle, 0, 0);
  PS_TRY(channel_.send(Json::object({{"type", "hello"},
                                     {"protocol", protocol::kProtocolVersion},
                                     {"role", "cpp"},
                                     {"worker", "cpp"},
                                     {"torch", torch_version()},
                                     {"pid", static_cast<std::int64_t>(getpid())},
                                     {"capabilities", capabilities()}})));
  while (!stopped_) {
    const std::int64_t begun = real_clock().monotonic_ns();
    PS_ASSIGN(auto frame, channel_.receive());
    wait_ns_ += real_clock().monotonic_ns() - begun;
    if (!frame) {
      return {};  // the agent is gone: nobody is left to report to
    }
    PS_TRY(handle(*frame));
  }
  return {};
}

Status Worker::handle(protocol::Frame& frame) {
  const std::string type = frame.type();
  const Json& message = frame.message;
  if (type == "hello") {
    return on_hello(message);
  }
  if (type == "region") {
    return on_region(frame);
  }
  if (type == "init") {
    return on_init(message);
  }
  if (type == "stop") {
    return on_stop();
  }
  if (type == "dump") {
    dump_stack();
    return {};
  }
  return handle_training(type, message);
}

Status Worker::handle_training(const std::string& type, const Json& message) {
  using Handler = Status (Worker::*)(const Json&);
  struct Entry {
    std::string_view type;
    Handler handler;
  };
  static constexpr Entry kEntries[] = {
      {"step", &Worker::on_step},   {"micro", &Worker::on_micro}, {"finish", &Worker::on_finish},     {"eval", &Worker::on_eval},
      {"infer", &Worker::on_infer}, {"load", &Worker::on_load},   {"snapshot", &Worker::on_snapshot},
  };
  const auto* entry = std::ranges::find(kEntries, type, &Entry::type);
  if (entry != std::end(kEntries)) {
    PS_TRY(require_ready());
    return (this->*entry->handler)(message);
  }
  // Requests without an id of their own are known by name; everything else unknown is a notification.
  if (is_request(message) || type == "probe" || type == "forward") {
    return answer(message, Json::object({{"type", "unsupported"}, {"request", type}}));
  }
  return {};
}

Status Worker::require_ready() const { return trainer_ ? Status() : Status(violation("work arrives before `init`")); }

Status Worker::answer(const Json& request, Json reply) {
  if (const Json* id = request.find("id"); id != nullptr) {
    reply["id"] = *id;
  }
  return channel_.send(reply);
}

void Worker::enter(protocol::Phase phase, std::uint64_t step, std::uint32_t micro_step) {
  set_location(phase, step, micro_step);
  if (pulse_writer_) {
    pulse_writer_->enter(phase, step, micro_step);
  }
}

Status Worker::on_hello(const Json& message) {
  PS_ASSIGN(const auto version, message.get<std::string>("protocol"));
  const auto major = [](std::string_view text) { return text.substr(0, text.find('.')); };
  if (major(version) != major(protocol::kProtocolVersion)) {
    return Error(Code::version_mismatch,
                 fmt::format("the agent speaks protocol {}; this worker speaks {}", version, protocol::kProtocolVersion));
  }
  PS_ASSIGN(rank_, message.get_or<std::uint64_t>("rank", rank_));
  return {};
}

Status Worker::on_region(protocol::Frame& frame) {
  PS_ASSIGN(const auto name, frame.message.get<std::string>("name"));
  PS_ASSIGN(const auto bytes, frame.message.get<std::uint64_t>("bytes"));
  if (frame.descriptors.size() != 1) {
    return violation(fmt::format("region `{}` comes with {} descriptors", name, frame.descriptors.size()));
  }
  const Json* layout = frame.message.find("layout");
  const auto map = [&](protocol::Access access) {
    return protocol::Region::map(std::move(frame.descriptors.front()), bytes, access);
  };
  if (name == "batches") {
    PS_ASSIGN(batches_, map(protocol::Access::read));
    if (layout != nullptr && layout->is_object()) {
      PS_ASSIGN(layout_, protocol::SlotLayout::from_json(*layout));
    }
  } else if (name == "pulse") {
    if (bytes < sizeof(protocol::PulsePage)) {
      return violation(fmt::format("a pulse page of {} bytes is too small", bytes));
    }
    PS_ASSIGN(pulse_, map(protocol::Access::read_write));
    pulse_writer_.emplace(pulse_.bytes());
    enter(protocol::Phase::idle, 0, 0);
  } else if (name == "results") {
    PS_ASSIGN(results_, map(protocol::Access::read_write));
    if (layout == nullptr) {
      return violation("region `results` comes without layout");
    }
    PS_ASSIGN(results_layout_, protocol::ResultsLayout::from_json(*layout));
    if (results_.size() < results_layout_->region_bytes()) {
      return violation(fmt::format("region `results` of {} bytes is smaller than its layout", results_.size()));
    }
  } else if (name == "snapshot") {
    PS_ASSIGN(snapshot_, map(protocol::Access::read_write));
    snapshot_.populate();
  }
  return {};  // regions of later versions are closed and ignored
}

Status Worker::on_init(const Json& message) {
  if (trainer_) {
    return violation("`init` arrives twice");
  }
  PS_ASSIGN(const Json plan, message.get<Json>("plan"));
  PS_ASSIGN(const auto seed, wide_number(message, "seed"));
  PS_ASSIGN(const auto rank_plan, RankPlan::from_json(plan));
  if (!layout_) {
    const Json* batch = plan.find("batch");
    const Json* layout = batch != nullptr ? batch->find("layout") : nullptr;
    if (layout != nullptr) {
      PS_ASSIGN(layout_, protocol::SlotLayout::from_json(*layout));
    }
  }
  if (layout_ && batches_.size() < layout_->region_bytes()) {
    return violation(fmt::format("region `batches` of {} bytes is smaller than its layout", batches_.size()));
  }
  if (results_layout_ && results_layout_->columns != static_cast<std::uint64_t>(rank_plan.model.num_labels)) {
    return violation(fmt::format("result blocks have {} columns; the model has {} classes", results_layout_->columns,
                                 rank_plan.model.num_labels));
  }
  at::set_num_threads(rank_plan.intra_op_threads);
  if (at::get_num_interop_threads() != 1) {
    at::set_num_interop_threads(1);  // may be set only once in a process
  }
  trainer_ = std::make_unique<Trainer>(
      rank_plan, seed, rank_,
      [this](protocol::Phase phase, std::uint64_t step, std::uint32_t micro_step) { enter(phase, step, micro_step); });
  const StateInventory& inventory = trainer_->inventory();
  const ProcessMemory memory = process_memory();
  cpu_ns_at_step_ = process_cpu_ns();
  return answer(message, Json::object({{"type", "ready"},
                                       {"state", inventory.to_json()},
                                       {"memory", Json::object({{"parameter_bytes", inventory.bytes("param")},
                                                                {"moment_bytes", inventory.bytes("moment")},
                                                                {"rss_bytes", memory.rss_bytes},
                                                                {"peak_bytes", memory.peak_bytes}})}}));
}

Status Worker::on_load(const Json& message) {
  if (trainer_->order()) {
    return violation("`load` arrives inside a step");
  }
  PS_ASSIGN(const Json tensors, message.get<Json>("tensors"));
  PS_ASSIGN(const bool strict, message.get_or<bool>("strict", true));
  enter(protocol::Phase::load, 0, 0);
  PS_ASSIGN(const auto report, load_tensors(trainer_->inventory(), tensors, strict));
  enter(protocol::Phase::idle, 0, 0);
  return answer(message, Json::object({{"type", "loaded"},
                                       {"missing", Json::array_of(report.missing)},
                                       {"unexpected", Json::array_of(report.unexpected)},
                                       {"mismatched", Json::array_of(report.mismatched)}}));
}

Status Worker::on_step(const Json& message) {
  wait_ns_ = 0;  // the time before a step is no wait for its data
  StepOrder order;
  PS_ASSIGN(order.step, message.get<std::uint64_t>("t"));
  PS_ASSIGN(order.learning_rate, message.get<double>("lr"));
  PS_ASSIGN(order.planned_denominator, loss_denominator(message, "planned"));
  if (const Json* policy = message.find("policy"); policy != nullptr && policy->is_object()) {
    PS_ASSIGN(const auto nonfinite, policy->get_or<std::string>("nonfinite", "stop"));
    if (nonfinite != "stop" && nonfinite != "skip") {
      return violation(fmt::format("unknown policy `{}` for values that are not finite", nonfinite));
    }
    order.nonfinite = nonfinite == "skip" ? StepOrder::Nonfinite::skip : StepOrder::Nonfinite::stop;
  }
  if (const Json* flags = message.find("flags"); flags != nullptr && flags->is_object()) {
    PS_ASSIGN(order.audit, flags->get_or<bool>("audit", false));
  }
  PS_TRY(trainer_->begin(order));
  enter(protocol::Phase::wait_data, order.step, 0);
  return {};
}

Status Worker::on_micro(const Json& message) {
  PS_ASSIGN(const auto step, message.get<std::uint64_t>("t"));
  PS_ASSIGN(const auto micro_step, message.get<std::uint32_t>("k"));
  PS_ASSIGN(const auto slot, message.get<std::uint32_t>("slot"));
  if (!trainer_->order() || trainer_->order()->step != step) {
    return violation(fmt::format("micro-step {} of step {} comes outside that step", micro_step, step));
  }
  set_location(protocol::Phase::wait_data, step, micro_step);
  PS_ASSIGN(const auto batch, batch_of(slot, Labels::required));
  PS_TRY(trainer_->micro_step(micro_step, batch));
  samples_done_ += static_cast<std::uint64_t>(batch.valid);
  if (pulse_writer_) {
    pulse_writer_->add_samples(static_cast<std::uint64_t>(batch.valid));
  }
  enter(protocol::Phase::wait_data, step, micro_step + 1);
  return release(slot);
}

Status Worker::on_finish(const Json& message) {
  PS_ASSIGN(const auto step, message.get<std::uint64_t>("t"));
  if (!trainer_->order() || trainer_->order()->step != step) {
    return violation(fmt::format("`finish` of step {} comes outside that step", step));
  }
  double denominator = trainer_->order()->planned_denominator;
  if (message.contains("denominators")) {
    PS_ASSIGN(denominator, loss_denominator(message, "denominators"));
  }
  PS_ASSIGN(const auto report, trainer_->finish(denominator));
  ++steps_done_;
  enter(protocol::Phase::idle, step, 0);
  return report_step(report, step);
}

Status Worker::report_step(const StepReport& report, std::uint64_t step) {
  const ProcessMemory memory = process_memory();
  if (pulse_writer_) {
    pulse_writer_->set_memory(memory.rss_bytes, memory.peak_bytes);
  }
  const std::int64_t cpu_ns = process_cpu_ns();
  const auto term = [&](const char* name, double sum) {
    return Json::object({{"name", name}, {"sum", sum}, {"weight", static_cast<double>(report.samples)}});
  };
  Json done =
      Json::object({{"type", "step_done"},
                    {"t", step},
                    {"terms", Json::array({term("loss", report.loss_sum), term("top1", static_cast<double>(report.top1))})},
                    {"grad_norm", report.grad_norm},
                    {"skipped", report.skipped},
                    {"scaler", nullptr},
                    {"times", Json::object({{"wait", wait_ns_},
                                            {"h2d", 0},
                                            {"forward", report.forward_ns},
                                            {"backward", report.backward_ns},
                                            {"comm", 0},
                                            {"optimizer", report.optimizer_ns}})},
                    {"memory", Json::object({{"rss_bytes", memory.rss_bytes}, {"peak_bytes", memory.peak_bytes}})},
                    {"counters", Json::object({{"micro_steps", report.micro_steps}, {"samples", report.samples}})},
                    {"cpu_ns", cpu_ns - cpu_ns_at_step_}});
  if (!report.no_grad.empty()) {
    done["audit"] = Json::object({{"no_grad", Json::array_of(report.no_grad)}});
  }
  cpu_ns_at_step_ = cpu_ns;
  wait_ns_ = 0;
  return channel_.send(done);
}

Result<Batch> Worker::batch_of(std::uint32_t slot, Labels labels) const {
  if (!layout_) {
    return violation("a slot is handed over, but no region `batches` was announced");
  }
  return read_batch(batches_.bytes(), *layout_, slot, trainer_->plan().model, labels);
}

Status Worker::release(std::uint32_t slot) { return channel_.send(Json::object({{"type", "release"}, {"slot", slot}})); }

Result<at::Tensor> Worker::predict_slot(std::uint32_t slot, const Batch& batch) {
  const auto columns = static_cast<std::size_t>(trainer_->plan().model.num_labels);
  at::Tensor logits;
  std::span<const float> values;
  if (batch.valid > 0) {
    logits = trainer_->predict(batch.pixels);
    values = {logits.const_data_ptr<float>(), static_cast<std::size_t>(batch.valid) * columns};
  }
  if (results_layout_) {
    if (slot >= results_layout_->slot_count || batch.ids.size() > results_layout_->capacity) {
      return violation(fmt::format("the predictions of slot {} do not fit the region `results`", slot));
    }
    protocol::write_results(*results_layout_, results_.bytes(), slot, batch.ids, values);
  }
  return logits;
}

Status Worker::on_eval(const Json& message) {
  if (trainer_->order()) {
    return violation("`eval` arrives inside a step");
  }
  PS_ASSIGN(const auto slot, message.get<std::uint32_t>("slot"));
  PS_ASSIGN(const auto weights, message.get_or<std::string>("weights", "live"));
  if (weights != "live") {
    return violation(fmt::format("evaluation of `{}` weights is asked for; this rank holds live ones only", weights));
  }
  enter(protocol::Phase::forward, 0, 0);
  PS_ASSIGN(const auto batch, batch_of(slot, Labels::required));
  PS_ASSIGN(const auto logits, predict_slot(slot, batch));
  // Reported without label smoothing: the measure of the model, not of the training objective.
  const ClassificationSums sums = batch.valid > 0 ? classification_sums(logits, batch.labels, 0.0) : ClassificationSums{};
  evaluated_ += static_cast<std::uint64_t>(batch.valid);
  const auto weight = static_cast<double>(batch.valid);
  enter(protocol::Phase::idle, 0, 0);
  PS_TRY(answer(message, Json::object({{"type", "eval_done"},
                                       {"sums", Json::object({{"loss", sums.loss},
                                                              {"top1", static_cast<double>(sums.top1)},
                                                              {"top5", static_cast<double>(sums.top5)}})},
                                       {"weights", Json::object({{"loss", weight}, {"top1", weight}, {"top5", weight}})},
                                       {"slot", slot},
                                       {"rows", batch.valid}})));
  return release(slot);
}

Status Worker::on_infer(const Json& message) {
  if (trainer_->order()) {
    return violation("`infer` arrives inside a step");
  }
  PS_ASSIGN(const auto slot, message.get<std::uint32_t>("slot"));
  if (!results_layout_) {
    return violation("`infer` needs a region `results`");
  }
  enter(protocol::Phase::infer, 0, 0);
  const std::int64_t begun = real_clock().monotonic_ns();
  PS_ASSIGN(const auto batch, batch_of(slot, Labels::optional));
  PS_TRY(predict_slot(slot, batch));
  enter(protocol::Phase::idle, 0, 0);
  PS_TRY(answer(
      message,
      Json::object({{"type", "result"}, {"slot", slot}, {"rows", batch.valid}, {"ns", real_clock().monotonic_ns() - begun}})));
  return release(slot);
}

Status Worker::on_snapshot(const Json& message) {
  if (trainer_->order()) {
    return violation("`snapshot` arrives inside a step");
  }
  PS_ASSIGN(const auto step, message.get<std::uint64_t>("t"));
  PS_ASSIGN(const auto mode, message.get_or<std::string>("mode", "arena"));
  if (mode != "arena") {
    return answer(message, Json::object({{"type", "unsupported"}, {"request", "snapshot"}}));
  }
  PS_ASSIGN(const Json assign, message.get<Json>("assign"));
  enter(protocol::Phase::snapshot, step, 0);
  const std::int64_t begun = real_clock().monotonic_ns();
  PS_ASSIGN(auto pieces, copy_to_arena(trainer_->inventory(), assign, snapshot_.bytes()));
  const std::int64_t took_ns = real_clock().monotonic_ns() - begun;
  enter(protocol::Phase::idle, step, 0);
  return answer(message, Json::object({{"type", "snapshot_ready"}, {"t", step}, {"pieces", std::move(pieces)}, {"ns", took_ns}}));
}

Status Worker::on_stop() {
  stopped_ = true;
  return channel_.send(Json::object({{"type", "bye"},
                                     {"summary", Json::object({{"steps", steps_done_},
                                                               {"samples", samples_done_},
                                                               {"evaluated", evaluated_},
                                                               {"cpu_ns", process_cpu_ns()},
                                                               {"peak_bytes", process_memory().peak_bytes}})}}));
}

}  // namespace parascale::native
