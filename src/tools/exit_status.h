// SPDX-License-Identifier: Apache-2.0
// Names the exit statuses of every subcommand.
#pragma once

namespace swiftkv {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;        // it was tried and failed
inline constexpr int kExitUsage = 2;          // the command line cannot be carried out
inline constexpr int kExitInterrupted = 130;  // 128 + SIGINT, as shells say it

}  // namespace swiftkv
