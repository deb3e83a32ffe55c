// SPDX-License-Identifier: Apache-2.0
// Starts processes with fork and exec, and reads their streams with poll so that none blocks.
#include "support/process_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/check.h"

namespace swiftkv {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe MakePipe() {
  std::array<int, 2> ends = {};
  SKV_CHECK(pipe2(ends.data(), O_CLOEXEC) == 0, "tests can make pipes");
  return {ends[0], ends[1]};
}

void Close(int* descriptor) {
  if (*descriptor >= 0) close(*descriptor);
  *descriptor = -1;
}

// Becomes the program; runs in the child.
[[noreturn]] void Execute(const ProcessSpec& spec) {
  // Shells start background jobs with Ctrl-C ignored; children would inherit it.
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
  for (const auto& [name, value] : spec.environment) {
    value.empty() ? unsetenv(name.c_str()) : setenv(name.c_str(), value.c_str(), 1);
  }
  if (spec.address_space_bytes > 0) {
    const rlimit limit = {spec.address_space_bytes, spec.address_space_bytes};
    setrlimit(RLIMIT_AS, &limit);
  }
  std::vector<char*> arguments;
  for (const std::string& argument : spec.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execv(arguments.front(), arguments.data());
  _exit(127);
}

// Appends what can be read now. False at the end.
bool ReadSome(int descriptor, std::string* text) {
  std::array<char, 65536> bytes;
  const ssize_t got = read(descriptor, bytes.data(), bytes.size());
  if (got > 0) text->append(bytes.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

}  // namespace

RunningProcess::RunningProcess(const ProcessSpec& spec) {
  std::signal(SIGPIPE, SIG_IGN);
  spec.streams == StreamKind::kTerminal ? StartOnTerminal(spec) : StartWithPipes(spec);
  Write(spec.input);
  if (!spec.keep_input_open && spec.streams == StreamKind::kPipe) CloseInput();
}

void RunningProcess::StartWithPipes(const ProcessSpec& spec) {
  Pipe input = MakePipe();
  Pipe output = MakePipe();
  Pipe error = MakePipe();
  process_ = fork();
  SKV_CHECK(process_ >= 0, "tests can start processes");
  if (process_ == 0) {
    dup2(input.read, STDIN_FILENO);
    spec.close_output ? close(STDOUT_FILENO) : dup2(output.write, STDOUT_FILENO);
    dup2(error.write, STDERR_FILENO);
    Execute(spec);
  }
  Close(&input.read);
  Close(&output.write);
  Close(&error.write);
  input_ = input.write;
  output_descriptor_ = output.read;
  error_descriptor_ = error.read;
}

void RunningProcess::StartOnTerminal(const ProcessSpec& spec) {
  int terminal = -1;
  process_ = forkpty(&terminal, nullptr, nullptr, nullptr);
  SKV_CHECK(process_ >= 0, "tests can open terminals");
  if (process_ == 0) {
    Execute(spec);
  }
  input_ = fcntl(terminal, F_DUPFD_CLOEXEC, 0);
  output_descriptor_ = terminal;
}

RunningProcess::~RunningProcess() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Close(&input_);
  Close(&output_descriptor_);
  Close(&error_descriptor_);
}

void RunningProcess::Write(const std::string& text) {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t wrote = write(input_, text.data() + written, text.size() - written);
    if (wrote < 0 && errno != EINTR) return;  // the process does not read its input
    if (wrote > 0) written += static_cast<std::size_t>(wrote);
  }
}

void RunningProcess::CloseInput() { Close(&input_); }
void RunningProcess::CloseOutput() { Close(&output_descriptor_); }
void RunningProcess::Signal(int signal) { kill(process_, signal); }

bool RunningProcess::ReadMore() {
  std::array<pollfd, 2> streams = {
      {{output_descriptor_, POLLIN, 0}, {error_descriptor_, POLLIN, 0}}};
  if (output_descriptor_ < 0 && error_descriptor_ < 0) return false;
  if (poll(streams.data(), streams.size(), -1) < 0) return errno == EINTR;
  if (streams[0].revents != 0 && !ReadSome(output_descriptor_, &output_)) {
    Close(&output_descriptor_);
  }
  if (streams[1].revents != 0 && !ReadSome(error_descriptor_, &error_)) Close(&error_descriptor_);
  return true;
}

bool RunningProcess::WaitForOutputBytes(std::size_t bytes) {
  while (output_.size() < bytes) {
    if (output_descriptor_ < 0 || !ReadMore()) return false;
  }
  return true;
}

bool RunningProcess::WaitForOutput(const std::string& text) {
  while (output_.find(text) == std::string::npos) {
    if (output_descriptor_ < 0 || !ReadMore()) return false;
  }
  return true;
}

bool RunningProcess::WaitForError(const std::string& text) {
  while (error_.find(text) == std::string::npos) {
    if (error_descriptor_ < 0 || !ReadMore()) return false;
  }
  return true;
}

ProcessOutcome RunningProcess::Wait() {
  while (ReadMore()) continue;
  int state = 0;
  while (waitpid(process_, &state, 0) < 0 && errno == EINTR) continue;
  process_ = -1;
  ProcessOutcome outcome{.output = output_, .error = error_};
  if (WIFEXITED(state)) outcome.exit_status = WEXITSTATUS(state);
  if (WIFSIGNALED(state)) outcome.signal = WTERMSIG(state);
  return outcome;
}

ProcessOutcome RunProcess(const ProcessSpec& spec) { return RunningProcess(spec).Wait(); }

}  // namespace swiftkv
