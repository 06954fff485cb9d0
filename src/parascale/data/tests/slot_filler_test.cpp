#include "parascale/data/slot_filler.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "parascale/base/hash.h"
#include "parascale/data/affine.h"
#include "parascale/data/index_store.h"
#include "parascale/data/tests/samples.h"
#include "parascale/protocol/region.h"
#include "tests/support/matchers.h"

namespace parascale::data {
namespace {

using namespace testing;  // NOLINT: builders of archives
using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::IsEmpty;

constexpr std::uint32_t kSamples = 2000;
constexpr std::uint32_t kBatch = 50;

/// 1 % of the samples: truncated, zero bytes and HTML in turn.
Damage one_percent(std::uint32_t id) {
  if (id % 100 != 37) {
    return Damage::none;
  }
  switch (id / 100 % 3) {
    case 0:
      return Damage::truncated;
    case 1:
      return Damage::zero_bytes;
    default:
      return Damage::html;
  }
}

std::string reason_of(Damage damage) { return damage == Damage::truncated ? "truncated" : "not a png"; }

/// A filler over its own ring.
class Ring {
 public:
  explicit Ring(const DataOptions& options, std::uint32_t capacity = kBatch, bool labels = true) {
    std::vector<protocol::TensorField> fields{
        {.name = "pixel_values",
         .dtype = Dtype::f32,
         .sample_shape = {options.recipe.channels, options.recipe.size, options.recipe.size}}};
    if (labels) {
      fields.push_back({.name = "labels", .dtype = Dtype::i64, .sample_shape = {}});
    }
    layout_ = protocol::make_slot_layout(fields, 2, capacity).value();
    memory_ = protocol::Region::make("test", layout_.region_bytes()).value();
    filler_ = SlotFiller::make(options, layout_, memory_.bytes()).value();
  }

  SlotFiller& filler() { return *filler_; }
  std::span<std::byte> slot(std::uint32_t index) {
    return memory_.bytes().subspan(index * layout_.slot_bytes, layout_.slot_bytes);
  }
  protocol::SlotView view(std::uint32_t index) { return protocol::read_slot(slot(index)).value(); }

 private:
  protocol::SlotLayout layout_;
  protocol::Region memory_;
  std::unique_ptr<SlotFiller> filler_;
};

class SlotFillerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>("slot-filler");
    for (std::uint32_t shard = 0; shard < 4; ++shard) {
      folder_->write(fmt::format("train-{}.tar", shard), make_shard(shard * kSamples / 4, kSamples / 4, one_percent));
    }
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static DataOptions options(std::uint32_t threads) {
    DataOptions out;
    out.train = {folder_->path("train-*.tar")};
    out.validation = out.train;
    out.recipe = {.size = 8, .channels = 1, .mean = {0.5}, .std = {0.5}};
    out.affine = Affine{.degrees = 12, .scale = {0.9, 1.1}, .translate = 0.12};
    out.seed = 42;
    out.threads = threads;
    return out;
  }
  static std::shared_ptr<const DatasetIndex> index(const DataOptions& data_options) {
    return open_index(data_options, Split::train, real_file_system()).value();
  }

  struct Epoch {
    std::vector<std::string> hashes;
    std::uint64_t slot_bytes_hash = 0;
    std::vector<protocol::SampleFailure> failures;
    std::uint32_t replaced = 0;
    std::uint32_t valid = 0;
    std::vector<std::uint64_t> ids;
  };
  /// Reads a whole epoch in slots of kBatch.
  static Epoch read(const DataOptions& data_options, Split split, std::uint64_t epoch) {
    Ring ring(data_options);
    ring.filler().add_split(split, index(data_options), real_file_system());
    Epoch out;
    Xxh3Stream bytes;
    for (std::uint32_t first = 0; first < kSamples; first += kBatch) {
      const std::uint32_t slot = first / kBatch % 2;
      const auto filled = ring.filler().fill({.slot = slot,
                                              .split = std::string(split_name(split)),
                                              .step = Step{first / kBatch + 1},
                                              .epoch = epoch,
                                              .first = first,
                                              .count = kBatch});
      EXPECT_THAT(filled, is_ok());
      out.hashes.push_back(filled->batch_hash);
      bytes.update(ring.slot(slot));
      out.failures.insert(out.failures.end(), filled->failures.begin(), filled->failures.end());
      out.replaced += filled->replaced;
      out.valid += filled->valid;
      const auto view = ring.view(slot);
      EXPECT_EQ(view.header.valid_count, filled->valid);
      out.ids.insert(out.ids.end(), view.ids.begin(), view.ids.begin() + filled->valid);
    }
    out.slot_bytes_hash = bytes.digest_64();
    EXPECT_EQ(ring.filler().counts().reads, out.valid + out.failures.size());
    EXPECT_EQ(ring.filler().counts().failures, out.failures.size());
    return out;
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};
std::unique_ptr<TemporaryFolder> SlotFillerTest::folder_;

TEST_F(SlotFillerTest, gives_the_same_bytes_on_a_rerun_and_for_any_thread_count) {
  const Epoch once = read(options(1), Split::train, 0);
  for (const std::uint32_t threads : {1U, 2U, 5U}) {
    const Epoch again = read(options(threads), Split::train, 0);
    EXPECT_EQ(again.hashes, once.hashes) << threads;
    EXPECT_EQ(again.slot_bytes_hash, once.slot_bytes_hash) << threads;
    EXPECT_EQ(again.ids, once.ids) << threads;
    EXPECT_EQ(again.failures.size(), once.failures.size());
  }
  EXPECT_NE(read(options(1), Split::train, 1).hashes, once.hashes);
}

TEST_F(SlotFillerTest, replaces_corrupt_training_samples_and_counts_them_exactly) {
  const Epoch epoch = read(options(2), Split::train, 3);
  EXPECT_EQ(epoch.valid, kSamples);
  EXPECT_EQ(epoch.replaced, kSamples / 100);
  // The rule, said once more: chains of keyed choices until a sample is good.
  std::vector<std::uint64_t> expected_ids;
  std::size_t expected_failures = 0;
  const Order order(Split::train, 42, 3, kSamples);
  auto failure = epoch.failures.begin();
  for (std::uint32_t position = 0; position < kSamples; ++position) {
    const SampleId wanted = order.at(position);
    SampleId id = wanted;
    for (std::uint32_t attempt = 0; one_percent(static_cast<std::uint32_t>(id.value)) != Damage::none; ++attempt) {
      ASSERT_NE(failure, epoch.failures.end());
      EXPECT_EQ(failure->id, id);
      EXPECT_EQ(failure->reason, reason_of(one_percent(static_cast<std::uint32_t>(id.value))));
      const std::uint64_t other = SampleRandom(42, 3, wanted).below(kSamples - 1, RandomOp::replacement, attempt);
      id = SampleId{other >= wanted.value ? other + 1 : other};
      EXPECT_EQ(failure->replacement, id);
      ++failure;
      ++expected_failures;
    }
    expected_ids.push_back(id.value);
  }
  EXPECT_EQ(epoch.failures.size(), expected_failures);
  EXPECT_EQ(epoch.ids, expected_ids);
}

TEST_F(SlotFillerTest, leaves_corrupt_samples_out_of_an_evaluation) {
  const Epoch epoch = read(options(2), Split::validation, 0);
  EXPECT_EQ(epoch.valid, kSamples - kSamples / 100);
  EXPECT_EQ(epoch.replaced, 0U);
  ASSERT_EQ(epoch.failures.size(), kSamples / 100);
  for (const auto& failure : epoch.failures) {
    EXPECT_EQ(failure.id.value % 100, 37U);
    EXPECT_EQ(failure.replacement, std::nullopt);
  }
  std::vector<std::uint64_t> expected;
  for (std::uint32_t id = 0; id < kSamples; ++id) {
    if (one_percent(id) == Damage::none) {
      expected.push_back(id);
    }
  }
  EXPECT_EQ(epoch.ids, expected);
}

TEST_F(SlotFillerTest, writes_pixels_labels_and_ids_of_the_order) {
  DataOptions plain = options(2);
  plain.affine.reset();
  const DataOptions moved = options(2);
  for (const auto* each : {&std::as_const(plain), &moved}) {
    Ring ring(*each);
    ring.filler().add_split(Split::train, index(*each), real_file_system());
    ASSERT_THAT(ring.filler().fill(
                    {.slot = 1, .split = "train", .step = Step{9}, .micro_step = 2, .epoch = 5, .first = 100, .count = 20}),
                is_ok());
    const auto view = ring.view(1);
    EXPECT_EQ(view.header.step, 9U);
    EXPECT_EQ(view.header.micro_step, 2U);
    EXPECT_EQ(view.header.epoch, 5U);
    EXPECT_EQ(view.header.sample_count, 20U);
    const Normaliser normaliser(each->recipe);
    for (std::uint32_t row = 0; row < 20; ++row) {
      const SampleId id{view.ids[row]};
      Image image = noise_image(8, 8, 1, static_cast<std::uint32_t>(id.value));
      if (each->affine) {
        Image out;
        apply_affine(image, make_affine_matrix(draw_affine(*each->affine, SampleRandom(42, 5, id), 8, 8), 8, 8), out);
        image = out;
      }
      std::vector<std::byte> expected(8 * 8 * sizeof(float));
      normaliser.write(image, expected);
      EXPECT_EQ(std::memcmp(view.find("pixel_values")->bytes.data() + row * expected.size(), expected.data(), expected.size()),
                0);
      std::int64_t label = 0;
      std::memcpy(&label, view.find("labels")->bytes.data() + row * sizeof label, sizeof label);
      EXPECT_EQ(label, static_cast<std::int64_t>(id.value % 10));
    }
  }
}

TEST_F(SlotFillerTest, fills_a_slot_of_no_rows) {
  Ring ring(options(1));
  ring.filler().add_split(Split::validation, index(options(1)), real_file_system());
  const auto filled = ring.filler().fill({.slot = 0, .split = "validation", .first = kSamples, .count = 0});
  ASSERT_THAT(filled, is_ok());
  EXPECT_EQ(filled->valid, 0U);
  EXPECT_EQ(ring.view(0).header.valid_count, 0U);
  EXPECT_EQ(ring.view(0).header.sample_count, 1U);
}

TEST_F(SlotFillerTest, refuses_orders_outside_its_bounds) {
  Ring ring(options(1));
  ring.filler().add_split(Split::train, index(options(1)), real_file_system());
  const protocol::Fill good{.slot = 0, .split = "train", .first = 0, .count = kBatch};
  auto bad = good;
  bad.slot = 2;
  EXPECT_THAT(ring.filler().fill(bad), is_error(Code::protocol_violation));
  bad = good;
  bad.count = kBatch + 1;
  EXPECT_THAT(ring.filler().fill(bad), is_error(Code::protocol_violation));
  bad = good;
  bad.first = kSamples - kBatch + 1;
  EXPECT_THAT(ring.filler().fill(bad), is_error(Code::protocol_violation));
  bad.first = ~std::uint64_t{0} - 3;
  EXPECT_THAT(ring.filler().fill(bad), is_error(Code::protocol_violation));
  bad = good;
  bad.split = "validation";
  EXPECT_THAT(ring.filler().fill(bad), is_error(Code::protocol_violation));
  EXPECT_THAT(ring.filler().fill(good), is_ok());
}

TEST_F(SlotFillerTest, refuses_tensors_it_cannot_fill) {
  const auto make = [](std::vector<protocol::TensorField> fields) {
    const auto layout = protocol::make_slot_layout(std::move(fields), 1, 4).value();
    std::vector<std::byte> memory(layout.region_bytes());
    return SlotFiller::make(options(1), layout, memory).ok();
  };
  const protocol::TensorField pixels{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {1, 8, 8}};
  EXPECT_TRUE(make({pixels}));
  EXPECT_FALSE(make({{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {3, 8, 8}}}));
  EXPECT_FALSE(make({{.name = "pixel_values", .dtype = Dtype::f16, .sample_shape = {1, 8, 8}}}));
  EXPECT_FALSE(make({pixels, {.name = "labels", .dtype = Dtype::i32, .sample_shape = {}}}));
  EXPECT_FALSE(make({{.name = "labels", .dtype = Dtype::i64, .sample_shape = {}}}));
}

TEST(SlotFillerFailures, end_the_run_above_the_rate_but_not_before_1000_reads) {
  const TemporaryFolder folder("failure-rate");
  folder.write("train.tar", make_shard(0, 600, [](std::uint32_t id) { return id % 5 == 0 ? Damage::html : Damage::none; }));
  DataOptions options;
  options.validation = {folder.path("train.tar")};
  options.recipe.size = 8;
  for (const double rate : {0.19, 0.21}) {
    options.max_failure_rate = rate;
    Ring ring(options, 100);
    ring.filler().add_split(Split::validation, open_index(options, Split::validation, real_file_system()).value(),
                            real_file_system());
    Status outcome;
    std::uint32_t slots = 0;
    for (; slots < 12 && outcome.ok(); ++slots) {
      const auto filled = ring.filler().fill({.slot = 0, .split = "validation", .first = slots % 6 * 100ULL, .count = 100});
      outcome = filled.ok() ? Status() : Status(filled.error());
    }
    if (rate < 0.2) {
      EXPECT_THAT(outcome, is_error(Code::too_many_failures));
      EXPECT_EQ(slots, 10U);
    } else {
      EXPECT_THAT(outcome, is_ok());
    }
  }
}

TEST(SlotFillerFailures, report_missing_members_and_bad_labels) {
  const TemporaryFolder folder("members");
  const std::string png = encode_png(noise_image(8, 8, 1, 1));
  folder.write("v.tar", tar_member("a.cls", "1") + tar_member("b.png", png) + tar_member("c.png", png) +
                            tar_member("c.cls", "x") + tar_member("d.png", png) + tar_member("d.cls", "10") +
                            tar_member("e.png", png) + tar_member("e.cls", "9") + tar_end());
  DataOptions options;
  options.validation = {folder.path("v.tar")};
  options.recipe.size = 8;
  const auto index = open_index(options, Split::validation, real_file_system()).value();
  const auto reasons = [&](bool labels) {
    Ring ring(options, 5, labels);
    ring.filler().add_split(Split::validation, index, real_file_system());
    const auto filled = ring.filler().fill({.slot = 0, .split = "validation", .first = 0, .count = 5}).value();
    std::vector<std::string> out;
    for (const auto& failure : filled.failures) {
      out.push_back(fmt::format("{} {}", failure.id.value, failure.reason));
    }
    return out;
  };
  EXPECT_THAT(reasons(true),
              ::testing::ElementsAre("0 no image", "1 no label", "2 label is no number", "3 label outside its range"));
  EXPECT_THAT(reasons(false), ::testing::ElementsAre("0 no image"));
}

TEST(SlotFillerFailures, name_loose_files_that_cannot_be_opened) {
  const TemporaryFolder folder("loose");
  folder.write("b.png", encode_png(noise_image(8, 8, 1, 1)));
  std::filesystem::create_symlink("nowhere", folder.path("a.png"));
  DataOptions options;
  options.infer = {folder.path("*.png")};
  options.recipe.size = 8;
  Ring ring(options, 2);
  ring.filler().add_split(Split::infer, open_index(options, Split::infer, real_file_system()).value(), real_file_system());
  const auto filled = ring.filler().fill({.slot = 0, .split = "infer", .first = 0, .count = 2});
  ASSERT_THAT(filled, is_ok());
  EXPECT_EQ(filled->valid, 1U);
  ASSERT_EQ(filled->failures.size(), 1U);
  EXPECT_EQ(filled->failures[0].id, SampleId{0});
  EXPECT_THAT(filled->failures[0].reason, ::testing::HasSubstr("a.png"));
  EXPECT_EQ(ring.view(0).ids[0], 1U);
}

TEST(SlotFillerFailures, give_up_on_a_row_when_nothing_can_be_read) {
  const TemporaryFolder folder("hopeless");
  folder.write("train.tar", make_shard(0, 3, [](std::uint32_t) { return Damage::html; }));
  DataOptions options;
  options.train = {folder.path("train.tar")};
  options.recipe.size = 8;
  Ring ring(options, 3);
  ring.filler().add_split(Split::train, open_index(options, Split::train, real_file_system()).value(), real_file_system());
  const auto filled = ring.filler().fill({.slot = 0, .split = "train", .first = 0, .count = 3});
  ASSERT_THAT(filled, is_ok());
  EXPECT_EQ(filled->valid, 0U);
  EXPECT_EQ(filled->replaced, 0U);
  EXPECT_EQ(filled->failures.size(), 3U * (kMaxReplacements + 1));
}

TEST(Replacement, is_another_sample_and_a_pure_function) {
  std::set<std::uint64_t> chosen;
  for (std::uint32_t attempt = 0; attempt < 200; ++attempt) {
    const auto other = replacement_of(1, 2, SampleId{3}, attempt, 6);
    ASSERT_TRUE(other);
    EXPECT_EQ(other, replacement_of(1, 2, SampleId{3}, attempt, 6));
    chosen.insert(other->value);
  }
  EXPECT_EQ(chosen, (std::set<std::uint64_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(replacement_of(1, 2, SampleId{0}, 0, 1), std::nullopt);
}

TEST(SyntheticSlots, hold_id_and_label_without_files) {
  DataOptions options;
  options.type = DatasetType::synthetic;
  options.synthetic.samples = 1000;
  options.num_labels = 7;
  options.threads = 2;
  Ring ring(options, 32);
  ring.filler().add_split(Split::train, open_index(options, Split::train, real_file_system()).value(), real_file_system());
  const auto filled = ring.filler().fill({.slot = 0, .split = "train", .epoch = 1, .first = 64, .count = 32});
  ASSERT_THAT(filled, is_ok());
  EXPECT_EQ(filled->valid, 32U);
  EXPECT_THAT(filled->failures, IsEmpty());
  const auto view = ring.view(0);
  const Order order(Split::train, options.seed, 1, 1000);
  for (std::uint32_t row = 0; row < 32; ++row) {
    EXPECT_EQ(view.ids[row], order.at(64 + row).value);
    float mark = 0;
    std::memcpy(&mark, view.find("pixel_values")->bytes.data() + row * 28 * 28 * sizeof(float), sizeof mark);
    EXPECT_EQ(mark, static_cast<float>(view.ids[row]));
    std::int64_t label = 0;
    std::memcpy(&label, view.find("labels")->bytes.data() + row * sizeof label, sizeof label);
    EXPECT_EQ(label, static_cast<std::int64_t>(view.ids[row] % 7));
  }
}

TEST(ShardFiles, keeps_few_files_open) {
  const TemporaryFolder folder("shard-files");
  DatasetIndex index;
  for (std::uint32_t i = 0; i < 10; ++i) {
    const std::string path = folder.write(fmt::format("{}.bin", i), std::string(1, static_cast<char>(i)));
    index.shards.push_back({.path = path, .size_bytes = 1, .modified_ns = 0, .damage = {}});
  }
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  ShardFiles files(real_file_system(), std::make_shared<DatasetIndex>(index), 3);
  const auto before = open_descriptors();
  for (std::uint32_t i = 0; i < 40; ++i) {
    std::array<std::byte, 1> byte{};
    ASSERT_THAT(files.read(i * 7 % 10, 0, byte), is_ok());
    EXPECT_EQ(std::to_integer<std::uint32_t>(byte[0]), i * 7 % 10);
    EXPECT_LE(open_descriptors(), before + 3);
  }
  std::array<std::byte, 2> more{};
  EXPECT_THAT(files.read(0, 0, more), is_error(Code::image_unreadable));
}

}  // namespace
}  // namespace parascale::data
