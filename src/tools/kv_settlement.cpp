// SPDX-License-Identifier: Apache-2.0
// Connects the choice of a format with this user's store, terminal and interrupts.
#include "tools/kv_settlement.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>

#include "base/status_macros.h"
#include "tools/interrupt.h"
#include "tools/model_path.h"
#include "tools/printable_text.h"
#include "tools/progress_line.h"

namespace swiftkv {

Result<KvChoice> SettleKvFormat(const char* command, bool show_progress, RunOptions* options) {
  SKV_ASSIGN_OR_RETURN(options->model.path,
                       ResolveModelPath(options->model.path, ProcessEnvironment()));
  const CalibrationStore store = ProcessCalibrationStore();
  KvChoiceTask task;
  task.model = options->model;
  task.cache = options->cache;
  task.store = &store;
  task.temporary_folder = TemporaryFolder(ProcessEnvironment());
  task.tell = [command](const std::string& sentence) {
    fmt::print(stderr, "swiftkv {}: {}\n", command, PrintableLine(sentence));
  };
  task.measure = [show_progress](const MeasurementTask& measurement) {
    ProgressLine progress("calibrating", show_progress);
    const auto on_stage = [&progress](const char* stage, double done) {
      progress.Update(done, stage);
      return !Interrupted();
    };
    return MeasureQuality(measurement, on_stage, InterruptFlag());
  };
  SKV_ASSIGN_OR_RETURN(KvChoice choice, ChooseKvFormat(task));
  Apply(choice, &options->cache);
  return choice;
}

}  // namespace swiftkv
