// SPDX-License-Identifier: Apache-2.0
// Checks what the kernels serve and hands the phases of a batch to the threads of a team.
#include "attention/cpu_backend.h"

#include <string>

#include "attention/phases.h"
#include "attention/shape_check.h"
#include "attention/tile_kernels.h"
#include "attention/tile_permission.h"
#include "attention/work_plan.h"
#include "base/cpu_features.h"
#include "base/status_macros.h"

namespace swiftkv {
namespace {

const AttentionKernels* KernelsFor(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return PortableKernels();
    case Isa::kAvx2:
      return Avx2Kernels();
    case Isa::kAvx512:
      return Avx512Kernels();
    case Isa::kAvx512Vnni:
      return Avx512VnniKernels();
    case Isa::kAvx512Fp16:
      return Avx512Fp16Kernels();
    case Isa::kAmx:
      return AmxKernels();
  }
  return nullptr;
}

// What a machine with tiles computes with where the kernel keeps them from the process.
Isa LargestWithoutTiles() {
  return Runs(HostCpu(), Isa::kAvx512Fp16) ? Isa::kAvx512Fp16 : Isa::kAvx512Vnni;
}

const WorkPlan& AsWorkPlan(const AttentionPlan& plan) { return static_cast<const WorkPlan&>(plan); }

}  // namespace

Status CpuBackend::Serves(const AttentionShape& shape, const PageFormat& format) const {
  SKV_RETURN_IF_ERROR(CheckShape(shape));
  if (shape.head_dim % kPageTokens != 0 || shape.head_dim > kMaxHeadDim) {
    return Status::Unsupported("the cpu backend serves head sizes that are multiples of 16 up to " +
                               std::to_string(kMaxHeadDim) + ", not " +
                               std::to_string(shape.head_dim));
  }
  const int group = shape.num_heads / shape.num_kv_heads;
  if (group > kMaxGroup) {
    return Status::Unsupported("the cpu backend serves up to " + std::to_string(kMaxGroup) +
                               " query heads per kv head, not " + std::to_string(group));
  }
  for (const PageCodec* codec : {format.key, format.value}) {
    if (static_cast<int>(codec->info().id) >= kNumKernelFormats) {
      return Status::Unsupported(std::string("the cpu backend has no kernels for pages of ") +
                                 codec->info().name);
    }
  }
  return Status::Ok();
}

std::unique_ptr<AttentionPlan> CpuBackend::Plan(const AttentionBatch& batch) const {
  return std::make_unique<WorkPlan>(batch);
}

void CpuBackend::Partial(const AttentionBatch& batch, const AttentionPlan& plan,
                         const AttentionTeam& team) const {
  RunPartial(kernels_, batch, AsWorkPlan(plan), team);
}

void CpuBackend::Merge(const AttentionBatch& batch, const AttentionPlan& plan,
                       const AttentionTeam& team) const {
  RunMerge(batch, AsWorkPlan(plan), team);
}

void CpuBackend::Score(const AttentionBatch& batch, const AttentionPlan& plan,
                       const AttentionTeam& team) const {
  if (batch.sink != nullptr) RunScore(kernels_, batch, AsWorkPlan(plan), team);
}

Result<std::unique_ptr<AttentionBackend>> MakeCpuBackend(std::string_view isa) {
  SKV_ASSIGN_OR_RETURN(Isa parsed, ParseIsa(isa));
  if (parsed == Isa::kAmx) {
    const Status permission = RequestTilePermission();
    if (!permission.ok() && isa != "auto") return permission;
    if (!permission.ok()) parsed = LargestWithoutTiles();
  }
  const AttentionKernels* kernels = KernelsFor(parsed);
  if (kernels == nullptr) {
    return Status::Unsupported(std::string("this build has no kernels for the instruction set ") +
                               IsaName(parsed));
  }
  return std::unique_ptr<AttentionBackend>(std::make_unique<CpuBackend>(*kernels));
}

}  // namespace swiftkv
