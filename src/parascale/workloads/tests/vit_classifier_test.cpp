#include "parascale/workloads/workloads.h"

#include <algorithm>

#include "tests/support/matchers.h"

namespace parascale::workloads {
namespace {

using parascale::testing::is_error;
using parascale::testing::is_ok;
using ::testing::ElementsAre;

struct Vit {
  std::int64_t image = 224, patch = 16, channels = 3, width = 768, layers = 12, heads = 12, mlp = 3072, labels = 1000;
};

Json model_section(const Vit& vit) {
  return Json::object({{"image_size", vit.image},
                       {"patch_size", vit.patch},
                       {"num_channels", vit.channels},
                       {"hidden_size", vit.width},
                       {"num_hidden_layers", vit.layers},
                       {"num_attention_heads", vit.heads},
                       {"intermediate_size", vit.mlp},
                       {"num_labels", vit.labels},
                       {"hidden_act", "gelu"},
                       {"layer_norm_eps", 1e-12},
                       {"initializer_range", 0.02},
                       {"hidden_dropout_prob", 0.0},
                       {"attention_probs_dropout_prob", 0.0},
                       {"qkv_bias", true}});
}

Json recipe_section() { return Json::object({{"mean", Json::array({0.5})}, {"std", Json::array({0.25})}}); }

Result<plan::WorkloadShape> shape_of(const Vit& vit) {
  return vit_classifier().shape({.model = model_section(vit), .recipe = recipe_section()});
}

// Totals of the published checkpoints as `ViTForImageClassification`, by transformers: sum(p.numel() for p in
// model.parameters()).
TEST(VitClassifierTest, CountsTheParametersOfKnownModels) {
  EXPECT_EQ(shape_of({}).value().parameters, 86'567'656U);                           // google/vit-base-patch16-224
  EXPECT_EQ(shape_of({.image = 384, .patch = 32}).value().parameters, 88'297'192U);  // google/vit-base-patch32-384
  EXPECT_EQ(shape_of({.width = 1024, .layers = 24, .heads = 16, .mlp = 4096}).value().parameters,
            304'326'632U);                                                                     // google/vit-large-patch16-224
  EXPECT_EQ(shape_of({.width = 192, .heads = 3, .mlp = 768}).value().parameters, 5'717'416U);  // WinKawaks/vit-tiny-patch16-224
  EXPECT_EQ(shape_of({.width = 384, .heads = 6, .mlp = 1536}).value().parameters,
            22'050'664U);  // WinKawaks/vit-small-patch16-224
}

TEST(VitClassifierTest, WithoutQkvBiasThreeVectorsALayerAreMissing) {
  Json model = model_section({});
  model["qkv_bias"] = false;
  EXPECT_EQ(vit_classifier().shape({.model = model, .recipe = recipe_section()}).value().parameters,
            86'567'656U - 12U * 3U * 768U);
}

TEST(VitClassifierTest, WritesTheFilesOfAModelDirectory) {
  Json model =
      model_section({.image = 28, .patch = 7, .channels = 1, .width = 96, .layers = 4, .heads = 4, .mlp = 192, .labels = 3});
  model["label_names"] = Json::array({"zero", "one"});
  const auto shape = vit_classifier().shape({.model = model, .recipe = recipe_section()});
  ASSERT_THAT(shape, is_ok());
  std::vector<std::string> keys;
  for (const auto& [key, value] : shape->model.members()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("architectures", "model_type", "image_size", "patch_size", "num_channels", "hidden_size",
                                "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act", "layer_norm_eps",
                                "initializer_range", "hidden_dropout_prob", "attention_probs_dropout_prob", "qkv_bias",
                                "encoder_stride", "id2label", "label2id", "dtype"));
  EXPECT_EQ(shape->model.find("architectures")->dump(), R"(["ViTForImageClassification"])");
  EXPECT_EQ(shape->model.find("id2label")->dump(), R"({"0":"zero","1":"one","2":"LABEL_2"})");
  EXPECT_EQ(shape->model.find("label2id")->dump(), R"({"zero":0,"one":1,"LABEL_2":2})");
  EXPECT_EQ(shape->preprocessor.find("image_processor_type")->dump(), "\"ViTImageProcessor\"");
  EXPECT_EQ(shape->preprocessor.find("size")->dump(), R"({"height":28,"width":28})");
  EXPECT_EQ(shape->preprocessor.find("resample")->dump(), "2");
  EXPECT_EQ(shape->preprocessor.find("image_std")->dump(), "[0.25]");
}

TEST(VitClassifierTest, OneMeanStandsForAllChannels) {
  EXPECT_EQ(shape_of({}).value().preprocessor.find("image_mean")->dump(), "[0.5,0.5,0.5]");
}

TEST(VitClassifierTest, TheBatchContractHasPicturesAndLabels) {
  EXPECT_EQ(
      shape_of({.labels = 10}).value().fields.dump(),
      R"([{"name":"pixel_values","dtype":"F32","sample_shape":[3,224,224]},{"name":"labels","dtype":"I64","sample_shape":[]}])");
}

TEST(VitClassifierTest, ContradictingSizesAreRefused) {
  EXPECT_THAT(shape_of({.patch = 15}), is_error(Code::cross_field));
  EXPECT_THAT(shape_of({.patch = 0}), is_error(Code::cross_field));
  EXPECT_THAT(shape_of({.heads = 7}), is_error(Code::cross_field));
  EXPECT_THAT(shape_of({.heads = 0}), is_error(Code::cross_field));
  EXPECT_THAT(shape_of({.labels = 0}), is_error(Code::cross_field));
}

TEST(ModelDirectoryTest, ReadsWhatTheShapeWrote) {
  const auto shape = shape_of({.labels = 3}).value();
  const auto read = read_model_directory(shape.model, shape.preprocessor);
  ASSERT_THAT(read, is_ok());
  EXPECT_EQ(read->workload, "vit_classifier");
  EXPECT_EQ(read->shape.parameters, shape.parameters);
  EXPECT_THAT(read->labels, ElementsAre("LABEL_0", "LABEL_1", "LABEL_2"));
  EXPECT_EQ(read->recipe.dump(), R"({"size":224,"mean":[0.5,0.5,0.5],"std":[0.25,0.25,0.25]})");
}

TEST(ModelDirectoryTest, RefusesWhatItCannotFollow) {
  const auto shape = shape_of({.labels = 3}).value();
  Json other = shape.model;
  other["model_type"] = "bert";
  EXPECT_THAT(read_model_directory(other, shape.preprocessor), is_error(Code::workload_not_built));
  Json cubic = shape.preprocessor;
  cubic["resample"] = 3;
  EXPECT_THAT(read_model_directory(shape.model, cubic), is_error(Code::not_built));
  Json unlabelled = shape.model;
  unlabelled.erase("id2label");
  EXPECT_THAT(read_model_directory(unlabelled, shape.preprocessor), is_error(Code::cross_field));
  Json holes = shape.model;
  holes["id2label"] = Json::object({{"0", "a"}, {"2", "b"}});
  EXPECT_THAT(read_model_directory(holes, shape.preprocessor), is_error(Code::json_invalid));
  EXPECT_THAT(read_model_directory(Json::object(), Json::object()), is_error(Code::workload_not_built));
}

TEST(WorkloadRecordsTest, NamesAreUniqueAndOnlyBuiltOnesHaveAShape) {
  std::vector<std::string> names;
  for (const auto& record : workload_records()) {
    names.push_back(record.name);
    EXPECT_EQ(record.built, record.shape != nullptr) << record.name;
    EXPECT_TRUE(record.built || !record.when.empty()) << record.name;
    EXPECT_EQ(record.built, !record.metrics.empty()) << record.name;
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

}  // namespace
}  // namespace parascale::workloads
