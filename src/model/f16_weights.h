// SPDX-License-Identifier: Apache-2.0
// Rewrites a model's weights as F16 into a file without a name, for measuring what a cache loses.
//
// Products with quantised weights round the activations, too, so that a difference in the last bit
// of K or V grows to a mean KLD of .003 and hides what a page format loses. With F16 weights the
// same difference stays near 1e-6.
//
// Owner: whoever measures. The file is unlinked before a byte is written: its disk space comes back
// when this object and every mapping of it are gone, however the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/gguf_file.h"
#include "swiftkv/status.h"

namespace swiftkv {

// Returns whether every tensor is F32 or F16, so that there is nothing to rewrite. BF16 counts as
// rounding: its products round the activations to 8 bits of mantissa.
bool HasUnroundedWeights(const GgufFile& file);

// Returns the bytes of the model's file with F16 weights, at most.
std::uint64_t F16FileBytes(const GgufFile& file);

// Returns what an unprivileged user may still write into `folder`. Errors: NotFound.
Result<std::uint64_t> FreeBytesIn(const std::string& folder);

class F16Weights {
 public:
  // Writes the model of `file` into `folder`, about a second per 200 million weights. Errors:
  // NotFound where the folder takes no files; ResourceExhausted where it has no room; Internal with
  // the library's reason where it cannot convert a tensor.
  static Result<std::unique_ptr<F16Weights>> Write(const GgufFile& file, const std::string& folder,
                                                   int threads);
  ~F16Weights();
  F16Weights(const F16Weights&) = delete;
  F16Weights& operator=(const F16Weights&) = delete;

  // Opens the file, for this process and while this object lives.
  const std::string& path() const { return path_; }

 private:
  explicit F16Weights(int descriptor);

  int descriptor_;
  std::string path_;  // below /proc/self/fd
};

}  // namespace swiftkv
