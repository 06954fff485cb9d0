#include "parascale_torch/models/vit/vit_functions.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <vector>

#include "parascale_torch/models/vit/kernels.h"

namespace parascale::native {

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Rows per range: fixed, so that partial sums do not depend on the number of threads.
constexpr std::int64_t kRowsPerRange = 128;
/// Up to here the own attention kernel keeps the probabilities; longer sequences use the library's flash attention.
constexpr std::int64_t kOwnAttentionTokens = 80;

std::int64_t range_count(std::int64_t rows) { return (rows + kRowsPerRange - 1) / kRowsPerRange; }

/// Calls body(range, first row, row count) for every range, on the library's threads.
template <typename Body>
void for_ranges(std::int64_t rows, const Body& body) {
  at::parallel_for(0, range_count(rows), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t range = begin; range < end; ++range) {
      const std::int64_t first = range * kRowsPerRange;
      body(range, first, std::min(kRowsPerRange, rows - first));
    }
  });
}

template <typename T>
T* data(const Tensor& tensor) {
  return tensor.mutable_data_ptr<T>();
}

/// Column sums that ranges write side by side and `total` adds in range order.
template <typename T>
class PartialSums {
 public:
  PartialSums(std::int64_t rows, std::int64_t width, const Tensor& like)
      : width_(width), ranges_(range_count(rows)), partial_(at::empty({ranges_, width}, like.options())) {}
  T* at(std::int64_t range) const { return data<T>(partial_) + range * width_; }
  Tensor total() const {
    Tensor sum = at::empty({width_}, partial_.options());
    kernels::table<T>().column_sum(ranges_, width_, data<T>(partial_), data<T>(sum));
    return sum;
  }

 private:
  std::int64_t width_;
  std::int64_t ranges_;
  Tensor partial_;
};

template <typename T>
Tensor column_sum(const Tensor& x) {
  const std::int64_t width = x.size(1);
  const PartialSums<T> sums(x.size(0), width, x);
  for_ranges(x.size(0), [&](std::int64_t range, std::int64_t first, std::int64_t rows) {
    kernels::table<T>().column_sum(rows, width, data<T>(x) + first * width, sums.at(range));
  });
  return sums.total();
}

struct Normed {
  Tensor sum, normed, mean, rstd;
};

/// sum = x + y + bias (y undefined: x itself), then layer norm.
template <typename T>
Normed add_norm(const Tensor& x, const Tensor& y, const Tensor& bias, const Tensor& gamma, const Tensor& beta, double epsilon) {
  const std::int64_t rows = x.size(0);
  const std::int64_t width = x.size(1);
  Normed out;
  out.sum = y.defined() ? at::empty_like(x) : x;
  out.normed = at::empty_like(x);
  out.mean = at::empty({rows}, x.options());
  out.rstd = at::empty({rows}, x.options());
  for_ranges(rows, [&](std::int64_t, std::int64_t first, std::int64_t count) {
    const std::int64_t at = first * width;
    kernels::table<T>().add_norm_forward(count, width, data<T>(x) + at, y.defined() ? data<T>(y) + at : nullptr,
                                         y.defined() ? data<T>(bias) : nullptr, data<T>(out.sum) + at, data<T>(gamma),
                                         data<T>(beta), static_cast<T>(epsilon), data<T>(out.normed) + at,
                                         data<T>(out.mean) + first, data<T>(out.rstd) + first);
  });
  return out;
}

struct NormGradient {
  Tensor dx, dgamma, dbeta, dx_sum;
};

/// `dresidual` may be undefined; `want_sum` also gives the column sums of dx.
template <typename T>
NormGradient norm_backward(const Tensor& dnormed, const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& gamma,
                           const Tensor& dresidual, bool want_sum) {
  const std::int64_t rows = x.size(0);
  const std::int64_t width = x.size(1);
  NormGradient out{.dx = at::empty_like(x), .dgamma = {}, .dbeta = {}, .dx_sum = {}};
  const PartialSums<T> dgamma(rows, width, x);
  const PartialSums<T> dbeta(rows, width, x);
  const PartialSums<T> dx_sum(want_sum ? rows : 1, width, x);
  for_ranges(rows, [&](std::int64_t range, std::int64_t first, std::int64_t count) {
    const std::int64_t at = first * width;
    kernels::table<T>().norm_backward(count, width, data<T>(dnormed) + at, data<T>(x) + at, data<T>(mean) + first,
                                      data<T>(rstd) + first, data<T>(gamma),
                                      dresidual.defined() ? data<T>(dresidual) + at : nullptr, data<T>(out.dx) + at,
                                      dgamma.at(range), dbeta.at(range), want_sum ? dx_sum.at(range) : nullptr);
  });
  out.dgamma = dgamma.total();
  out.dbeta = dbeta.total();
  if (want_sum) {
    out.dx_sum = dx_sum.total();
  }
  return out;
}

// ---- attention ----

/// Query, key and value before their biases: one matrix [rows, 3 * width], or with `first_token_only` queries [batch, width] and
/// key-value [rows, 2 * width].
struct Projections {
  Tensor query, key_value;
};

template <typename T>
class OwnAttention {
 public:
  OwnAttention(const BlockShape& shape, std::int64_t width, const Projections& in, const Tensor& bias)
      : in_(in), bias_(bias), width_(width), batch_(shape.batch), tokens_(shape.tokens), joint_(!shape.first_token_only) {
    shape_.heads = shape.heads;
    shape_.head_width = width / shape.heads;
    shape_.keys = shape.tokens;
    shape_.queries = joint_ ? shape.tokens : 1;
    shape_.query_stride = joint_ ? 3 * width : width;
    shape_.key_stride = joint_ ? 3 * width : 2 * width;
  }

  /// Returns {out [batch * queries, width], probabilities}.
  std::pair<Tensor, Tensor> forward() const {
    Tensor out = at::empty({batch_ * shape_.queries, width_}, bias_.options());
    Tensor probabilities = at::empty({batch_, shape_.probability_values()}, bias_.options());
    for_samples([&](std::int64_t b, T* scratch) {
      kernels::attention_table<T>().forward(shape_, query(in_, b), key(in_, b), value(in_, b), bias(0), bias(1), bias(2),
                                            row(out, b), data<T>(probabilities) + b * shape_.probability_values(), scratch);
    });
    return {out, probabilities};
  }

  Projections backward(const Tensor& dout, const Tensor& probabilities) const {
    Projections d;
    d.key_value = at::empty_like(in_.key_value);
    d.query = joint_ ? d.key_value : at::empty_like(in_.query);
    for_samples([&](std::int64_t b, T* scratch) {
      kernels::attention_table<T>().backward(shape_, query(in_, b), key(in_, b), value(in_, b), bias(0), bias(1), bias(2),
                                             row(dout, b), data<T>(probabilities) + b * shape_.probability_values(), query(d, b),
                                             key(d, b), value(d, b), scratch);
    });
    return d;
  }

 private:
  template <typename Body>
  void for_samples(const Body& body) const {
    at::parallel_for(0, batch_, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<T> scratch(static_cast<std::size_t>(shape_.scratch_values()));
      for (std::int64_t b = begin; b < end; ++b) {
        body(b, scratch.data());
      }
    });
  }
  T* query(const Projections& p, std::int64_t b) const { return data<T>(p.query) + b * shape_.queries * shape_.query_stride; }
  T* key(const Projections& p, std::int64_t b) const {
    return data<T>(p.key_value) + b * tokens_ * shape_.key_stride + (joint_ ? width_ : 0);
  }
  T* value(const Projections& p, std::int64_t b) const { return key(p, b) + width_; }
  T* row(const Tensor& out, std::int64_t b) const { return data<T>(out) + b * shape_.queries * width_; }
  const T* bias(std::int64_t part) const { return data<T>(bias_) + part * width_; }

  Projections in_;
  Tensor bias_;
  std::int64_t width_;
  std::int64_t batch_;
  std::int64_t tokens_;
  bool joint_;
  kernels::AttentionShape shape_;
};

/// [batch, heads, tokens, head_width] views of the three operands of the library's attention (biases already added).
std::array<Tensor, 3> head_views(const Projections& p, const BlockShape& shape) {
  const std::int64_t head_width = p.key_value.size(1) / (shape.first_token_only ? 2 : 3) / shape.heads;
  if (!shape.first_token_only) {
    const Tensor all = p.key_value.view({shape.batch, shape.tokens, 3, shape.heads, head_width}).permute({2, 0, 3, 1, 4});
    return {all.select(0, 0), all.select(0, 1), all.select(0, 2)};
  }
  const Tensor both = p.key_value.view({shape.batch, shape.tokens, 2, shape.heads, head_width}).permute({2, 0, 3, 1, 4});
  return {p.query.view({shape.batch, 1, shape.heads, head_width}).transpose(1, 2), both.select(0, 0), both.select(0, 1)};
}

/// The library's flash attention for long sequences; `second` of the result is the log-sum-exp.
std::pair<Tensor, Tensor> flash_forward(const BlockShape& shape, const Projections& p, std::int64_t width) {
  const auto [q, k, v] = head_views(p, shape);
  auto [out, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v);
  return {out.transpose(1, 2).contiguous().view({-1, width}), log_sum};
}

Projections flash_backward(const BlockShape& shape, const Projections& p, const Tensor& out, const Tensor& log_sum,
                           const Tensor& dout) {
  const auto [q, k, v] = head_views(p, shape);
  const auto heads = [&](const Tensor& x) { return x.view({shape.batch, q.size(2), shape.heads, q.size(3)}).transpose(1, 2); };
  const auto [dq, dk, dv] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(heads(dout), q, k, v, heads(out), log_sum, 0.0, false);
  Projections d;
  d.key_value = at::empty_like(p.key_value);
  d.query = shape.first_token_only ? at::empty_like(p.query) : d.key_value;
  const auto targets = head_views(d, shape);
  targets[0].copy_(dq);
  targets[1].copy_(dk);
  targets[2].copy_(dv);
  return d;
}

// ---- the block ----

bool own_attention(const BlockShape& shape) { return shape.tokens <= kOwnAttentionTokens; }

Tensor first_tokens(const Tensor& x, const BlockShape& shape) {
  return x.view({shape.batch, shape.tokens, x.size(1)}).select(1, 0).contiguous();
}

/// x @ weight^T, plus the bias where the library's attention needs it.
Tensor project(const Tensor& x, const Tensor& weight, const Tensor& bias, bool with_bias) {
  return with_bias ? at::addmm(bias, x, weight.t()) : at::mm(x, weight.t());
}

Projections project_qkv(const Tensor& normed, const BlockParameters& p, const BlockShape& shape) {
  const bool with_bias = !own_attention(shape);
  const std::int64_t width = normed.size(1);
  if (!shape.first_token_only) {
    const Tensor all = project(normed, p.qkv_weight, p.qkv_bias, with_bias);
    return {.query = all, .key_value = all};
  }
  return {
      .query = project(first_tokens(normed, shape), p.qkv_weight.narrow(0, 0, width), p.qkv_bias.narrow(0, 0, width), with_bias),
      .key_value = project(normed, p.qkv_weight.narrow(0, width, 2 * width), p.qkv_bias.narrow(0, width, 2 * width), with_bias)};
}

/// What the forward pass keeps for the backward pass.
struct BlockState {
  Tensor x, normed1, mean1, rstd1;
  Projections qkv;
  Tensor attended, attention_state;
  Tensor middle, normed2, mean2, rstd2;
  Tensor up, activated;
};

template <typename T>
Tensor block_forward(const Tensor& x, const BlockParameters& p, const BlockShape& shape, BlockState& state) {
  const std::int64_t width = x.size(1);
  state.x = x;
  const Normed first = add_norm<T>(x, {}, {}, p.norm1_weight, p.norm1_bias, shape.epsilon);
  state.normed1 = first.normed;
  state.mean1 = first.mean;
  state.rstd1 = first.rstd;
  state.qkv = project_qkv(first.normed, p, shape);
  std::tie(state.attended, state.attention_state) = own_attention(shape)
                                                        ? OwnAttention<T>(shape, width, state.qkv, p.qkv_bias).forward()
                                                        : flash_forward(shape, state.qkv, width);
  const Tensor residual = shape.first_token_only ? first_tokens(x, shape) : x;
  const Normed second =
      add_norm<T>(residual, at::mm(state.attended, p.out_weight.t()), p.out_bias, p.norm2_weight, p.norm2_bias, shape.epsilon);
  state.middle = second.sum;
  state.normed2 = second.normed;
  state.mean2 = second.mean;
  state.rstd2 = second.rstd;
  state.up = at::mm(second.normed, p.up_weight.t());
  state.activated = at::empty_like(state.up);
  const std::int64_t rows = state.up.size(0);
  const std::int64_t up_width = state.up.size(1);
  for_ranges(rows, [&](std::int64_t, std::int64_t begin, std::int64_t count) {
    kernels::table<T>().bias_gelu_forward(count, up_width, data<T>(state.up) + begin * up_width, data<T>(p.up_bias),
                                          data<T>(state.activated) + begin * up_width);
  });
  Tensor out = at::mm(state.activated, p.down_weight.t());
  for_ranges(rows, [&](std::int64_t, std::int64_t begin, std::int64_t count) {
    const std::int64_t at = begin * width;
    kernels::table<T>().add_bias(count, width, data<T>(state.middle) + at, data<T>(out) + at, data<T>(p.down_bias),
                                 data<T>(out) + at);
  });
  return out;
}

/// Gradient of the projections: weights, biases and their input.
template <typename T>
Tensor qkv_backward(const BlockState& s, const BlockParameters& p, const BlockShape& shape, const Projections& d,
                    BlockParameters& g) {
  if (!shape.first_token_only) {
    g.qkv_weight = at::mm(d.key_value.t(), s.normed1);
    g.qkv_bias = column_sum<T>(d.key_value);
    return at::mm(d.key_value, p.qkv_weight);
  }
  const std::int64_t width = s.normed1.size(1);
  g.qkv_weight = at::empty_like(p.qkv_weight);
  g.qkv_bias = at::empty_like(p.qkv_bias);
  Tensor query_weight = g.qkv_weight.narrow(0, 0, width);
  Tensor key_value_weight = g.qkv_weight.narrow(0, width, 2 * width);
  at::mm_out(query_weight, d.query.t(), first_tokens(s.normed1, shape));
  at::mm_out(key_value_weight, d.key_value.t(), s.normed1);
  g.qkv_bias.narrow(0, 0, width).copy_(column_sum<T>(d.query));
  g.qkv_bias.narrow(0, width, 2 * width).copy_(column_sum<T>(d.key_value));
  Tensor dnormed = at::mm(d.key_value, p.qkv_weight.narrow(0, width, 2 * width));
  dnormed.view({shape.batch, shape.tokens, width}).select(1, 0).add_(at::mm(d.query, p.qkv_weight.narrow(0, 0, width)));
  return dnormed;
}

template <typename T>
Tensor block_backward(const Tensor& dout, const BlockState& s, const BlockParameters& p, const BlockShape& shape,
                      BlockParameters& g) {
  const std::int64_t width = s.x.size(1);
  g.down_weight = at::mm(dout.t(), s.activated);
  g.down_bias = column_sum<T>(dout);
  const Tensor dup = at::mm(dout, p.down_weight);
  const std::int64_t up_width = dup.size(1);
  const PartialSums<T> dup_sum(dup.size(0), up_width, dup);
  for_ranges(dup.size(0), [&](std::int64_t range, std::int64_t begin, std::int64_t count) {
    kernels::table<T>().gelu_backward(count, up_width, data<T>(s.up) + begin * up_width, data<T>(dup) + begin * up_width,
                                      dup_sum.at(range));
  });
  g.up_bias = dup_sum.total();
  g.up_weight = at::mm(dup.t(), s.normed2);

  const NormGradient second = norm_backward<T>(at::mm(dup, p.up_weight), s.middle, s.mean2, s.rstd2, p.norm2_weight, dout, true);
  g.norm2_weight = second.dgamma;
  g.norm2_bias = second.dbeta;
  g.out_bias = second.dx_sum;
  g.out_weight = at::mm(second.dx.t(), s.attended);
  const Tensor dattended = at::mm(second.dx, p.out_weight);
  const Projections d = own_attention(shape)
                            ? OwnAttention<T>(shape, width, s.qkv, p.qkv_bias).backward(dattended, s.attention_state)
                            : flash_backward(shape, s.qkv, s.attended, s.attention_state, dattended);
  const Tensor dnormed = qkv_backward<T>(s, p, shape, d, g);
  NormGradient first =
      norm_backward<T>(dnormed, s.x, s.mean1, s.rstd1, p.norm1_weight, shape.first_token_only ? Tensor() : second.dx, false);
  g.norm1_weight = first.dgamma;
  g.norm1_bias = first.dbeta;
  if (shape.first_token_only) {
    first.dx.view({shape.batch, shape.tokens, width}).select(1, 0).add_(second.dx);
  }
  return first.dx;
}

struct BlockFunction : torch::autograd::Function<BlockFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& n1w, const Tensor& n1b, const Tensor& qw,
                        const Tensor& qb, const Tensor& ow, const Tensor& ob, const Tensor& n2w, const Tensor& n2b,
                        const Tensor& uw, const Tensor& ub, const Tensor& dw, const Tensor& db, const BlockShape& shape) {
    const BlockParameters p{n1w, n1b, qw, qb, ow, ob, n2w, n2b, uw, ub, dw, db};
    BlockState s;
    const Tensor out =
        x.scalar_type() == at::kDouble ? block_forward<double>(x, p, shape, s) : block_forward<float>(x, p, shape, s);
    context->save_for_backward({n1w,         n1b,
                                qw,          qb,
                                ow,          ob,
                                n2w,         n2b,
                                uw,          ub,
                                dw,          db,
                                s.x,         s.normed1,
                                s.mean1,     s.rstd1,
                                s.qkv.query, s.qkv.key_value,
                                s.attended,  s.attention_state,
                                s.middle,    s.normed2,
                                s.mean2,     s.rstd2,
                                s.up,        s.activated});
    context->saved_data["batch"] = shape.batch;
    context->saved_data["tokens"] = shape.tokens;
    context->saved_data["heads"] = shape.heads;
    context->saved_data["first_token_only"] = shape.first_token_only;
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto v = context->get_saved_variables();
    const BlockParameters p{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9], v[10], v[11]};
    const BlockState s{.x = v[12],
                       .normed1 = v[13],
                       .mean1 = v[14],
                       .rstd1 = v[15],
                       .qkv = {.query = v[16], .key_value = v[17]},
                       .attended = v[18],
                       .attention_state = v[19],
                       .middle = v[20],
                       .normed2 = v[21],
                       .mean2 = v[22],
                       .rstd2 = v[23],
                       .up = v[24],
                       .activated = v[25]};
    const BlockShape shape{.batch = context->saved_data["batch"].toInt(),
                           .tokens = context->saved_data["tokens"].toInt(),
                           .heads = context->saved_data["heads"].toInt(),
                           .epsilon = 0.0,
                           .first_token_only = context->saved_data["first_token_only"].toBool()};
    BlockParameters g;
    const Tensor dout = gradients[0].contiguous();
    const Tensor dx = s.x.scalar_type() == at::kDouble ? block_backward<double>(dout, s, p, shape, g)
                                                       : block_backward<float>(dout, s, p, shape, g);
    return {dx,           g.norm1_weight, g.norm1_bias, g.qkv_weight,  g.qkv_bias,  g.out_weight, g.out_bias, g.norm2_weight,
            g.norm2_bias, g.up_weight,    g.up_bias,    g.down_weight, g.down_bias, Tensor()};
  }
};

struct EmbedFunction : torch::autograd::Function<EmbedFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& pixels, const Tensor& weight, const Tensor& bias,
                        const Tensor& class_token, const Tensor& positions) {
    const std::int64_t batch = pixels.size(0);
    const std::int64_t channels = pixels.size(1);
    const std::int64_t width = weight.size(0);
    const std::int64_t patch = weight.size(2);
    const std::int64_t rows = pixels.size(2) / patch;
    const std::int64_t columns = pixels.size(3) / patch;
    const std::int64_t tokens = rows * columns + 1;
    const Tensor patches = pixels.view({batch, channels, rows, patch, columns, patch})
                               .permute({0, 2, 4, 1, 3, 5})
                               .contiguous()
                               .view({batch * rows * columns, channels * patch * patch});
    const Tensor projected = at::mm(patches, weight.view({width, -1}).t()).view({batch, rows * columns, width});
    Tensor out = at::empty({batch, tokens, width}, weight.options());
    Tensor body = out.narrow(1, 1, tokens - 1);
    at::add_out(body, projected, positions.narrow(1, 1, tokens - 1).add(bias));
    out.select(1, 0).copy_(class_token.add(positions.narrow(1, 0, 1)).view({1, width}).expand({batch, width}));
    context->save_for_backward({patches, weight});
    context->saved_data["tokens"] = tokens;
    return out.view({batch * tokens, width});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const std::int64_t tokens = context->saved_data["tokens"].toInt();
    const std::int64_t width = saved[1].size(0);
    const Tensor dout = gradients[0].contiguous().view({-1, tokens, width});
    const Tensor dpositions = dout.sum(at::IntArrayRef{0}, true);
    const Tensor dprojected = dout.narrow(1, 1, tokens - 1).contiguous().view({-1, width});
    const Tensor dweight = at::mm(dprojected.t(), saved[0]).view_as(saved[1]);
    const Tensor dbias = dpositions.narrow(1, 1, tokens - 1).sum(at::IntArrayRef{0, 1});
    return {Tensor(), dweight, dbias, dpositions.narrow(1, 0, 1).clone(), dpositions};
  }
};

}  // namespace

at::Tensor embed_patches(const at::Tensor& pixels, const at::Tensor& weight, const at::Tensor& bias,
                         const at::Tensor& class_token, const at::Tensor& positions) {
  return EmbedFunction::apply(pixels, weight, bias, class_token, positions);
}

at::Tensor encoder_block(const at::Tensor& tokens, const BlockParameters& p, const BlockShape& shape) {
  return BlockFunction::apply(tokens, p.norm1_weight, p.norm1_bias, p.qkv_weight, p.qkv_bias, p.out_weight, p.out_bias,
                              p.norm2_weight, p.norm2_bias, p.up_weight, p.up_bias, p.down_weight, p.down_bias, shape);
}

}  // namespace parascale::native
