// SPDX-License-Identifier: Apache-2.0
// Implements saving and loading of a thread's tile configuration.
#include "attention/kept_tiles.h"

#include "base/cpu_features.h"

namespace swiftkv {

#if defined(__x86_64__)

KeptTiles::KeptTiles() {
  if (HostCpu().amx_tile) __asm__ volatile("sttilecfg %0" : "=m"(before_));
}

KeptTiles::~KeptTiles() {
  if (!HostCpu().amx_tile) return;
  if (before_.palette == 0) {
    __asm__ volatile("tilerelease");
  } else {
    __asm__ volatile("ldtilecfg %0" : : "m"(before_));
  }
}

#else

KeptTiles::KeptTiles() = default;
KeptTiles::~KeptTiles() = default;

#endif

}  // namespace swiftkv
