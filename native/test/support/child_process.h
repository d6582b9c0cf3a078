// A child process for code that may end its process, or that changes it for good.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "test.h"

namespace svc::test {

// Calls `body` in a child process, which then ends without calling destructors. Returns how the
// child ended: empty if it ended by itself and no expectation failed in it.
template <typename Body>
std::string EndOfChild(Body body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    Failures() = 0;
    body();
    std::fflush(stdout);
    _exit(Failures() == 0 ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no child process";
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "exit " + std::to_string(WEXITSTATUS(status));
}

}  // namespace svc::test
