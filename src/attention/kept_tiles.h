// SPDX-License-Identifier: Apache-2.0
// Keeps this thread's configuration of the AMX tile registers while a library uses them.
//
// ggml configures each thread once and relies on it from then on; other libraries configure for
// every product and release.
#pragma once

#include "attention/tile_configuration.h"

namespace swiftkv {

class KeptTiles {
 public:
  KeptTiles();
  ~KeptTiles();
  KeptTiles(const KeptTiles&) = delete;
  KeptTiles& operator=(const KeptTiles&) = delete;

 private:
  TileConfiguration before_{};
};

}  // namespace swiftkv
