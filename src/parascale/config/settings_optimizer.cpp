#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kFourBit = "optimizers with 4-bit state come with the back ends for accelerators";

Setting four_bit(std::string name, Shape shape, Json fallback, std::string doc) {
  return {.path = "optimizer." + name,
          .shape = shape,
          .fallback = std::move(fallback),
          .doc = std::move(doc),
          .status = Status::not_built,
          .why = kFourBit};
}

}  // namespace

std::vector<Setting> optimizer_settings() {
  return {
      {.path = "optimizer.type",
       .member = PS_MEMBER(optimizer.type),
       .fallback = "adamw",
       .choices = {{"adamw"}, {"sgd"}, {"four_bit_adamw", {}, kFourBit}, {"four_bit_sgd", {}, kFourBit}},
       .doc = "Update rule; its learning rate is `parascale.training.learning_rate` (alias `optimizer.lr`)",
       .noun = "optimizer"},
      {.path = "optimizer.betas",
       .member = PS_MEMBER(optimizer.betas),
       .fallback = Json::array({0.9, 0.999}),
       .bounds = fraction_below_one(),
       .doc = "Decay of the two moments of `adamw`"},
      {.path = "optimizer.eps",
       .member = PS_MEMBER(optimizer.eps),
       .fallback = 1e-8,
       .bounds = above(0),
       .doc = "Added to the root of the second moment of `adamw`"},
      {.path = "optimizer.weight_decay",
       .member = PS_MEMBER(optimizer.weight_decay),
       .fallback = 0.01,
       .bounds = at_least(0),
       .doc = "Decay of weight matrices; norms, biases and positions have none"},
      {.path = "optimizer.momentum",
       .member = PS_MEMBER(optimizer.momentum),
       .fallback = 0.0,
       .bounds = fraction_below_one(),
       .doc = "Momentum of `sgd`"},
      {.path = "optimizer.nesterov",
       .member = PS_MEMBER(optimizer.nesterov),
       .fallback = false,
       .doc = "Nesterov's form of the momentum of `sgd`"},
      four_bit("dampening", Shape::number, 0.0, "Dampening of the momentum"),
      four_bit("group_size", Shape::integer, 128, "Values that share one scale"),
      four_bit("compensate_quant_error", Shape::boolean, true, "Carry the rounding error along"),
      four_bit("error_compensation_dtype", Shape::text, Json(), "Type of the carried error"),
      four_bit("error_compensation_mode", Shape::text, Json(), "Form of the carried error"),
  };
}

}  // namespace parascale::config
