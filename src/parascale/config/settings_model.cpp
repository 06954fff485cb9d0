#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kOtherWorkloads = "it belongs to a workload that is not built yet";
constexpr const char* kGeluOnly = "only `gelu` is built";

Setting size(std::string name, Binding member, int fallback, std::string doc) {
  return {.path = "model." + name, .member = member, .fallback = fallback, .bounds = between(1, 1 << 24), .doc = std::move(doc)};
}

Setting later(std::string name, std::string doc) {
  return {
      .path = "model." + name, .shape = Shape::any, .doc = std::move(doc), .status = Status::not_built, .why = kOtherWorkloads};
}

}  // namespace

std::vector<Setting> model_settings() {
  return {
      {.path = "model.type",
       .member = PS_MEMBER(model.type),
       .fallback = "vit_classifier",
       .choices = {{"vit_classifier"}, {"tiny_mlp"},      {"tiny_vit"},
                   {"tiny_clip"},      {"clip_medium"},   {"clip_b"},
                   {"vit_b_clip"},     {"clip_vit_b"},    {"hf_clip"},
                   {"openai_clip"},    {"siglip"},        {"hf_siglip"},
                   {"tiny_vlm_lora"},  {"hf_clip_lora"},  {"openai_clip_lora"},
                   {"hf_vlm_lora"},    {"qwen2_vl_lora"}, {"llava_onevision_lora"},
                   {"internvl_lora"},  {"real_vlm_lora"}, {"yolo_world"},
                   {"grounding_dino"}},
       .doc = "Architecture; must fit `training.workload`",
       .noun = "model"},
      size("image_size", PS_MEMBER(model.image_size), 224, "Height and width of the pictures the model sees, in pixels"),
      size("patch_size", PS_MEMBER(model.patch_size), 16, "Height and width of a patch; divides image_size"),
      size("num_channels", PS_MEMBER(model.num_channels), 3, "1 = grey, 3 = RGB"),
      size("hidden_size", PS_MEMBER(model.hidden_size), 768, "Width of the encoder"),
      size("num_hidden_layers", PS_MEMBER(model.num_hidden_layers), 12, "Depth of the encoder"),
      size("num_attention_heads", PS_MEMBER(model.num_attention_heads), 12, "Attention heads; divides hidden_size"),
      size("intermediate_size", PS_MEMBER(model.intermediate_size), 3072, "Width of the feed-forward layers"),
      size("num_labels", PS_MEMBER(model.num_labels), 2, "Number of classes"),
      {.path = "model.hidden_act",
       .member = PS_MEMBER(model.hidden_act),
       .fallback = "gelu",
       .choices = {{"gelu"},
                   {"relu", {}, kGeluOnly},
                   {"gelu_new", {}, kGeluOnly},
                   {"quick_gelu", {}, kGeluOnly},
                   {"silu", {"swish"}, kGeluOnly}},
       .doc = "Activation of the feed-forward layers (`gelu` is the exact form)",
       .noun = "activation"},
      {.path = "model.layer_norm_eps",
       .member = PS_MEMBER(model.layer_norm_eps),
       .fallback = 1e-12,
       .bounds = above(0),
       .doc = "Epsilon of the layer norms"},
      {.path = "model.initializer_range",
       .member = PS_MEMBER(model.initializer_range),
       .fallback = 0.02,
       .bounds = above(0),
       .doc = "Standard deviation of start weights"},
      {.path = "model.hidden_dropout_prob",
       .member = PS_MEMBER(model.hidden_dropout_prob),
       .fallback = 0.0,
       .bounds = fraction_below_one(),
       .doc = "Dropout of hidden values"},
      {.path = "model.attention_probs_dropout_prob",
       .member = PS_MEMBER(model.attention_probs_dropout_prob),
       .fallback = 0.0,
       .bounds = fraction_below_one(),
       .doc = "Dropout of attention weights"},
      {.path = "model.qkv_bias", .member = PS_MEMBER(model.qkv_bias), .fallback = true, .doc = "Biases of query, key and value"},
      {.path = "model.init_from",
       .member = PS_MEMBER(model.init_from),
       .fallback = "",
       .doc = "Model directory with start weights (`model.safetensors`); empty = random"},
      {.path = "model.label_names",
       .member = PS_MEMBER(model.label_names),
       .fallback = Json::array(),
       .doc = "Names of the classes; empty = LABEL_0, LABEL_1 and so on"},
      later("path", "Model file of a detector"),
      later("pretrained_model_name_or_path", "Directory of a pretrained model"),
      later("vocab_size", "Size of the text vocabulary"),
      later("text_length", "Tokens per text"),
      later("embed_dim", "Width of the shared embedding"),
      later("input_dim", "Width of the input"),
      later("output_dim", "Width of the output"),
      later("vision_layers", "Depth of the image encoder"),
      later("text_layers", "Depth of the text encoder"),
      later("num_layers", "Depth of both encoders"),
      later("num_heads", "Attention heads of both encoders"),
      later("mlp_ratio", "Width of the feed-forward layers by the encoder's width"),
      later("channels", "Picture channels; `num_channels` for `vit_classifier`"),
      later("temperature", "Start of the contrastive temperature"),
      later("activation_checkpointing", "Recompute activations in the backward pass"),
      later("loss_type", "`proxy` or `official`"),
      {.path = "model.hidden_dim",
       .shape = Shape::any,
       .doc = "Was never read",
       .status = Status::dead,
       .why = "nothing ever read it; the width is `model.hidden_size`"},
  };
}

}  // namespace parascale::config
