#include "parascale/config/settings_table.h"

namespace parascale::config {

namespace {

constexpr const char* kNodes = "several processes and nodes come with the back end `native_ddp`";
constexpr const char* kNotRead = "nothing reads it yet; the planner measures the machine and counts the model itself";

Setting free_form(std::string path, std::string doc, Status status, std::string why) {
  return {.path = std::move(path), .shape = Shape::any, .doc = std::move(doc), .status = status, .why = std::move(why)};
}

}  // namespace

std::vector<Setting> runtime_settings() {
  return {
      {.path = "runtime.device",
       .member = PS_MEMBER(runtime.device),
       .fallback = "auto",
       .choices = {{"auto"}, {"cpu"}, {"cuda", {"gpu"}}, {"npu", {"ascend"}}},
       .doc = "Device to train on; the plan says whether it is there",
       .aliases = {"runtime.accelerator"}},
      {.path = "runtime.worker",
       .member = PS_MEMBER(runtime.worker),
       .fallback = "auto",
       .choices = {{"auto"}, {"cpp"}, {"python"}, {"fake"}},
       .doc = "Program that runs a rank; `fake` computes nothing and is labelled so"},
      {.path = "runtime.run_dir",
       .member = PS_MEMBER(runtime.run_dir),
       .fallback = "",
       .doc = "Run directory; empty = `runs/<config file stem with - for _>`"},
      {.path = "runtime.intra_op_threads",
       .member = PS_MEMBER(runtime.intra_op_threads),
       .bounds = between(1, 1024),
       .doc = "Compute threads per rank; unset = the planner decides"},
      {.path = "runtime.hang_deadline_seconds",
       .member = PS_MEMBER(runtime.hang_deadline_seconds),
       .fallback = 300,
       .bounds = between(1, 86'400),
       .doc = "A rank without progress for so long ends the run"},
      {.path = "runtime.slots",
       .member = PS_MEMBER(runtime.slots),
       .fallback = 4,
       .bounds = between(1, 64),
       .doc = "Batch slots of the ring: how far the data engine reads ahead"},
      {.path = "runtime.local_rank",
       .shape = Shape::integer,
       .doc = "Rank on this node",
       .status = Status::dead,
       .why = "the agent numbers its ranks itself"},
      {.path = "runtime.communication_backend",
       .shape = Shape::choice,
       .fallback = "auto",
       .choices = {{"auto"}, {"gloo"}, {"nccl"}, {"hccl"}},
       .doc = "Library for collectives between ranks",
       .status = Status::not_built,
       .why = kNodes,
       .fine_with_backends = {"native_ddp", "fsdp", "deepspeed", "ascend_native"}},
  };
}

std::vector<Setting> planner_input_settings() {
  const std::vector<std::string> distributed = {"native_ddp", "fsdp", "deepspeed", "ascend_native", "auto"};
  return {
      {.path = "distributed.nnodes",
       .shape = Shape::integer,
       .fallback = 1,
       .bounds = at_least(1),
       .doc = "Number of nodes",
       .status = Status::not_built,
       .why = kNodes,
       .fine_with_backends = distributed},
      {.path = "distributed.nproc_per_node",
       .shape = Shape::integer,
       .fallback = 1,
       .bounds = at_least(1),
       .doc = "Ranks per node",
       .status = Status::not_built,
       .why = kNodes,
       .fine_with_backends = distributed},
      free_form("distributed.master_addr", "Address of node 0", Status::dead, "a run on one node needs no address"),
      free_form("distributed.master_port", "Port of node 0", Status::dead, "a run on one node needs no port"),
      free_form("cluster", "Nodes of a cluster", Status::not_built, kNodes),
      free_form("launch", "How ranks are started on several nodes", Status::not_built, kNodes),
      free_form("task", "Modalities and prompts of a task", Status::dead, "it comes with the workloads for text and image pairs"),
      free_form("lora", "Adapters", Status::not_built, "adapters come with the workload `vlm_lora`"),
      free_form("model_profile", "Size of the model, for the planner", Status::dead, kNotRead),
      free_form("hardware_profile", "Size of the machine, for the planner", Status::dead, kNotRead),
      free_form("runtime_profile", "Measurements for the tuner", Status::dead, "the tuner is not built yet"),
      free_form("benchmark_profile", "Measurements for the tuner", Status::dead, "the tuner is not built yet"),
      free_form("benchmark_profile_path", "Measurements for the tuner", Status::dead, "the tuner is not built yet"),
      free_form("benchmark_result_path", "Measurements for the tuner", Status::dead, "the tuner is not built yet"),
      free_form("serving", "What `serve` does", Status::dead, "only `parascale serve` will read it, which is not built yet"),
      free_form("inference", "What `infer` does", Status::dead, "`parascale infer` takes its options on the command line"),
      free_form("_resolution", "Overrides recorded by the original", Status::not_built,
                "overrides are given on the command line: `--set path=value`"),
  };
}

}  // namespace parascale::config
