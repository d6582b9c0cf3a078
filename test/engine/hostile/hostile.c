// Attacks that hostile code inside an engine could try. A test-only addon, compiled by its test.
//
// The attacks run on a thread that existed before the sandbox, on the JavaScript thread, and on a
// new thread. Each returns 0 if it succeeded, else errno.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// The part of Node-API that is needed here, so that no header has to be installed.
typedef struct env_* napi_env;
typedef struct value_* napi_value;
typedef struct info_* napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
int napi_create_function(napi_env, const char*, size_t, napi_callback, void*, napi_value*);
int napi_set_named_property(napi_env, napi_value, const char*, napi_value);
int napi_create_string_utf8(napi_env, const char*, size_t, napi_value*);
int napi_get_cb_info(napi_env, napi_callback_info, size_t*, napi_value*, napi_value*, void**);
int napi_get_value_string_utf8(napi_env, napi_value, char*, size_t, size_t*);
int napi_get_value_int32(napi_env, napi_value, int32_t*);

static char home[512];
static int daemon_pid;
static int tcp_port;
// Restricts the run to attacks that would neither end this process nor block the daemon.
static int harmless_only;

static int result(long value) { return value < 0 ? errno : 0; }

static const char* in_home(const char* name) {
  static __thread char path[1024];
  snprintf(path, sizeof(path), "%s/%s", home, name);
  return path;
}

static int open_file(const char* path, int flags) {
  const int file = open(path, flags, 0600);
  if (file >= 0) close(file);
  return result(file);
}

static int of_daemon(const char* name, int flags) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/%s", daemon_pid, name);
  return open_file(path, flags);
}

static int control_socket(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, in_home("run/svc.sock"), sizeof(address.sun_path) - 1);
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  if (file < 0) return errno;
  const int error = result(connect(file, (struct sockaddr*)&address, sizeof(address)));
  close(file);
  return error;
}

static int tcp(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)tcp_port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int file = socket(AF_INET, SOCK_STREAM, 0);
  if (file < 0) return errno;
  const int error = result(connect(file, (struct sockaddr*)&address, sizeof(address)));
  close(file);
  return error;
}

static int socket_of(int family, int type) {
  const int file = socket(family, type, 0);
  if (file >= 0) close(file);
  return result(file);
}
static int udp(void) { return socket_of(AF_INET, SOCK_DGRAM); }
static int netlink(void) { return socket_of(AF_NETLINK, SOCK_RAW); }
static int pair(void) {
  int files[2];
  return result(socketpair(AF_UNIX, SOCK_STREAM, 0, files));
}
static int pass_descriptor(void) {
  struct msghdr message = {0};
  return result(sendmsg(3, &message, 0));
}

static int read_credentials(void) { return open_file(in_home("data/credentials.json"), O_RDONLY); }
static int read_keys(void) { return open_file(in_home("config/keys.json"), O_RDONLY); }
static int read_note(void) { return open_file(in_home("note.txt"), O_RDONLY); }
static int list_home(void) { return open_file(in_home(""), O_RDONLY | O_DIRECTORY); }
static int read_passwd(void) { return open_file("/etc/passwd", O_RDONLY); }
static int write_note(void) { return open_file(in_home("note.txt"), O_WRONLY); }
static int create_file(void) { return open_file(in_home("made"), O_WRONLY | O_CREAT); }
static int create_in_tmp(void) { return open_file("/tmp", O_TMPFILE | O_WRONLY); }
static int truncate_note(void) { return result(truncate(in_home("note.txt"), 0)); }
static int make_folder(void) { return result(mkdir(in_home("made-folder"), 0700)); }
static int make_link(void) { return result(symlink("/etc/passwd", in_home("cache/prefixes/own/link"))); }
static int hard_link(void) {
  char from[1024];
  snprintf(from, sizeof(from), "%s", in_home("note.txt"));
  return result(link(from, in_home("cache/prefixes/own/hard")));
}
static int move_in(void) {
  char from[1024];
  snprintf(from, sizeof(from), "%s", in_home("data/credentials.json"));
  return result(rename(from, in_home("cache/prefixes/own/stolen")));
}
static int delete_note(void) { return result(unlink(in_home("note.txt"))); }
#define NEIGHBOUR "cache/prefixes/neighbour/saved.prefix"
static int read_neighbour(void) { return open_file(in_home(NEIGHBOUR), O_RDONLY); }
static int write_neighbour(void) { return open_file(in_home(NEIGHBOUR), O_WRONLY); }
static int list_neighbours(void) {
  return open_file(in_home("cache/prefixes"), O_RDONLY | O_DIRECTORY);
}
static int list_neighbour(void) {
  return open_file(in_home("cache/prefixes/neighbour"), O_RDONLY | O_DIRECTORY);
}
static int take_neighbour(void) {
  char from[1024];
  snprintf(from, sizeof(from), "%s", in_home(NEIGHBOUR));
  return result(rename(from, in_home("cache/prefixes/own/taken")));
}
static int delete_neighbour(void) { return result(unlink(in_home(NEIGHBOUR))); }
static int change_mode(void) { return result(chmod(in_home("note.txt"), 0777)); }
static int change_owner(void) { return result(chown(in_home("note.txt"), getuid(), getgid())); }
static int change_attribute(void) {
  return result(syscall(SYS_setxattr, in_home("note.txt"), "user.x", "y", 1, 0));
}
static int read_attribute(void) {
  return result(syscall(SYS_getxattr, in_home("note.txt"), "user.x", NULL, 0));
}
static int list_attributes(void) {
  return result(syscall(SYS_listxattr, in_home("note.txt"), NULL, 0));
}
static int change_times(void) { return result(utimensat(AT_FDCWD, in_home("note.txt"), NULL, 0)); }
// A filter that looks at the lower half of the path's address only takes it for none.
static int change_times_by_odd_path(void) {
  char* path = mmap((void*)(1L << 32), 4096, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (path == MAP_FAILED) return errno;
  strcpy(path, in_home("note.txt"));
  const long changed = syscall(SYS_utimensat, AT_FDCWD, path, NULL, 0);
  const int error = result(changed);
  munmap(path, 4096);
  return error;
}
// The binary is a file that an engine may read.
static int change_flags(void) {
  const int file = open("/proc/self/exe", O_RDONLY);
  if (file < 0) return errno;
  int flags = 0;
  const int error = result(ioctl(file, FS_IOC_SETFLAGS, &flags));
  close(file);
  return error;
}
static int lease_file(void) {
  const int file = open("/proc/self/exe", O_RDONLY);
  if (file < 0) return errno;
  const int error = result(fcntl(file, F_SETLEASE, F_RDLCK));
  close(file);
  return error;
}

static int run_program(void) {
  char* const none[] = {"/bin/true", NULL};
  return result(execve("/bin/true", none, none + 1));
}
static int wait_for(pid_t child) {
  if (child == 0) _exit(0);
  if (child > 0) waitpid(child, NULL, 0);
  return result(child);
}
static int fork_self(void) { return wait_for(fork()); }
static int clone_process(void) { return wait_for((pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }
static int clone3_process(void) {
  uint64_t arguments[8] = {0};
  arguments[4] = SIGCHLD;
  return wait_for((pid_t)syscall(435, arguments, sizeof(arguments)));
}

static int trace(void) { return result(ptrace(PTRACE_ATTACH, daemon_pid, 0, 0)); }
static int read_memory(void) {
  char byte;
  struct iovec here = {&byte, 1};
  struct iovec there = {(void*)0x400000, 1};
  return result(process_vm_readv(daemon_pid, &here, 1, &there, 1, 0));
}
static int signal_daemon(void) { return result(kill(daemon_pid, SIGCONT)); }
static int stop_daemon(void) { return result(kill(daemon_pid, SIGSTOP)); }
static int signal_everyone(void) { return result(kill(-1, 0)); }
static int signal_group(void) { return result(kill(0, 0)); }
static int signal_thread(void) {
  return result(syscall(SYS_tgkill, daemon_pid, daemon_pid, SIGCONT));
}
static int signal_any_thread(void) { return result(syscall(SYS_tkill, daemon_pid, SIGCONT)); }
static int queue_signal(void) {
  siginfo_t info = {.si_signo = SIGCONT, .si_code = SI_QUEUE};
  return result(syscall(SYS_rt_sigqueueinfo, daemon_pid, SIGCONT, &info));
}
static int open_process(void) { return result(syscall(434, daemon_pid, 0)); }
static int own_signals(void) {
  int files[2];
  if (pipe(files) != 0) return errno;
  const int error = result(fcntl(files[0], F_SETOWN, daemon_pid));
  close(files[0]);
  close(files[1]);
  return error;
}
// Descriptor 3 is the pipe to the daemon, a socket.
static int own_signals_of_socket(void) {
  return result(ioctl(3, 0x8901 /* FIOSETOWN */, &daemon_pid));
}
static int limit_daemon(void) {
  struct rlimit limit;
  return result(prlimit(daemon_pid, RLIMIT_NOFILE, NULL, &limit));
}
static int slow_daemon(void) { return result(setpriority(PRIO_PROCESS, (id_t)daemon_pid, 10)); }
static int idle_daemon(void) {
  struct sched_param none = {0};
  return result(sched_setscheduler(daemon_pid, SCHED_IDLE, &none));
}

static int see_environment(void) { return of_daemon("environ", O_RDONLY); }
static int see_memory(void) { return of_daemon("mem", O_RDWR); }
static int see_maps(void) { return of_daemon("maps", O_RDONLY); }
static int see_descriptors(void) { return of_daemon("fd", O_RDONLY | O_DIRECTORY); }
static int see_root(void) { return of_daemon("root/etc/passwd", O_RDONLY); }
static int see_status(void) { return of_daemon("status", O_RDONLY); }
static int see_init(void) { return open_file("/proc/1/environ", O_RDONLY); }
static int see_all_processes(void) { return open_file("/proc", O_RDONLY | O_DIRECTORY); }
static int see_physical_memory(void) { return open_file("/dev/mem", O_RDWR); }
static int see_kernel_log(void) { return open_file("/dev/kmsg", O_RDONLY); }
static int survive_oom(void) { return open_file("/proc/self/oom_score_adj", O_WRONLY); }
static int see_terminal(void) { return open_file("/dev/ptmx", O_RDWR); }
static int type_for_user(void) { return result(ioctl(1, TIOCSTI, "x")); }

static int use_io_uring(void) {
  char parameters[120] = {0};
  return result(syscall(425, 1, parameters));
}
static int use_bpf(void) { return result(syscall(SYS_bpf, 0, NULL, 0)); }
static int use_perf(void) { return result(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0)); }
static int use_userfaultfd(void) { return result(syscall(SYS_userfaultfd, 0)); }
static int use_keys(void) { return result(syscall(SYS_keyctl, 0, -3, 1, 0, 0)); }
static int use_shared_memory(void) { return result(syscall(SYS_shmget, 77, 4096, 01600)); }
static int use_queue(void) { return result(syscall(SYS_mq_open, "svc", O_CREAT | O_RDWR, 0600, NULL)); }
static int watch_files(void) { return result(syscall(SYS_inotify_init1, 0)); }
static int new_namespace(void) { return result(unshare(CLONE_NEWUSER)); }
static int namespace_thread(void) {
  return result(syscall(SYS_clone, CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWNET, 0, 0, 0, 0));
}
static int mount_here(void) { return result(syscall(SYS_mount, "none", home, "tmpfs", 0, NULL)); }
static int be_dumpable(void) { return result(prctl(PR_SET_DUMPABLE, 1)); }
static int unknown_call(void) { return result(syscall(499)); }
#ifdef __x86_64__
static int change_times_by_old_call(void) {
  return result(syscall(SYS_utimes, in_home("note.txt"), NULL));
}
static int x32_call(void) { return result(syscall(0x40000000 | SYS_getpid)); }
static __thread sigjmp_buf fault;
static void leave_fault(int number) { siglongjmp(fault, number); }
// A kernel that was built without calls of 32 bits sends SIGSEGV.
static int call_of_32_bits(void) {
  struct sigaction before;
  struct sigaction leave = {.sa_handler = leave_fault};
  sigaction(SIGSEGV, &leave, &before);
  volatile int error = ENOSYS;
  if (sigsetjmp(fault, 1) == 0) {
    long value = 20;  // getpid
    __asm__ volatile("int $0x80" : "+a"(value) : : "memory", "r8", "r9", "r10", "r11");
    error = value < 0 ? (int)-value : 0;
  }
  sigaction(SIGSEGV, &before, NULL);
  return error;
}
#endif
static int regain_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct all[2] = {{~0U, ~0U, 0}, {0x1ff, 0x1ff, 0}};
  return result(syscall(SYS_capset, &header, all));
}

enum { kSafe, kRough };
static const struct {
  const char* name;
  int (*make)(void);
  int kind;
} kAttacks[] = {
#define ATTACK(name, kind) {#name, name, kind}
    ATTACK(control_socket, kSafe), ATTACK(tcp, kSafe), ATTACK(udp, kSafe), ATTACK(netlink, kSafe),
    ATTACK(pair, kSafe), ATTACK(pass_descriptor, kRough), ATTACK(read_credentials, kSafe),
    ATTACK(read_keys, kSafe), ATTACK(read_note, kSafe), ATTACK(list_home, kSafe),
    ATTACK(read_passwd, kSafe), ATTACK(write_note, kSafe), ATTACK(create_file, kSafe),
    ATTACK(create_in_tmp, kSafe), ATTACK(truncate_note, kSafe), ATTACK(make_folder, kRough),
    ATTACK(make_link, kRough), ATTACK(hard_link, kRough), ATTACK(move_in, kRough),
    ATTACK(read_neighbour, kSafe), ATTACK(write_neighbour, kSafe), ATTACK(list_neighbours, kSafe),
    ATTACK(list_neighbour, kSafe), ATTACK(take_neighbour, kRough), ATTACK(delete_neighbour, kRough),
    ATTACK(delete_note, kRough), ATTACK(change_mode, kSafe), ATTACK(change_owner, kSafe),
    ATTACK(change_attribute, kRough), ATTACK(read_attribute, kRough),
    ATTACK(list_attributes, kRough), ATTACK(change_times, kSafe),
    ATTACK(change_times_by_odd_path, kSafe), ATTACK(change_flags, kRough),
    ATTACK(lease_file, kRough), ATTACK(own_signals_of_socket, kRough), ATTACK(run_program, kRough), ATTACK(fork_self, kSafe),
    ATTACK(clone_process, kSafe), ATTACK(clone3_process, kSafe), ATTACK(trace, kRough),
    ATTACK(read_memory, kRough), ATTACK(signal_daemon, kSafe), ATTACK(stop_daemon, kRough),
    ATTACK(signal_everyone, kSafe), ATTACK(signal_group, kSafe), ATTACK(signal_thread, kSafe),
    ATTACK(signal_any_thread, kSafe), ATTACK(queue_signal, kSafe), ATTACK(open_process, kSafe),
    ATTACK(own_signals, kSafe), ATTACK(limit_daemon, kSafe), ATTACK(slow_daemon, kRough),
    ATTACK(idle_daemon, kRough), ATTACK(see_environment, kRough), ATTACK(see_memory, kRough),
    ATTACK(see_maps, kRough), ATTACK(see_descriptors, kRough), ATTACK(see_root, kRough),
    ATTACK(see_status, kSafe), ATTACK(see_init, kRough), ATTACK(see_all_processes, kSafe),
    ATTACK(see_physical_memory, kRough), ATTACK(see_kernel_log, kRough),
    ATTACK(survive_oom, kRough), ATTACK(see_terminal, kSafe), ATTACK(type_for_user, kRough),
    ATTACK(use_io_uring, kRough), ATTACK(use_bpf, kRough), ATTACK(use_perf, kRough),
    ATTACK(use_userfaultfd, kRough), ATTACK(use_keys, kRough), ATTACK(use_shared_memory, kRough),
    ATTACK(use_queue, kRough), ATTACK(watch_files, kSafe), ATTACK(new_namespace, kRough),
    ATTACK(namespace_thread, kRough), ATTACK(mount_here, kRough), ATTACK(be_dumpable, kRough),
    ATTACK(unknown_call, kRough), ATTACK(regain_capabilities, kRough),
#ifdef __x86_64__
    ATTACK(change_times_by_old_call, kSafe), ATTACK(x32_call, kRough),
    ATTACK(call_of_32_bits, kRough),
#endif
};

static char report[64 * 1024];
static size_t reported;

static void attack(const char* thread) {
  for (size_t i = 0; i < sizeof(kAttacks) / sizeof(kAttacks[0]); ++i) {
    if (harmless_only && kAttacks[i].kind != kSafe) continue;
    errno = 0;
    const int error = kAttacks[i].make();
    const char* name = error == 0 ? "none" : strerrorname_np(error);
    reported += (size_t)snprintf(report + reported, sizeof(report) - reported, "%s %s %s\n", thread,
                                 kAttacks[i].name, name == NULL ? "unknown" : name);
  }
}

static sem_t begin;
static sem_t done;

static void* wait_and_attack(void* thread) {
  while (sem_wait(&begin) != 0);
  attack(thread);
  sem_post(&done);
  return NULL;
}

// attack(home, daemonPid, tcpPort, harmlessOnly): returns one line per thread and attack.
static napi_value run_attacks(napi_env env, napi_callback_info info) {
  napi_value arguments[4];
  size_t count = 4;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  napi_get_value_string_utf8(env, arguments[0], home, sizeof(home), &count);
  napi_get_value_int32(env, arguments[1], &daemon_pid);
  napi_get_value_int32(env, arguments[2], &tcp_port);
  napi_get_value_int32(env, arguments[3], &harmless_only);
  reported = 0;
  attack("script");
  sem_post(&begin);
  while (sem_wait(&done) != 0);
  pthread_t late;
  if (pthread_create(&late, NULL, wait_and_attack, "late") == 0) {
    sem_post(&begin);
    while (sem_wait(&done) != 0);
    pthread_join(late, NULL);
  }
  napi_value text;
  napi_create_string_utf8(env, report, reported, &text);
  return text;
}

__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env,
                                                                          napi_value exports) {
  sem_init(&begin, 0, 0);
  sem_init(&done, 0, 0);
  pthread_t early;
  pthread_create(&early, NULL, wait_and_attack, "early");
  pthread_detach(early);
  napi_value function;
  napi_create_function(env, "attack", 6, run_attacks, NULL, &function);
  napi_set_named_property(env, exports, "attack", function);
  return exports;
}
