#include "parascale/cli/context.h"

#include <fmt/core.h>
#include <unistd.h>

#include "parascale/backends/backends.h"
#include "parascale/base/text.h"
#include "parascale/data/data.h"
#include "parascale/workloads/workloads.h"

namespace parascale::cli {

namespace {

plan::WorkerRecord program_record(const Context& context, const std::string& kind, const std::string& name) {
  plan::WorkerRecord record{.kind = kind, .program = context.sibling(name)};
  record.available = access(record.program.c_str(), X_OK) == 0;
  if (!record.available) {
    record.reason = fmt::format("`{}` is not there", record.program);
  }
  return record;
}

/// The summary of one split, with progress while the index is built.
Result<data::DatasetSummary> summarise(Context& context, const data::DataOptions& options, data::Split split) {
  auto summary = data::summarise(options, split, context.files, [&](const data::IndexProgress& progress) {
    context.console.progress("Indexing", fmt::format("{}: {} of {}, {} of {}", data::split_name(split), progress.shards_done,
                                                     format_count(progress.shards, "shard"), format_bytes(progress.bytes_done),
                                                     format_bytes(progress.bytes)));
  });
  context.console.end_progress();
  return summary;
}

}  // namespace

plan::Capabilities capabilities(const Context& context) {
  return {
      .backends = backends::backend_records(),
      .workers = {program_record(context, "cpp", "parascale_worker"), program_record(context, "fake", "parascale_fake_worker"),
                  plan::WorkerRecord{.kind = "python", .reason = "the Python worker is not built yet"}},
      .workloads = workloads::workload_records()};
}

plan::Machine machine(const Context& context) { return plan::read_machine(context.sibling("parascale_worker.torch_version")); }

run::Programs programs(const Context& context, const std::string& worker_kind) {
  return {.engine = context.program,
          .worker = context.sibling(worker_kind == "fake" ? "parascale_fake_worker" : "parascale_worker")};
}

int report_error(Context& context, const Error& error) {
  context.console.error(error);
  return exit_code(error.kind());
}

int report_errors(Context& context, const std::vector<Error>& errors, std::string_view subject) {
  context.console.talk(config::render_all(errors, subject));
  if (context.json()) {
    context.console.talk(error_envelope(errors.front(), context.console.options().command) + "\n");
  }
  return exit_code(errors.front().kind());
}

std::optional<config::ResolvedConfig> load_or_report(Context& context, const ConfigSource& source) {
  auto outcome = config::load_config(
      {.path = source.path.empty() ? std::nullopt : std::optional(source.path), .overrides = source.overrides});
  for (const auto& warning : outcome.warnings) {
    context.console.warning(warning);
  }
  if (!outcome.config) {
    report_errors(context, outcome.errors, source.path.empty() ? "the command line" : source.path);
  }
  return std::move(outcome.config);
}

std::optional<Planned> plan_or_report(Context& context, const ConfigSource& source, int& exit) {
  auto config = load_or_report(context, source);
  exit = exit_code(ErrorKind::config);
  if (!config) {
    return std::nullopt;
  }
  const plan::Capabilities known = capabilities(context);
  plan::DataFacts facts;
  // A workload that is not built is the planner's to report; without its shape there is nothing to read.
  if (const auto shape = plan::workload_shape(*config, known); shape.ok()) {
    const data::DataOptions options = plan::make_data_options(*config, *shape);
    auto train = summarise(context, options, data::Split::train);
    if (!train.ok()) {
      exit = report_errors(context, {train.error()}, source.path);
      return std::nullopt;
    }
    facts.train_samples = train->samples;
    facts.train_fingerprint = train->fingerprint;
    if (options.type == data::DatasetType::synthetic || !options.validation.empty()) {
      auto validation = summarise(context, options, data::Split::validation);
      if (!validation.ok()) {
        exit = report_errors(context, {validation.error()}, source.path);
        return std::nullopt;
      }
      facts.validation_samples = validation->samples;
      facts.validation_fingerprint = validation->fingerprint;
    }
  }
  const std::string run_dir = config->runtime.run_dir.empty() ? join_path("runs", config->run_name) : config->runtime.run_dir;
  auto outcome =
      plan::make_plan({.config = *config, .capabilities = known, .machine = machine(context), .data = facts, .run_dir = run_dir});
  if (!outcome.errors.empty()) {
    exit = report_errors(context, outcome.errors, source.path);
    return std::nullopt;
  }
  exit = 0;
  return Planned{.config = std::move(*config), .plan = std::move(outcome.plan)};
}

Status deliver(Context& context, const Json& payload, const std::string& output) {
  if (!output.empty()) {
    PS_TRY(make_directories(context.files, parent_path(output)));
    return replace_file(context.files, output, payload.dump_pretty() + "\n");
  }
  if (context.json()) {
    context.console.data(payload.dump_pretty() + "\n");
  }
  return {};
}

}  // namespace parascale::cli
