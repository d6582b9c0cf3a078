/*
 * Makes the system calls on files of a directory fail, as those on a failing disk do (EIO). Loaded into the daemon with
 * LD_PRELOAD. The file that $SVC_CHAOS_FAILING names holds the path of the directory; while it does not exist, all
 * calls succeed.
 */
#define _GNU_SOURCE
/* open64 and syscall are declared with other parameters. */
#define open64 declared_open64
#define syscall declared_syscall
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>
#undef open64
#undef syscall

static int is_below(const char *path, const char *directory, size_t length) {
  return strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* Returns 1 and sets errno if calls on this path fail now. */
static int fails(const char *path) {
  const char *control = getenv("SVC_CHAOS_FAILING");
  if (control == NULL || path == NULL) return 0;
  const int before = errno;
  char directory[PATH_MAX];
  FILE *file = fopen(control, "re");
  size_t length = 0;
  if (file != NULL) {
    length = fread(directory, 1, sizeof directory, file);
    fclose(file);
  }
  errno = before;
  if (length == 0 || !is_below(path, directory, length)) return 0;
  errno = EIO;
  return 1;
}

static int fd_fails(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const int before = errno;
  ssize_t length = readlink(link, path, sizeof path - 1);
  errno = before;
  if (length <= 0) return 0;
  path[length] = '\0';
  return fails(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ON_PATH(type, failure, name, parameters, arguments) \
  type name parameters { return fails(path) ? failure : REAL(name) arguments; }
#define ON_FILE(type, name, parameters, arguments) \
  type name parameters { return fd_fails(fd) ? -1 : REAL(name) arguments; }

/* What Node imports. */
ON_PATH(int, -1, open64, (const char *path, int flags, mode_t mode), (path, flags, mode))
ON_PATH(int, -1, access, (const char *path, int mode), (path, mode))
ON_PATH(int, -1, rename, (const char *path, const char *to), (path, to))
ON_PATH(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, -1, unlink, (const char *path), (path))
ON_PATH(int, -1, statfs64, (const char *path, struct statfs64 *to), (path, to))
ON_PATH(int, -1, scandir64,
        (const char *path, struct dirent64 ***to, int (*wanted)(const struct dirent64 *),
         int (*order)(const struct dirent64 **, const struct dirent64 **)),
        (path, to, wanted, order))
ON_FILE(ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
ON_FILE(ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))
ON_FILE(ssize_t, readv, (int fd, const struct iovec *to, int count), (fd, to, count))
ON_FILE(ssize_t, writev, (int fd, const struct iovec *from, int count), (fd, from, count))
ON_FILE(ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
ON_FILE(ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at), (fd, from, size, at))
ON_FILE(int, fsync, (int fd), (fd))
ON_FILE(int, fdatasync, (int fd), (fd))

/* Node calls statx as syscall(SYS_statx, directory, path, ...); without a path it asks about an open file. */
long syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_statx && b != 0) {
    const char *path = (const char *)b;
    if (*path == '\0' ? fd_fails((int)a) : fails(path)) return -1;
  }
  return REAL(syscall)(number, a, b, c, d, e, f);
}
