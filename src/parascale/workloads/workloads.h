#pragma once

#include "parascale/plan/capabilities.h"

namespace parascale::workloads {

/// The records of every workload by its canonical name, built or not. *thread-safe*
std::vector<plan::WorkloadRecord> workload_records();

/// Image classification with a Vision Transformer, weights and names as Hugging Face `ViTForImageClassification`.
plan::WorkloadRecord vit_classifier();

/// Reads the shape of a model directory's `config.json` and `preprocessor_config.json`, for inference on it.
/// Errors: workload_not_built when no built workload has this architecture, cross_field for a recipe that cannot be followed.
struct DirectoryModel {
  std::string workload;
  plan::WorkloadShape shape;
  Json recipe;                      ///< {size, mean, std}
  std::vector<std::string> labels;  ///< by class index
};
Result<DirectoryModel> read_model_directory(const Json& model, const Json& preprocessor);

}  // namespace parascale::workloads
