// SPDX-License-Identifier: Apache-2.0
// Tests that the first Ctrl-C asks and the second one ends.
#include "tools/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>

namespace swiftkv {
namespace {

TEST(InterruptDeathTest, TheFirstSetsTheFlagAndTheSecondKills) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        std::raise(SIGINT);
        if (!Interrupted() || !InterruptFlag()->load()) _exit(3);
        std::raise(SIGINT);
        _exit(4);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(InterruptDeathTest, AClearedFlagStartsAnew) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        for (int i = 0; i < 3; ++i) {
          std::raise(SIGINT);
          ClearInterrupt();
        }
        _exit(Interrupted() ? 3 : 0);
      },
      testing::ExitedWithCode(0), "");
}

TEST(InterruptDeathTest, AnIgnoredSignalStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        InstallSignalHandlers();
        std::raise(SIGINT);
        _exit(Interrupted() ? 3 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace swiftkv
