// SPDX-License-Identifier: Apache-2.0
// Tests how the program tells its threads to wait for one another.
#include <fstream>
#include <iterator>

#include "scenarios/serve_scenario.h"

namespace swiftkv {
namespace {

using testing::HasSubstr;
using testing::Not;

class WaitingThreadsScenario : public RunScenario {
 protected:
  // The environment of a server that was started with these two, empty: not set.
  std::string EnvironmentOf(const std::string& spins, const std::string& policy) {
    ProcessSpec spec = Spec({});
    spec.arguments = {SwiftkvProgram(), "serve", "--port", "0", "--json", "--linear", "ggml"};
    spec.environment["GOMP_SPINCOUNT"] = spins;
    spec.environment["OMP_WAIT_POLICY"] = policy;
    RunningProcess server(spec);
    EXPECT_TRUE(server.WaitForOutput("\n"));
    std::ifstream file("/proc/" + std::to_string(server.process_id()) + "/environ");
    std::string environment{std::istreambuf_iterator<char>(file), {}};
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait().exit_status, 0);
    return environment;
  }
};

TEST_F(WaitingThreadsScenario, TheySleepSoonUnlessTheEnvironmentSaysHowTheyWait) {
  EXPECT_THAT(EnvironmentOf("", ""), HasSubstr("GOMP_SPINCOUNT=1000"));
  EXPECT_THAT(EnvironmentOf("7", ""), HasSubstr("GOMP_SPINCOUNT=7"));
  EXPECT_THAT(EnvironmentOf("", "passive"), Not(HasSubstr("GOMP_SPINCOUNT")));
}

}  // namespace
}  // namespace swiftkv
