// Short reads, interrupted reads and full disks, for the files below a directory. Loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
static uint64_t odd_percent, interrupted_percent;
static const char *files, *disk;
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_mkdir)(const char *, mode_t);

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
    drawn = number("SHIM_SEED");
    odd_percent = number("SHIM_SHORT");
    interrupted_percent = number("SHIM_INTERRUPTED");
    room = (int64_t)number("SHIM_ROOM");
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

static int is_below(int fd, const char *directory) {
    char link[64], path[4096] = "";
    if (!directory) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return readlink(link, path, sizeof path - 1) > 0 && is_in(path, directory);
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

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return flags & O_CREAT && is_full(path) ? fail(ENOSPC) : real_open(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    return is_full(path) ? fail(ENOSPC) : real_mkdir(path, mode);
}
