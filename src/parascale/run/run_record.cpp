#include "parascale/run/run_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/core.h>

#include "parascale/base/clock.h"
#include "parascale/base/hash.h"
#include "parascale/base/text.h"

namespace parascale::run {
namespace {

template <typename Group, typename Value>
struct Member {
  std::string_view name;
  std::optional<Value> Group::* value;
};

// The only list of each group's members: writer and parser both walk it.
constexpr std::array kTiming = {
    Member<StepTiming, double>{"step_time_seconds", &StepTiming::step_time_seconds},
    Member<StepTiming, double>{"dataloader_wait_ms", &StepTiming::dataloader_wait_ms},
    Member<StepTiming, double>{"h2d_ms", &StepTiming::h2d_ms},
    Member<StepTiming, double>{"forward_ms", &StepTiming::forward_ms},
    Member<StepTiming, double>{"backward_ms", &StepTiming::backward_ms},
    Member<StepTiming, double>{"communication_ms", &StepTiming::communication_ms},
    Member<StepTiming, double>{"optimizer_ms", &StepTiming::optimizer_ms},
    Member<StepTiming, double>{"checkpoint_blocked_ms", &StepTiming::checkpoint_blocked_ms},
    Member<StepTiming, double>{"evaluation_seconds", &StepTiming::evaluation_seconds},
    Member<StepTiming, double>{"elapsed_seconds", &StepTiming::elapsed_seconds},
};
constexpr std::array kMemory = {
    Member<StepMemory, std::uint64_t>{"peak_memory_bytes", &StepMemory::peak_memory_bytes},
    Member<StepMemory, std::uint64_t>{"allocated_memory_bytes", &StepMemory::allocated_memory_bytes},
    Member<StepMemory, std::uint64_t>{"engine_resident_bytes", &StepMemory::engine_resident_bytes},
    Member<StepMemory, std::uint64_t>{"agent_resident_bytes", &StepMemory::agent_resident_bytes},
};
constexpr std::array kRates = {
    Member<StepRates, double>{"images_per_second", &StepRates::images_per_second},
    Member<StepRates, double>{"end_to_end_images_per_second", &StepRates::end_to_end_images_per_second},
    Member<StepRates, double>{"samples_per_second", &StepRates::samples_per_second},
    Member<StepRates, double>{"end_to_end_samples_per_second", &StepRates::end_to_end_samples_per_second},
    Member<StepRates, double>{"tokens_per_second", &StepRates::tokens_per_second},
    Member<StepRates, double>{"end_to_end_tokens_per_second", &StepRates::end_to_end_tokens_per_second},
    Member<StepRates, double>{"patch_tokens_per_second", &StepRates::patch_tokens_per_second},
    Member<StepRates, double>{"image_text_pairs_per_second", &StepRates::image_text_pairs_per_second},
    Member<StepRates, double>{"end_to_end_image_text_pairs_per_second", &StepRates::end_to_end_image_text_pairs_per_second},
};

void append_value(std::string& out, double value) { append_json_number(out, value); }
void append_value(std::string& out, std::uint64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}
void append_value(std::string& out, bool value) { out += value ? "true" : "false"; }

// Names are our own constants without anything to escape.
template <typename Value>
void append_member(std::string& out, std::string_view name, Value value) {
  out += ",\"";
  out += name;
  out += "\":";
  append_value(out, value);
}

template <typename Value>
void append_member(std::string& out, std::string_view name, const std::optional<Value>& value) {
  if (value) {
    append_member(out, name, *value);
  }
}

template <typename Group, typename Members>
void append_group(std::string& out, std::string_view name, const Group& group, const Members& members) {
  const std::size_t before = out.size();
  out += ",\"";
  out += name;
  out += "\":{";
  const std::size_t first = out.size();
  for (const auto& member : members) {
    append_member(out, member.name, group.*(member.value));
  }
  if (out.size() == first) {
    out.resize(before);  // nothing was measured
    return;
  }
  out.erase(first, 1);  // the first member's comma
  out += '}';
}

Error no_record(std::string_view name, std::string_view what) {
  return Error(Code::json_invalid, fmt::format("{} in `{}`", what, name));
}

// A number; null reads as NaN, absent as nothing.
Result<std::optional<double>> number(const Json& object, std::string_view key, std::string_view name) {
  const Json* value = object.find(key);
  if (value == nullptr) {
    return std::optional<double>();
  }
  if (value->is_null()) {
    return std::optional<double>(std::numeric_limits<double>::quiet_NaN());
  }
  if (const auto read = value->to_double()) {
    return read;
  }
  return no_record(name, fmt::format("member `{}` is of type {}, not number,", key, value->type_name()));
}

Result<std::optional<std::uint64_t>> count(const Json& object, std::string_view key, std::string_view name) {
  const Json* value = object.find(key);
  if (value == nullptr || value->is_null()) {
    return std::optional<std::uint64_t>();
  }
  if (const auto read = value->to_uint64()) {
    return read;
  }
  return no_record(name, fmt::format("member `{}` is not a count", key));
}

Result<std::optional<double>> read_value(const Json& object, std::string_view key, std::string_view name, double) {
  return number(object, key, name);
}
Result<std::optional<std::uint64_t>> read_value(const Json& object, std::string_view key, std::string_view name, std::uint64_t) {
  return count(object, key, name);
}

template <typename Group, typename Value, std::size_t size>
Status read_group(const Json& record, std::string_view key, std::string_view name, Group& group,
                  const std::array<Member<Group, Value>, size>& members) {
  const Json* object = record.find(key);
  if (object == nullptr) {
    return {};
  }
  for (const auto& member : members) {
    PS_ASSIGN(group.*(member.value), read_value(*object, member.name, name, Value{}));
  }
  return {};
}

Result<std::vector<MetricsTerm>> read_terms(const Json& record, std::string_view name) {
  std::vector<MetricsTerm> terms;
  const Json* object = record.find("terms");
  if (object == nullptr) {
    return terms;
  }
  for (const auto& [key, value] : object->members()) {
    PS_ASSIGN(auto sum, number(value, "sum", name));
    PS_ASSIGN(auto weight, number(value, "weight", name));
    if (!sum || !weight) {
      return no_record(name, fmt::format("term `{}` lacks `sum` or `weight`", key));
    }
    terms.push_back({.name = key, .sum = *sum, .weight = *weight});
  }
  return terms;
}

Result<std::optional<std::uint64_t>> read_hash(const Json& record, std::string_view name) {
  const Json* value = record.find("batch_hash");
  if (value == nullptr || value->is_null()) {
    return std::optional<std::uint64_t>();
  }
  std::uint64_t hash = 0;
  const std::string* text = value->to_string();
  if (text == nullptr || text->size() != 16 ||
      std::from_chars(text->data(), text->data() + 16, hash, 16).ptr != text->data() + 16) {
    return no_record(name, "member `batch_hash` is not a text of 16 hex digits");
  }
  return std::optional<std::uint64_t>(hash);
}

Result<std::uint64_t> required_count(const Json& record, std::string_view key, std::string_view name) {
  PS_ASSIGN(auto value, count(record, key, name));
  if (!value) {
    return no_record(name, fmt::format("member `{}` is missing", key));
  }
  return *value;
}

struct Line {
  std::string_view text;
  std::size_t number = 0;  // from 1
};

std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> lines;
  std::size_t line_number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    ++line_number;
    if (!line.empty()) {
      lines.push_back({line, line_number});
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// True for what a crash can leave of a record: its beginning, possibly followed by zero bytes that the file system never filled.
bool looks_cut(std::string_view line, std::string_view record_start) {
  const std::string_view written = line.substr(0, line.find('\0'));
  const std::size_t shared = std::min(written.size(), record_start.size());
  return written.substr(0, shared) == record_start.substr(0, shared);
}

template <typename Record>
Result<RecordFile<Record>> read_records(FileSystem& files, const std::string& path, std::string_view record_start) {
  PS_ASSIGN(const std::string text, read_file(files, path));
  RecordFile<Record> result;
  std::optional<Error> broken;  // the first of the broken lines that wait for their judgement by the next record
  for (const Line& line : lines_of(text)) {
    const std::string name = fmt::format("{}:{}", path, line.number);
    auto record = Record::parse(line.text, name);
    if (!record.ok()) {
      if (!looks_cut(line.text, record_start) || parse_json(line.text, name).ok()) {
        return record.error();
      }
      ++result.cut_lines;
      broken = broken ? broken : record.error();
      continue;
    }
    const std::uint32_t before = result.records.empty() ? 1 : result.records.back().attempt;
    if (broken && record->attempt <= before) {
      return *broken;
    }
    broken.reset();
    result.records.push_back(std::move(record).value());
  }
  return result;
}

}  // namespace

std::string_view to_string(MetricsKind kind) { return kind == MetricsKind::train ? "train" : "eval"; }

double MetricsTerm::mean() const { return weight == 0.0 ? std::numeric_limits<double>::quiet_NaN() : sum / weight; }

const MetricsTerm* MetricsRecord::term(std::string_view name) const {
  const auto found = std::ranges::find(terms, name, &MetricsTerm::name);
  return found == terms.end() ? nullptr : &*found;
}

std::string MetricsRecord::to_line() const {
  std::string out;
  out.reserve(1024);
  out += R"({"kind":")";
  out += to_string(kind);
  out += '"';
  append_member(out, "step", step.value);
  append_member(out, "attempt", std::uint64_t{attempt});
  append_member(out, "epoch", epoch);
  append_member(out, "samples", samples);
  append_member(out, "lr", lr);
  append_member(out, "loss", loss);
  append_member(out, "grad_norm", grad_norm);
  append_member(out, "skipped", skipped);
  append_member(out, "replaced", replaced);
  append_member(out, "left_out", left_out);
  if (batch_hash) {
    out += R"(,"batch_hash":")";
    out += hex64(*batch_hash);
    out += '"';
  }
  append_member(out, "batch_size", batch_size);
  append_member(out, "gradient_accumulation_steps", gradient_accumulation_steps);
  out += R"(,"terms":{)";
  for (std::size_t i = 0; i < terms.size(); ++i) {
    out += i == 0 ? "" : ",";
    append_json_string(out, terms[i].name);
    out += R"(:{"sum":)";
    append_json_number(out, terms[i].sum);
    out += R"(,"weight":)";
    append_json_number(out, terms[i].weight);
    out += '}';
  }
  out += '}';
  append_group(out, "timing", timing, kTiming);
  append_group(out, "memory", memory, kMemory);
  append_group(out, "rates", rates, kRates);
  out += '}';
  return out;
}

Result<MetricsRecord> MetricsRecord::parse(std::string_view line, std::string_view name) {
  PS_ASSIGN(const Json json, parse_json(line, name));
  const Json* kind_member = json.find("kind");
  const std::string* kind_text = kind_member == nullptr ? nullptr : kind_member->to_string();
  if (kind_text == nullptr || (*kind_text != "train" && *kind_text != "eval")) {
    return no_record(name, "a line without `kind` train or eval");
  }
  MetricsRecord record;
  record.kind = *kind_text == "train" ? MetricsKind::train : MetricsKind::eval;
  PS_ASSIGN(record.step.value, required_count(json, "step", name));
  PS_ASSIGN(const std::uint64_t attempt, required_count(json, "attempt", name));
  record.attempt = static_cast<std::uint32_t>(attempt);
  PS_ASSIGN(const auto epoch, number(json, "epoch", name));
  record.epoch = epoch.value_or(0.0);
  PS_ASSIGN(const auto samples, count(json, "samples", name));
  record.samples = samples.value_or(0);
  PS_ASSIGN(record.lr, number(json, "lr", name));
  PS_ASSIGN(record.loss, number(json, "loss", name));
  PS_ASSIGN(record.grad_norm, number(json, "grad_norm", name));
  PS_ASSIGN(record.skipped, json.get_or<bool>("skipped", false));
  PS_ASSIGN(const auto replaced, count(json, "replaced", name));
  record.replaced = replaced.value_or(0);
  PS_ASSIGN(const auto left_out, count(json, "left_out", name));
  record.left_out = left_out.value_or(0);
  PS_ASSIGN(record.batch_hash, read_hash(json, name));
  PS_ASSIGN(record.batch_size, count(json, "batch_size", name));
  PS_ASSIGN(record.gradient_accumulation_steps, count(json, "gradient_accumulation_steps", name));
  PS_ASSIGN(record.terms, read_terms(json, name));
  PS_TRY(read_group(json, "timing", name, record.timing, kTiming));
  PS_TRY(read_group(json, "memory", name, record.memory, kMemory));
  PS_TRY(read_group(json, "rates", name, record.rates, kRates));
  return record;
}

void derive_rates(MetricsRecord& record) {
  const double samples = static_cast<double>(record.batch_size.value_or(0));
  const double seconds = record.timing.step_time_seconds.value_or(0.0);
  if (samples <= 0.0 || seconds <= 0.0) {
    return;
  }
  const double end_to_end = seconds + record.timing.dataloader_wait_ms.value_or(0.0) / 1e3;
  record.rates.images_per_second = record.rates.samples_per_second = samples / seconds;
  record.rates.end_to_end_images_per_second = record.rates.end_to_end_samples_per_second = samples / end_to_end;
}

std::string EventRecord::to_line() const {
  std::string out = R"({"event":)";
  append_json_string(out, name);
  append_member(out, "attempt", std::uint64_t{attempt});
  out += fmt::format(R"(,"wall":"{}","wall_ns":{},"monotonic_ns":{})", iso_time(wall_ns), wall_ns, monotonic_ns);
  if (step) {
    append_member(out, "step", step->value);
  }
  if (rank) {
    append_member(out, "rank", std::uint64_t{rank->value});
  }
  out += R"(,"details":)";
  out += details.dump();
  out += '}';
  return out;
}

Result<EventRecord> EventRecord::parse(std::string_view line, std::string_view name) {
  PS_ASSIGN(const Json json, parse_json(line, name));
  EventRecord event;
  const Json* event_name = json.find("event");
  if (event_name == nullptr || event_name->to_string() == nullptr) {
    return no_record(name, "a line without `event`");
  }
  event.name = *event_name->to_string();
  PS_ASSIGN(const std::uint64_t attempt, required_count(json, "attempt", name));
  event.attempt = static_cast<std::uint32_t>(attempt);
  PS_ASSIGN(event.wall_ns, json.get_or<std::int64_t>("wall_ns", 0));
  PS_ASSIGN(event.monotonic_ns, json.get_or<std::int64_t>("monotonic_ns", 0));
  PS_ASSIGN(const auto step, count(json, "step", name));
  if (step) {
    event.step = Step{*step};
  }
  PS_ASSIGN(const auto rank, count(json, "rank", name));
  if (rank) {
    event.rank = Rank{static_cast<std::uint32_t>(*rank)};
  }
  if (const Json* details = json.find("details"); details != nullptr && details->is_object()) {
    event.details = *details;
  }
  return event;
}

Result<RecordFile<MetricsRecord>> read_metrics(FileSystem& files, const std::string& path) {
  return read_records<MetricsRecord>(files, path, R"({"kind":)");
}

Result<RecordFile<EventRecord>> read_events(FileSystem& files, const std::string& path) {
  PS_ASSIGN(auto result, read_records<EventRecord>(files, path, R"({"event":)"));
  for (const EventRecord& event : result.records) {
    if (event.name != event::started) {
      continue;
    }
    PS_ASSIGN(const std::string version, event.details.get_or<std::string>("format_version", std::string(kRecordFormatVersion)));
    if (split(version, '.').front() != split(kRecordFormatVersion, '.').front()) {
      return Error(Code::artifact_version,
                   fmt::format("`{}` has format version {}, this program reads {}", path, version, kRecordFormatVersion))
          .help("read it with the version of parascale that wrote it");
    }
  }
  return result;
}

Result<std::string> append_separator(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) {
    return std::string();
  }
  PS_ASSIGN(auto file, files.open(path, OpenMode::read));
  PS_ASSIGN(const std::uint64_t size, file->size());
  std::array<std::byte, 1> last{std::byte{'\n'}};
  if (size > 0) {
    PS_ASSIGN(const std::size_t got, file->read_at(size - 1, last));
    PS_CHECK(got <= 1, "read_at returns no more than asked");
  }
  PS_TRY(file->close());
  return std::string(last[0] == std::byte{'\n'} ? "" : "\n");
}

std::vector<MetricsRecord> effective_metrics(std::span<const MetricsRecord> records) {
  std::map<std::pair<std::uint64_t, MetricsKind>, const MetricsRecord*> last;
  for (const MetricsRecord& record : records) {
    last[{record.step.value, record.kind}] = &record;
  }
  std::vector<MetricsRecord> result;
  result.reserve(last.size());
  for (const auto& [key, record] : last) {
    result.push_back(*record);
  }
  return result;
}

Result<std::string> comparable(std::string_view line) {
  PS_ASSIGN(Json json, parse_json(line, "metrics line"));
  if (!json.is_object()) {
    return no_record("metrics line", "a value that is no object");
  }
  for (const std::string_view key : {"attempt", "timing", "memory", "rates"}) {
    json.erase(key);
  }
  return json.canonical();
}

Json Percentiles::to_json() const {
  return Json::object({{"count", Json(count)},
                       {"min", Json(min)},
                       {"p50", Json(p50)},
                       {"p90", Json(p90)},
                       {"p99", Json(p99)},
                       {"max", Json(max)},
                       {"mean", Json(mean)}});
}

Percentiles percentiles_of(std::span<const double> values) {
  std::vector<double> sorted;
  sorted.reserve(values.size());
  std::ranges::copy_if(values, std::back_inserter(sorted), [](double value) { return std::isfinite(value); });
  std::ranges::sort(sorted);
  if (sorted.empty()) {
    return {};
  }
  const auto at = [&](double q) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
    return sorted[std::max<std::size_t>(rank, 1) - 1];
  };
  double sum = 0.0;
  for (const double value : sorted) {
    sum += value;
  }
  return {.count = sorted.size(),
          .min = sorted.front(),
          .p50 = at(0.50),
          .p90 = at(0.90),
          .p99 = at(0.99),
          .max = sorted.back(),
          .mean = sum / static_cast<double>(sorted.size())};
}

}  // namespace parascale::run
