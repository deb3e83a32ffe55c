// SPDX-License-Identifier: Apache-2.0
// Lists damaged and hostile GGUF files, each an honest one with a single thing changed.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "support/raw_gguf.h"
#include "support/tiny_model.h"

namespace swiftkv {

enum class HostileVerdict {
  kMustFail,  // loading returns an error
  kMayLoad,  // an odd file that the format allows: an error, or a model that computes finite logits
};

struct HostileGguf {
  std::string name;   // fit for a test's name
  std::string bytes;  // the whole file
  HostileVerdict verdict = HostileVerdict::kMustFail;
  std::string
      names;  // what the error must name: a key, a tensor or a value; empty where nothing fits
};

// Prints the name, so that a failing case is told by it.
std::ostream& operator<<(std::ostream& stream, const HostileGguf& file);

// The honest models that the files are made from: a llama of one layer, without text and with a BPE
// vocabulary. libllama loads both.
TinyModel HonestModel();
TinyModel HonestModelWithText();

// Returns every case, with distinct names.
const std::vector<HostileGguf>& HostileGgufs();

// The parts of the table, one per concern.
std::vector<HostileGguf> HostileHeaders();       // magic, version, counts, lengths
std::vector<HostileGguf> HostileKeys();          // keys and values that no reader should trust
std::vector<HostileGguf> HostileAlignments();    // general.alignment
std::vector<HostileGguf> HostileShapes();        // model metadata that is missing or senseless
std::vector<HostileGguf> HostileVocabularies();  // tokenizer metadata
std::vector<HostileGguf> HostileTensors();       // names, extents, types, offsets
std::vector<HostileGguf> TruncatedGgufs();       // cut short

}  // namespace swiftkv
