// SPDX-License-Identifier: Apache-2.0
// Runs a program as a user would: arguments, standard streams, signals, a terminal where asked.
//
// Owner: one test. A process that is still running when its object goes is killed.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace swiftkv {

enum class StreamKind {
  kPipe,      // captured
  kTerminal,  // all three standard streams are one pseudo-terminal; its output is `output`
};

struct ProcessSpec {
  std::vector<std::string> arguments;              // the program first
  std::map<std::string, std::string> environment;  // added to the test's own; empty value: removed
  std::string input;                               // written to standard input, which then ends
  bool keep_input_open = false;                    // input goes on: see Write and CloseInput
  bool close_output = false;                       // descriptor 1 is closed from the start
  StreamKind streams = StreamKind::kPipe;
  std::uint64_t address_space_bytes = 0;  // RLIMIT_AS; 0: as it is
};

struct ProcessOutcome {
  int exit_status = -1;  // -1 where a signal ended it
  int signal = 0;
  std::string output;
  std::string error;
};

class RunningProcess {
 public:
  explicit RunningProcess(const ProcessSpec& spec);
  ~RunningProcess();
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  void Write(const std::string& text);
  void CloseInput();
  // Stops reading standard output; the process finds its pipe broken.
  void CloseOutput();
  void Signal(int signal);

  // Reads until a stream holds at least `bytes`, or contains `text`. False where the stream
  // ends before.
  bool WaitForOutputBytes(std::size_t bytes);
  bool WaitForOutput(const std::string& text);
  bool WaitForError(const std::string& text);

  // Reads both streams to their ends and collects the process.
  ProcessOutcome Wait();

  const std::string& output() const { return output_; }
  int process_id() const { return process_; }

 private:
  void StartWithPipes(const ProcessSpec& spec);
  void StartOnTerminal(const ProcessSpec& spec);
  // Reads what comes next on either stream. False when both have ended.
  bool ReadMore();

  pid_t process_ = -1;
  int input_ = -1;
  int output_descriptor_ = -1;
  int error_descriptor_ = -1;
  std::string output_;
  std::string error_;
};

// Runs to the end.
ProcessOutcome RunProcess(const ProcessSpec& spec);

}  // namespace swiftkv
