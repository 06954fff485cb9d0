#include "parascale/data/dataset_index.h"

#include <gmock/gmock.h>

#include "parascale/data/index_store.h"
#include "parascale/data/tests/samples.h"
#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using namespace testing;  // NOLINT: builders of archives
using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::ElementsAre;
using ::testing::Pair;

Damage undamaged(std::uint32_t) { return Damage::none; }

Result<DatasetIndex> index_of(const TemporaryFolder& folder, const std::string& archive) {
  const std::string path = folder.write("x.tar", archive);
  return build_tar_index(real_file_system(), {{.path = path, .size_bytes = archive.size(), .modified_ns = 1, .damage = {}}});
}

TEST(MemberName, is_split_at_the_first_dot_of_the_base_name) {
  const auto split = [](std::string_view name) {
    const auto found = split_member_name(name);
    return found ? fmt::format("{}|{}", found->key, found->extension) : std::string("-");
  };
  EXPECT_EQ(split("a.png"), "a|png");
  EXPECT_EQ(split("d.x/a.Seg.PNG"), "d.x/a|seg.png");
  EXPECT_EQ(split("d/.hidden.png"), "-");
  EXPECT_EQ(split("nodot"), "-");
  EXPECT_EQ(split("__meta__.json"), "-");
  EXPECT_EQ(split("__a.png"), "__a|png");
}

TEST(DatasetIndex, groups_consecutive_members_and_keeps_incomplete_samples) {
  const TemporaryFolder folder("index-groups");
  const std::string png = encode_png(noise_image(3, 2, 1, 1));
  const auto index = index_of(folder, tar_member("a.png", png) + tar_member("a.cls", " 7\n") + tar_member("a.txt", "seven") +
                                          tar_member("b.cls", "x") + tar_member("b.json", "{}") +  // no image, bad label
                                          tar_member("c.jpg", "JFIF") +                            // no label
                                          tar_member("d.png", png) + tar_member("d.png", png) +    // twice: two samples
                                          tar_member("__key__.txt", "meta") + tar_member("README", "text") +  //
                                          tar_member("e.cls", "3") + tar_member("e.png", png) + tar_end());
  ASSERT_THAT(index, is_ok());
  const auto& entries = index->entries;
  ASSERT_EQ(entries.size(), 6U);
  EXPECT_EQ(entries[0].flags, IndexEntry::kHasImage | IndexEntry::kHasLabel | IndexEntry::kHasCaption);
  EXPECT_EQ(entries[0].label, 7);
  EXPECT_EQ(entries[0].image_offset_bytes, kBlock);
  EXPECT_EQ(entries[0].image_bytes, png.size());
  EXPECT_EQ(entries[0].caption_bytes, 5U);
  EXPECT_EQ(entries[1].flags, IndexEntry::kBadLabel);
  EXPECT_EQ(entries[2].flags, IndexEntry::kHasImage);
  EXPECT_EQ(entries[3].flags, IndexEntry::kHasImage);
  EXPECT_EQ(entries[4].flags, IndexEntry::kHasImage);
  EXPECT_EQ(entries[5].flags, IndexEntry::kHasImage | IndexEntry::kHasLabel);
  EXPECT_EQ(index->summary.samples, 6U);
  EXPECT_EQ(index->summary.incomplete, 1U);
  EXPECT_EQ(index->summary.unlabelled, 4U);
  EXPECT_EQ(index->summary.shards, 1U);
  EXPECT_EQ(index->summary.max_width, 3U);
  EXPECT_EQ(index->summary.min_height, 2U);
  EXPECT_THAT(index->label_counts(), ElementsAre(Pair(3, 1), Pair(7, 1)));
}

TEST(DatasetIndex, fingerprint_follows_names_sizes_and_places_but_not_content) {
  const TemporaryFolder folder("index-fingerprint");
  const auto fingerprint = [&](const std::string& archive) { return index_of(folder, archive).value().summary.fingerprint; };
  const std::string base = fingerprint(tar_member("a.png", "12") + tar_member("b.png", "34") + tar_end());
  EXPECT_EQ(base.size(), 32U);
  EXPECT_EQ(base, fingerprint(tar_member("a.png", "xx") + tar_member("b.png", "yy") + tar_end()));
  EXPECT_NE(base, fingerprint(tar_member("a.png", "12") + tar_member("c.png", "34") + tar_end()));
  EXPECT_NE(base, fingerprint(tar_member("a.png", "12") + tar_member("b.png", "345") + tar_end()));
  EXPECT_NE(base, fingerprint(tar_member("a.png", "12") + tar_member("a.cls", "1") + tar_member("b.png", "34") + tar_end()));
}

TEST(DatasetIndex, uses_a_cut_shard_up_to_the_damage) {
  const TemporaryFolder folder("index-cut");
  const std::string archive = make_shard(0, 5, undamaged);
  const auto index = index_of(folder, archive.substr(0, archive.size() - 5 * kBlock));
  ASSERT_THAT(index, is_ok());
  EXPECT_EQ(index->summary.samples, 5U);
  EXPECT_EQ(index->summary.unlabelled, 1U);  // the last one lost its label
  EXPECT_EQ(index->summary.damaged_shards, 1U);
  EXPECT_THAT(index->summary.damage, ElementsAre(::testing::StartsWith("x.tar: truncated at byte ")));
}

TEST(DatasetIndex, names_the_shard_that_is_refused) {
  const TemporaryFolder folder("index-refused");
  const auto index = index_of(folder, tar_member("a.png", "1") + tar_member("b", "", '2') + tar_end());
  ASSERT_THAT(index, is_error(Code::archive_damaged));
  EXPECT_THAT(index.error().message(), ::testing::HasSubstr("x.tar"));
}

TEST(IndexFile, round_trips_and_notices_every_changed_byte) {
  const TemporaryFolder folder("index-file");
  const auto built = index_of(folder, make_shard(0, 2, undamaged));
  ASSERT_THAT(built, is_ok());
  const std::string bytes = encode_index(*built);
  const auto read = decode_index(bytes);
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->entries, built->entries);
  EXPECT_EQ(read->shards, built->shards);
  EXPECT_EQ(read->summary, built->summary);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    EXPECT_THAT(decode_index(changed), is_error(Code::index_failed)) << at;
    EXPECT_THAT(decode_index(std::string_view(bytes).substr(0, at)), is_error(Code::index_failed)) << at;
  }
}

class IndexStore : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const DatasetIndex>> open() {
    DataOptions options;
    options.train = {folder_.path("data/train-*.tar")};
    builds_ = 0;
    return open_index(options, Split::train, real_file_system(),
                      [this](const IndexProgress& done) { builds_ += done.shards_done == done.shards ? 1 : 0; },
                      {.cache_directory = folder_.path("cache")});
  }
  std::vector<std::string> stored(const std::string& place) const {
    std::vector<std::string> names;
    const auto entries = real_file_system().list(folder_.path(place));
    for (const auto& entry : entries.ok() ? *entries : std::vector<DirectoryEntry>()) {
      names.push_back(folder_.path(place + "/" + entry.name));
    }
    return names;
  }

  TemporaryFolder folder_{"index-store"};
  int builds_ = 0;
};

TEST_F(IndexStore, builds_once_and_again_when_a_shard_changes) {
  folder_.write("data/train-0.tar", make_shard(0, 3, undamaged));
  folder_.write("data/train-1.tar", make_shard(3, 4, undamaged));
  const auto first = open();
  ASSERT_THAT(first, is_ok());
  EXPECT_EQ((*first)->summary.samples, 7U);
  EXPECT_EQ(builds_, 1);
  ASSERT_EQ(stored("data/.parascale-index").size(), 1U);
  const auto second = open();
  ASSERT_THAT(second, is_ok());
  EXPECT_EQ(builds_, 0);
  EXPECT_EQ((*second)->entries, (*first)->entries);
  EXPECT_EQ((*second)->summary, (*first)->summary);
  EXPECT_EQ((*second)->shards, (*first)->shards);
  folder_.write("data/train-1.tar", make_shard(3, 5, undamaged));
  const auto third = open();
  ASSERT_THAT(third, is_ok());
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ((*third)->summary.samples, 8U);
}

TEST_F(IndexStore, rebuilds_a_damaged_index) {
  folder_.write("data/train-0.tar", make_shard(0, 3, undamaged));
  ASSERT_THAT(open(), is_ok());
  const auto files = stored("data/.parascale-index");
  ASSERT_EQ(files.size(), 1U);
  const std::string good = read_file(real_file_system(), files[0]).value();
  std::string bad = good;
  bad[bad.size() - 1] ^= 1;
  std::ofstream(files[0], std::ios::binary) << bad;
  const auto index = open();
  ASSERT_THAT(index, is_ok());
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(read_file(real_file_system(), files[0]).value(), good);
}

TEST_F(IndexStore, uses_the_cache_directory_when_the_data_folder_takes_no_index) {
  folder_.write("data/train-0.tar", make_shard(0, 3, undamaged));
  folder_.write("data/.parascale-index", "a file where the folder should be");
  ASSERT_THAT(open(), is_ok());
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(stored("cache").size(), 1U);
  ASSERT_THAT(open(), is_ok());
  EXPECT_EQ(builds_, 0);
}

TEST_F(IndexStore, says_what_was_looked_for) {
  const auto missing = open();
  ASSERT_THAT(missing, is_error(Code::data_not_found));
  EXPECT_THAT(missing.error().message(), ::testing::HasSubstr("train-*.tar"));
  folder_.write("data/train-0.tar", tar_member("README", "x") + tar_end());
  EXPECT_THAT(open(), is_error(Code::data_empty));
  EXPECT_THAT(open_index(DataOptions(), Split::train, real_file_system()), is_error(Code::data_not_found));
  DataOptions nothing;
  nothing.type = DatasetType::synthetic;
  nothing.synthetic.samples = 0;
  EXPECT_THAT(open_index(nothing, Split::train, real_file_system()), is_error(Code::data_empty));
}

TEST_F(IndexStore, lists_loose_pictures_of_files_and_folders) {
  const std::string png = encode_png(noise_image(5, 4, 1, 1));
  folder_.write("p/b.png", png);
  folder_.write("p/a.PNG", png);
  folder_.write("p/notes.txt", "no picture");
  folder_.write("one.png", png);
  DataOptions options;
  options.infer = {folder_.path("one.png"), folder_.path("p")};
  const auto index = open_index(options, Split::infer, real_file_system());
  ASSERT_THAT(index, is_ok());
  ASSERT_EQ((*index)->shards.size(), 3U);
  EXPECT_EQ((*index)->shards[0].path, folder_.path("one.png"));
  EXPECT_EQ((*index)->shards[1].path, folder_.path("p/a.PNG"));
  EXPECT_EQ((*index)->shards[2].path, folder_.path("p/b.png"));
  EXPECT_EQ((*index)->summary.max_width, 5U);
}

TEST(ShippedDigits, are_balanced_and_complete) {
  DataOptions options;
  options.train = {"examples/data/digits/train-*.tar"};
  options.validation = {"examples/data/digits/validation-*.tar"};
  for (const auto& [split, samples] : {std::pair(Split::train, 4000U), std::pair(Split::validation, 1000U)}) {
    const TemporaryFolder cache("digits");
    const auto paths = expand_paths(real_file_system(), options.paths(split));
    ASSERT_THAT(paths, is_ok());
    std::vector<IndexShard> shards;
    for (const auto& path : *paths) {
      shards.push_back({.path = path, .size_bytes = real_file_system().info(path)->size_bytes, .modified_ns = 0, .damage = {}});
    }
    const auto index = build_tar_index(real_file_system(), shards);
    ASSERT_THAT(index, is_ok());
    EXPECT_EQ(index->summary.samples, samples);
    EXPECT_EQ(index->summary.incomplete + index->summary.unlabelled + index->summary.damaged_shards, 0U);
    EXPECT_EQ(index->summary.min_width, 28U);
    EXPECT_EQ(index->summary.max_height, 28U);
    EXPECT_EQ(index->label_counts().size(), 10U);
  }
}

}  // namespace
}  // namespace parascale::data
