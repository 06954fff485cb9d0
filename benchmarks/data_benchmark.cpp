// What one sample costs on one core, stage by stage, and what the control path costs without decoding.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "parascale/data/affine.h"
#include "parascale/data/data.h"
#include "parascale/data/normalise.h"
#include "parascale/data/order.h"
#include "parascale/data/png_decode.h"
#include "parascale/data/resize.h"
#include "parascale/data/slot_filler.h"
#include "parascale/protocol/region.h"

namespace parascale::data {
namespace {

DataOptions digits() {
  DataOptions options;
  options.train = {"examples/data/digits/train-*.tar"};
  options.affine = Affine{.degrees = 12, .scale = {0.9, 1.1}, .translate = 0.12};
  return options;
}

/// The encoded pictures of the first samples.
std::vector<std::vector<std::byte>> pictures() {
  const auto index = open_index(digits(), Split::train, real_file_system());
  PS_CHECK(index.ok(), "the benchmark runs in the repository root");
  ShardFiles files(real_file_system(), *index);
  std::vector<std::vector<std::byte>> out;
  for (std::size_t i = 0; i < 256; ++i) {
    const IndexEntry& entry = (*index)->entries[i * 15];
    out.emplace_back(entry.image_bytes);
    PS_CHECK(files.read(entry.shard, entry.image_offset_bytes, out.back()).ok(), "the shipped digits are whole");
  }
  return out;
}

void decode_png(benchmark::State& state) {
  const auto files = pictures();
  PngDecoder decoder;
  Image image;
  std::size_t i = 0;
  for (auto _ : state) {
    PS_CHECK(decoder.decode(files[i++ % files.size()], 1, image).ok(), "the picture is whole");
  }
}
BENCHMARK(decode_png);

void affine_28(benchmark::State& state) {
  const auto files = pictures();
  PngDecoder decoder;
  Image image;
  PS_CHECK(decoder.decode(files[0], 1, image).ok(), "the picture is whole");
  Image moved;
  std::uint64_t id = 0;
  for (auto _ : state) {
    const auto drawn = draw_affine(*digits().affine, SampleRandom(1, 0, SampleId{id++}), 28, 28);
    apply_affine(image, make_affine_matrix(drawn, 28, 28), moved);
    benchmark::DoNotOptimize(moved.pixels.data());
  }
}
BENCHMARK(affine_28);

void normalise_28(benchmark::State& state) {
  Image image;
  image.resize(28, 28, 1);
  const Normaliser normaliser{Recipe()};
  std::vector<std::byte> row(28 * 28 * sizeof(float));
  for (auto _ : state) {
    normaliser.write(image, row);
    benchmark::DoNotOptimize(row.data());
  }
}
BENCHMARK(normalise_28);

void resize_bilinear(benchmark::State& state) {
  Image image;
  image.resize(static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(0)), 3);
  Resizer resizer;
  Image out;
  for (auto _ : state) {
    resizer.resize(image, 224, 224, out);
    benchmark::DoNotOptimize(out.pixels.data());
  }
}
BENCHMARK(resize_bilinear)->Arg(256)->Arg(512);

void permutation(benchmark::State& state) {
  const auto count = static_cast<std::uint64_t>(state.range(0));
  const Permutation order(1, 0, count);
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(order(position++ % count));
  }
}
BENCHMARK(permutation)->Arg(4000)->Arg(10'000'000);

/// A whole slot: items are samples.
void fill_slot(benchmark::State& state, DataOptions options, std::uint32_t batch) {
  const std::uint64_t side = options.recipe.size;
  options.threads = static_cast<std::uint32_t>(state.range(0));
  const auto layout = protocol::make_slot_layout({{.name = "pixel_values", .dtype = Dtype::f32, .sample_shape = {1, side, side}},
                                                  {.name = "labels", .dtype = Dtype::i64, .sample_shape = {}}},
                                                 2, batch)
                          .value();
  const auto region = protocol::Region::make("benchmark", layout.region_bytes()).value();
  const auto filler = SlotFiller::make(options, layout, region.bytes()).value();
  const auto index = open_index(options, Split::train, real_file_system()).value();
  filler->add_split(Split::train, index, real_file_system());
  const std::uint64_t slots = index->summary.samples / batch;
  std::uint64_t t = 0;
  for (auto _ : state) {
    const auto filled = filler->fill({.slot = static_cast<std::uint32_t>(t % 2),
                                      .split = "train",
                                      .step = Step{t + 1},
                                      .epoch = t / slots,
                                      .first = t % slots * batch,
                                      .count = batch});
    PS_CHECK(filled.ok() && filled->valid == batch, "every row is valid");
    ++t;
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
void fill_digits(benchmark::State& state) { fill_slot(state, digits(), 64); }
BENCHMARK(fill_digits)->Arg(1)->Arg(2)->UseRealTime();

void fill_synthetic(benchmark::State& state) {
  DataOptions options;
  options.type = DatasetType::synthetic;
  fill_slot(state, options, 32);
}
BENCHMARK(fill_synthetic)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace parascale::data

BENCHMARK_MAIN();
