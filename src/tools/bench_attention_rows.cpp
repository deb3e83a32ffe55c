// SPDX-License-Identifier: Apache-2.0
// Turns options into cases: the cross product of what applies to each phase.
#include "tools/bench_attention_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/status_macros.h"
#include "tools/bench_formats.h"
#include "tools/plan_options.h"

namespace swiftkv {
namespace {

constexpr int kPrefillQueries = 512;
constexpr int kMostLayers = 30;            // of a model as small as those that run on two cores
constexpr int kPrivateTokens = 64;         // that a sequence of a cascade has for itself
constexpr double kPrefillPassFlops = 4e9;  // enough to time

struct Heads {
  int head_dim;
  int kv_heads;
  int gqa;
};

// Heads of common models: SmolLM2 135M, Phi-3 mini, Gemma 3 270M; others as Llama 3 8B.
constexpr std::array<Heads, 3> kHeads = {{{64, 3, 3}, {96, 32, 1}, {256, 1, 4}}};

AttentionShape ShapeOf(int head_dim, int gqa) {
  Heads heads = {head_dim, 8, 4};
  for (const Heads& known : kHeads) {
    if (known.head_dim == head_dim) heads = known;
  }
  if (gqa != 0) heads.gqa = gqa;
  return {.num_heads = heads.kv_heads * heads.gqa,
          .num_kv_heads = heads.kv_heads,
          .head_dim = head_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim))};
}

// One instruction set, format and shape, for which phases add their cases.
struct Kernels {
  Isa isa = Isa::kPortable;
  BenchFormat format;
  AttentionShape shape;
};

AttentionCase CaseOf(BenchPhase phase, const Kernels& kernels) {
  AttentionCase made;
  made.phase = phase;
  made.isa = kernels.isa;
  made.format = kernels.format.name;
  made.pages.shape = kernels.shape;
  made.pages.format = kernels.format.format;
  return made;
}

// Chooses layers and turns so that a pass has at least `calls` calls.
void SetCalls(double calls, BenchPagesSpec* spec) {
  const int whole = std::max(1, static_cast<int>(std::ceil(calls)));
  spec->layers = std::min(whole, kMostLayers);
  spec->turns = (whole + spec->layers - 1) / spec->layers;
}

void ReadAtLeast(double bytes, BenchPagesSpec* spec) {
  spec->layers = 1;
  spec->turns = 1;
  SetCalls(bytes / static_cast<double>(WorkOf(*spec).distinct_bytes), spec);
}

struct DecodeSize {
  int context;
  int batch;
  double removed;
};

AttentionCase DecodeCase(const Kernels& kernels, const DecodeSize& size, double bytes) {
  AttentionCase made = CaseOf(BenchPhase::kDecode, kernels);
  made.pages.context = size.context;
  made.pages.batch = size.batch;
  made.private_pages = made.pages;
  made.pages.removed = size.removed;
  ReadAtLeast(bytes, &made.pages);
  ReadAtLeast(bytes, &made.private_pages);
  return made;
}

AttentionCase CascadeCase(const Kernels& kernels, int shared_tokens, int batch, double bytes) {
  AttentionCase made = CaseOf(BenchPhase::kCascade, kernels);
  BenchPagesSpec& spec = made.pages;
  spec.shared_tokens = (shared_tokens + kPageTokens - 1) / kPageTokens * kPageTokens;
  spec.context = spec.shared_tokens + kPrivateTokens;
  spec.batch = batch;
  made.private_pages = spec;
  made.private_pages.shared_tokens = 0;
  ReadAtLeast(bytes, &made.pages);
  ReadAtLeast(bytes, &made.private_pages);
  return made;
}

AttentionCase PrefillCase(const Kernels& kernels, int context, double bytes) {
  AttentionCase made = CaseOf(BenchPhase::kPrefill, kernels);
  made.pages.context = context;
  made.pages.queries = std::min(context, kPrefillQueries);
  const BenchWork once = WorkOf(made.pages);
  SetCalls(
      std::min(kPrefillPassFlops / once.flops, bytes / static_cast<double>(once.distinct_bytes)),
      &made.pages);
  return made;
}

Result<std::vector<Isa>> ListIsas(const std::string& wanted) {
  std::vector<Isa> isas;
  if (wanted == "auto") {
    // The system may refuse what the CPU has.
    isas.push_back(Isa::kPortable);
    for (const Isa isa : AllIsas()) {
      if (Runs(HostCpu(), isa) && MakeAttentionBackend("cpu", IsaName(isa)).ok()) isas[0] = isa;
    }
    return isas;
  }
  if (wanted != "all") {
    SKV_ASSIGN_OR_RETURN(const Isa isa, ParseIsa(wanted));
    isas.push_back(isa);
    return isas;
  }
  for (const Isa isa : AllIsas()) {
    if (Runs(HostCpu(), isa)) isas.push_back(isa);
  }
  return isas;
}

bool Wants(const NameList& phases, BenchPhase phase) {
  const auto& names = phases.names;
  return std::find(names.begin(), names.end(), BenchPhaseName(phase)) != names.end();
}

Status CheckPhases(const NameList& phases) {
  for (const std::string& name : phases.names) {
    if (name == "decode" || name == "cascade" || name == "prefill") continue;
    return Status::InvalidArgument("--phases accepts decode, cascade and prefill, not: " + name);
  }
  return Status::Ok();
}

bool SameKernels(const AttentionCase& a, const AttentionCase& b) {
  const AttentionShape& shape = a.pages.shape;
  const AttentionShape& other = b.pages.shape;
  return a.isa == b.isa && a.format == b.format && shape.head_dim == other.head_dim &&
         shape.num_heads == other.num_heads && shape.num_kv_heads == other.num_kv_heads;
}

// Returns the combinations that the kernels compute.
Result<std::vector<Kernels>> ListKernels(const BenchAttentionOptions& options) {
  SKV_ASSIGN_OR_RETURN(const std::vector<Isa> isas, ListIsas(options.isa));
  SKV_ASSIGN_OR_RETURN(const std::vector<BenchFormat> formats, ListBenchFormats(options.formats));
  const bool may_leave_out = TakesAllFormats(options.formats);
  std::vector<Kernels> kernels;
  for (const int head_dim : options.head_dims.values) {
    for (const int gqa : options.gqa.values) {
      for (const Isa isa : isas) {
        SKV_ASSIGN_OR_RETURN(const auto backend, MakeAttentionBackend("cpu", IsaName(isa)));
        for (const BenchFormat& format : formats) {
          const AttentionShape shape = ShapeOf(head_dim, gqa);
          const Status served = backend->Serves(shape, format.format);
          if (!served.ok() && !may_leave_out) return served;
          if (served.ok()) kernels.push_back({isa, format, shape});
        }
      }
    }
  }
  if (kernels.empty()) {
    return Status::Unsupported("no format is computed with head sizes " +
                               std::to_string(options.head_dims.values.front()));
  }
  return kernels;
}

}  // namespace

const char* BenchPhaseName(BenchPhase phase) {
  switch (phase) {
    case BenchPhase::kDecode:
      return "decode";
    case BenchPhase::kCascade:
      return "cascade";
    case BenchPhase::kPrefill:
      return "prefill";
  }
  return "unknown";
}

double GbPerSecond(const AttentionRow& row) {
  return static_cast<double>(WorkOf(row.what.pages).distinct_bytes) / row.us * 1e-3;
}

double GflopPerSecond(const AttentionRow& row) {
  return WorkOf(row.what.pages).flops / row.us * 1e-3;
}

Result<std::vector<AttentionCase>> ListAttentionCases(const BenchAttentionOptions& options) {
  SKV_RETURN_IF_ERROR(CheckPhases(options.phases));
  SKV_ASSIGN_OR_RETURN(const std::vector<Kernels> kernels, ListKernels(options));
  SKV_ASSIGN_OR_RETURN(const std::vector<double> ratios, ParseRatios(options.ratios));
  const double bytes = options.megabytes * 1e6;
  std::vector<AttentionCase> cases;
  if (Wants(options.phases, BenchPhase::kDecode)) {
    for (const int context : options.contexts.values) {
      for (const int batch : options.batches.values) {
        for (const Kernels& each : kernels) {
          for (const double removed : ratios) {
            cases.push_back(DecodeCase(each, {context, batch, removed}, bytes));
          }
        }
      }
    }
  }
  if (Wants(options.phases, BenchPhase::kCascade)) {
    for (const int batch : options.batches.values) {
      if (batch < 2) continue;  // nobody to share with
      for (const Kernels& each : kernels) {
        cases.push_back(CascadeCase(each, options.shared_tokens, batch, bytes));
      }
    }
  }
  if (Wants(options.phases, BenchPhase::kPrefill)) {
    for (const int context : options.prefill_contexts.values) {
      for (const Kernels& each : kernels) cases.push_back(PrefillCase(each, context, bytes));
    }
  }
  for (AttentionCase& each : cases) {
    each.pages.shuffled = options.shuffled;
    each.private_pages.shuffled = options.shuffled;
  }
  return cases;
}

void AddCascadeBounds(std::vector<AttentionRow>* rows) {
  for (AttentionRow& row : *rows) {
    if (row.what.phase != BenchPhase::kCascade || !row.stream_gb_s) continue;
    const AttentionRow* prefill = nullptr;  // of the longest context
    for (const AttentionRow& other : *rows) {
      if (other.what.phase != BenchPhase::kPrefill || !SameKernels(other.what, row.what)) continue;
      const bool longer =
          prefill == nullptr || other.what.pages.context > prefill->what.pages.context;
      if (longer) prefill = &other;
    }
    if (prefill == nullptr) continue;
    const BenchWork work = WorkOf(row.what.pages);
    const double reading = static_cast<double>(work.distinct_bytes) / *row.stream_gb_s * 1e-3;
    row.bound_us = std::max(reading, work.flops / GflopPerSecond(*prefill) * 1e-3);
    row.bound_ratio = row.us / *row.bound_us;
  }
}

}  // namespace swiftkv
