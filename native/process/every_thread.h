// Runs a function on every thread of this process. Some attributes of a Linux process belong to
// each thread: capabilities, no_new_privs, Landlock domains (before ABI 8). Threads inherit them
// from the one that creates them, but Node has several threads before it runs any script.
//
// A signal handler runs the function on each thread, as glibc does for setuid(). The signal is the
// one that glibc reserves for this (33): pthread_sigmask() never blocks it, so it reaches every
// thread. The list of threads is read again until all of them have run the function; a thread that
// appears later was created by one that has.
#pragma once

namespace svc::process {

// Runs `function(argument)` on every thread, the calling thread last. `function` must be
// async-signal-safe and returns 0 or an errno. Returns the first error; EAGAIN if a thread did not
// react within 5 s. Linux only; elsewhere returns ENOTSUP. One call at a time.
int RunOnEveryThread(int (*function)(void* argument), void* argument);

}  // namespace svc::process
