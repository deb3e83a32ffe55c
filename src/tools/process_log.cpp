// SPDX-License-Identifier: Apache-2.0
// Configures spdlog's default logger.
#include "tools/process_log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace swiftkv {

void StartLog(bool verbose) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("swiftkv"));
  spdlog::set_pattern("[%H:%M:%S.%e] %v");
  spdlog::set_level(verbose ? spdlog::level::info : spdlog::level::off);
}

}  // namespace swiftkv
