// Short reads, interrupted reads, full disks, removals that fail and read-only directories, for the files below a
// directory. Loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static _Atomic uint64_t drawn;
static _Atomic int64_t room;
static uint64_t odd_percent, interrupted_percent, stuck_percent;
static int stuck_error, sealed_error, is_hidden;
static const char *files, *disk, *stuck, *sealed;
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_mkdir)(const char *, mode_t);
static int (*real_unlink)(const char *);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_rmdir)(const char *);
static int (*real_rename)(const char *, const char *);
static int (*real_futimens)(int, const struct timespec[2]);
static DIR *(*real_opendir)(const char *);

static uint64_t number(const char *name) {
    const char *value = getenv(name);
    return value ? strtoull(value, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
    real_read = dlsym(RTLD_NEXT, "read");
    real_pread = dlsym(RTLD_NEXT, "pread64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_open = dlsym(RTLD_NEXT, "open64");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_unlinkat = dlsym(RTLD_NEXT, "unlinkat");
    real_rmdir = dlsym(RTLD_NEXT, "rmdir");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_futimens = dlsym(RTLD_NEXT, "futimens");
    real_opendir = dlsym(RTLD_NEXT, "opendir");
    drawn = number("SHIM_SEED");
    odd_percent = number("SHIM_SHORT");
    interrupted_percent = number("SHIM_INTERRUPTED");
    room = (int64_t)number("SHIM_ROOM");
    stuck_percent = number("SHIM_STUCK_PERCENT");
    stuck_error = (int)number("SHIM_STUCK_ERROR");
    sealed_error = (int)number("SHIM_SEALED_ERROR");
    is_hidden = (int)number("SHIM_HIDDEN");
    stuck = getenv("SHIM_STUCK");
    sealed = getenv("SHIM_SEALED");
    disk = getenv("SHIM_DISK");
    files = getenv("SHIM_FILES");
}

static uint64_t draw(void) {
    uint64_t z = atomic_fetch_add(&drawn, 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static int is_in(const char *path, const char *directory) {
    size_t prefix = strlen(directory);
    return !strncmp(path, directory, prefix) && path[prefix] == '/';
}

// The path of an open file, or an empty one.
static void path_of(int fd, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

static int is_below(int fd, const char *directory) {
    char path[PATH_MAX];
    if (!directory) return 0;
    path_of(fd, path);
    return is_in(path, directory);
}

// How much of `count` bytes is read now; 0 if the read is interrupted.
static size_t read_now(int fd, size_t count) {
    if (count < 2 || !is_below(fd, files)) return count;
    if (draw() % 100 < interrupted_percent) return 0;
    return draw() % 100 < odd_percent ? 1 + draw() % count : count;
}

// How much of `count` bytes there is room for now; 0 if the disk is full.
static size_t written_now(int fd, size_t count) {
    if (!count || !is_below(fd, disk)) return count;
    int64_t before = atomic_fetch_sub(&room, (int64_t)count);
    if (before >= (int64_t)count) return count;
    return before > 0 ? (size_t)before : 0;
}

static ssize_t fail(int error) {
    errno = error;
    return -1;
}

ssize_t read(int fd, void *into, size_t count) {
    size_t now = read_now(fd, count);
    return now || !count ? real_read(fd, into, now) : fail(EINTR);
}

ssize_t pread64(int fd, void *into, size_t count, off_t from) {
    size_t now = read_now(fd, count);
    return now || !count ? real_pread(fd, into, now, from) : fail(EINTR);
}

ssize_t pread(int fd, void *into, size_t count, off_t from) {
    return pread64(fd, into, count, from);
}

ssize_t readv(int fd, const struct iovec *into, int count) {
    return count ? read(fd, into->iov_base, into->iov_len) : 0;
}

ssize_t write(int fd, const void *from, size_t count) {
    size_t now = written_now(fd, count);
    return now || !count ? real_write(fd, from, now) : fail(ENOSPC);
}

ssize_t pwrite64(int fd, const void *from, size_t count, off_t to) {
    size_t now = written_now(fd, count);
    return now || !count ? real_pwrite(fd, from, now, to) : fail(ENOSPC);
}

ssize_t pwrite(int fd, const void *from, size_t count, off_t to) {
    return pwrite64(fd, from, count, to);
}

ssize_t writev(int fd, const struct iovec *from, int count) {
    while (count > 1 && !from->iov_len) from++, count--;
    return count ? write(fd, from->iov_base, from->iov_len) : 0;
}

// Nothing new gets a name on a full disk.
static int is_full(const char *path) {
    return disk && is_in(path, disk) && atomic_load(&room) <= 0 && access(path, F_OK);
}

// Nothing in a sealed directory can be changed, and if it is hidden, nothing be read.
static int is_sealed(const char *path) {
    return sealed && (is_in(path, sealed) || !strcmp(path, sealed));
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    int changes = flags & O_CREAT || (flags & O_ACCMODE) != O_RDONLY;
    if (is_sealed(path) && (changes || is_hidden)) return fail(sealed_error);
    return flags & O_CREAT && is_full(path) ? fail(ENOSPC) : real_open(path, flags, mode);
}

DIR *opendir(const char *path) {
    if (!is_hidden || !is_sealed(path)) return real_opendir(path);
    errno = sealed_error;
    return NULL;
}

int mkdir(const char *path, mode_t mode) {
    if (is_sealed(path) && access(path, F_OK)) return fail(sealed_error);
    return is_full(path) ? fail(ENOSPC) : real_mkdir(path, mode);
}

int futimens(int fd, const struct timespec times[2]) {
    return is_below(fd, sealed) ? fail(sealed_error) : real_futimens(fd, times);
}

// The error that the removal of `path` meets now, or 0.
static int refusal(const char *path) {
    if (is_sealed(path)) return sealed_error;
    return stuck && is_in(path, stuck) && draw() % 100 < stuck_percent ? stuck_error : 0;
}

int unlink(const char *path) {
    int error = refusal(path);
    return error ? fail(error) : real_unlink(path);
}

int rmdir(const char *path) {
    int error = refusal(path);
    return error ? fail(error) : real_rmdir(path);
}

int unlinkat(int directory, const char *name, int flags) {
    char path[PATH_MAX];
    path_of(directory, path);
    size_t length = strlen(path);
    snprintf(path + length, sizeof path - length, "/%s", name);
    int error = refusal(name[0] == '/' || directory == AT_FDCWD ? name : path);
    return error ? fail(error) : real_unlinkat(directory, name, flags);
}

// What is new has a hidden name, or is in a hidden directory, before it gets its own; what else is renamed is removed.
int rename(const char *from, const char *to) {
    int is_new = stuck && is_in(from, stuck) && strstr(from + strlen(stuck), "/.");
    int error = is_sealed(to) ? sealed_error : is_new ? 0 : refusal(from);
    return error ? fail(error) : real_rename(from, to);
}
