// SPDX-License-Identifier: Apache-2.0
// Declares the three phases of the cpu backend. Each is called once by every thread of a team, with
// a barrier between the phases.
#pragma once

#include "attention/kernels.h"
#include "attention/work_plan.h"
#include "swiftkv/attention.h"

namespace swiftkv {

// Computes the plan's items that WorkPlan::ItemOf gives the thread. Writes out and lse of tiles
// with one chunk, and the partial results of the others.
void RunPartial(const AttentionKernels& kernels, const AttentionBatch& batch, const WorkPlan& plan,
                const AttentionTeam& team);

// Combines partial results in the order of chunks and writes out and lse.
void RunMerge(const AttentionBatch& batch, const WorkPlan& plan, const AttentionTeam& team);

// Adds up the probabilities that slots got. A slot of a kv head belongs to one thread.
void RunScore(const AttentionKernels& kernels, const AttentionBatch& batch, const WorkPlan& plan,
              const AttentionTeam& team);

}  // namespace swiftkv
