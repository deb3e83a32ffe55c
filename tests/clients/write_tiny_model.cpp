// SPDX-License-Identifier: Apache-2.0
// Writes the chat model with random weights that tests/clients serves: write_tiny_model FOLDER
//
// Prints the path of the file. The same bytes on every machine, so that replies can be compared.
#include <cstdio>
#include <string>

#include "support/tiny_gguf.h"
#include "support/tiny_model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_tiny_model FOLDER\n");
    return 2;
  }
  swiftkv::TinyModel model;
  model.name = "tiny";
  model.shape.layers = 2;
  model.shape.context = 1 << 17;
  model.tokenizer = swiftkv::TinyChatTokenizer(swiftkv::TinyVocabularyKind::kBpe);
  const swiftkv::Result<std::string> path = swiftkv::WriteTinyGguf(model, argv[1]);
  if (!path.ok()) {
    std::fprintf(stderr, "write_tiny_model: %s\n", path.status().message().c_str());
    return 1;
  }
  std::printf("%s\n", path->c_str());
  return 0;
}
