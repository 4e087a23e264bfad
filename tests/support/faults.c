// Errors that no file system here gives: calls that fail, or wait, for paths that contain a text.
//
// FAULTS has lines `call path errno`; errno 0 means that the call waits for a minute. They hold while the file that
// FAULTS_WHEN names exists.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fault(const char *call, const char *path) {
    const char *line = getenv("FAULTS"), *when = getenv("FAULTS_WHEN");
    char name[32], part[512];
    int number, length;
    if (!line || !path || (when && access(when, F_OK))) return 0;
    for (; sscanf(line, "%31s %511s %d%n", name, part, &number, &length) == 3; line += length) {
        if (strcmp(name, call) || !strstr(path, part)) continue;
        if (number == 0) {
            unsigned left = 60;
            while (left) left = sleep(left);
            return 0;
        }
        errno = number;
        return 1;
    }
    return 0;
}

static int fault_at(const char *call, int directory, const char *name) {
    char link[64], path[4096];
    ssize_t length;
    if (name && name[0] == '/') return fault(call, name);
    if (directory == AT_FDCWD) return fault(call, name);
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    length = readlink(link, path, sizeof path - 512);
    if (length < 0) return 0;
    path[length] = 0;
    if (name) { strcat(path, "/"); strncat(path, name, 500); }
    return fault(call, path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int rename(const char *from, const char *to) {
    return fault("rename", from) ? -1 : REAL(rename)(from, to);
}
int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    return fault_at("renameat2", from_at, from) ? -1 : REAL(renameat2)(from_at, from, to_at, to, flags);
}
int link(const char *from, const char *to) { return fault("link", from) ? -1 : REAL(link)(from, to); }
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    return fault_at("link", from_at, from) ? -1 : REAL(linkat)(from_at, from, to_at, to, flags);
}
int unlink(const char *path) { return fault("unlink", path) ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return fault("unlink", path) ? -1 : REAL(rmdir)(path); }
int unlinkat(int at, const char *name, int flags) {
    return fault_at("unlink", at, name) ? -1 : REAL(unlinkat)(at, name, flags);
}
int fsync(int file) { return fault_at("fsync", file, NULL) ? -1 : REAL(fsync)(file); }
ssize_t write(int file, const void *bytes, size_t count) {
    return fault_at("write", file, NULL) ? -1 : REAL(write)(file, bytes, count);
}
ssize_t read(int file, void *bytes, size_t count) {
    return fault_at("read", file, NULL) ? -1 : REAL(read)(file, bytes, count);
}
ssize_t pread64(int file, void *bytes, size_t count, off64_t at) {
    return fault_at("read", file, NULL) ? -1 : REAL(pread64)(file, bytes, count, at);
}
