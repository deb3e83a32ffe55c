// SPDX-License-Identifier: Apache-2.0
// Handles SIGINT with an atomic flag, all that a signal handler may safely do.
#include "tools/interrupt.h"

#include <csignal>

namespace swiftkv {
namespace {

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void HandleInterrupt(int signal) {
  if (!interrupted.exchange(true, std::memory_order_relaxed)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void InstallSignalHandlers() {
  struct sigaction action = {};
  action.sa_handler = HandleInterrupt;
  sigemptyset(&action.sa_mask);
  // A shell that starts a job in the background ignores SIGINT for it; that stays so.
  struct sigaction inherited = {};
  sigaction(SIGINT, nullptr, &inherited);
  if (inherited.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void AlsoHandleTermination() {
  struct sigaction action = {};
  action.sa_handler = HandleInterrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
}

const std::atomic<bool>* InterruptFlag() { return &interrupted; }
bool Interrupted() { return interrupted.load(std::memory_order_relaxed); }
void ClearInterrupt() { interrupted.store(false, std::memory_order_relaxed); }

}  // namespace swiftkv
