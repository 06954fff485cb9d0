#include "parascale/checkpoint/best.h"

#include <fmt/core.h>
#include <unistd.h>

#include "parascale/base/hash.h"
#include "parascale/base/json.h"
#include "parascale/base/text.h"
#include "parascale/checkpoint/manifest.h"

namespace parascale::checkpoint {

namespace {

constexpr std::string_view kBestFormat = "parascale.best";
constexpr std::uint64_t kBestVersion = 1;
constexpr std::uint64_t kMaxBytes = 1ULL << 20;

Result<CommitReference> parse_best(const Json& json) {
  CommitReference best;
  PS_ASSIGN(best.step.value, json.get<std::uint64_t>("step"));
  PS_ASSIGN(best.seq, json.get<std::uint64_t>("seq"));
  PS_ASSIGN(best.manifest_hash, json.get<std::string>("manifest_xxh3_128"));
  return best;
}

}  // namespace

Result<std::optional<CommitReference>> read_best(FileSystem& files, const std::string& root) {
  const std::string path = join_path(root, kBestName);
  if (!files.exists(path)) {
    return std::optional<CommitReference>();
  }
  PS_ASSIGN(const std::string text, read_file(files, path, kMaxBytes));
  const auto json = parse_json(text, path);
  if (!json.ok()) {
    return json.error().wrap(Code::manifest_invalid, fmt::format("`{}` cannot be read", path));
  }
  if (json->get_or<std::string>("format", "").value_or("") != kBestFormat ||
      json->get_or<std::uint64_t>("version", 0).value_or(0) != kBestVersion) {
    return Error(Code::artifact_version, fmt::format("`{}` is not version {} of {}", path, kBestVersion, kBestFormat));
  }
  auto best = parse_best(*json);
  if (!best.ok()) {
    return best.error().wrap(Code::manifest_invalid, fmt::format("`{}` contradicts its format", path));
  }
  return std::optional(std::move(best).value());
}

Status write_best(FileSystem& files, const std::string& root, const CommitReference& best) {
  const Json json = Json::object({{"format", kBestFormat},
                                  {"version", kBestVersion},
                                  {"step", best.step.value},
                                  {"seq", best.seq},
                                  {"path", step_directory_name(best.step)},
                                  {"manifest_xxh3_128", best.manifest_hash}});
  return replace_file(files, join_path(root, kBestName), json.dump_pretty() + "\n");
}

std::optional<CommitReference> read_current(FileSystem& files, const std::string& root) {
  const std::string path = join_path(root, kCurrentName);
  if (!files.exists(path)) {
    return std::nullopt;
  }
  const auto text = read_file(files, path, kMaxBytes);
  if (!text.ok()) {
    return std::nullopt;
  }
  const auto words = split(trim(*text), ' ');
  const auto step = words.size() == 3 ? parse_step_directory_name(words[0]) : std::nullopt;
  const auto seq = words.size() == 3 ? parse_uint64(words[1]) : std::nullopt;
  return step && seq ? std::optional(CommitReference{*step, *seq, words[2]}) : std::nullopt;
}

Status write_current(FileSystem& files, const std::string& root, const CommitReference& current) {
  const std::string temporary = join_path(root, fmt::format("{}.tmp-{}", kCurrentName, getpid()));
  if (files.exists(temporary)) {
    PS_TRY(files.remove_file(temporary));
  }
  PS_ASSIGN(auto file, files.open(temporary, OpenMode::create_new));
  const std::string line = fmt::format("{} {} {}\n", step_directory_name(current.step), current.seq, current.manifest_hash);
  PS_TRY(file->write_at(0, as_bytes(line)));
  PS_TRY(file->sync());
  PS_TRY(file->close());
  return files.rename_replace(temporary, join_path(root, kCurrentName));
}

}  // namespace parascale::checkpoint
