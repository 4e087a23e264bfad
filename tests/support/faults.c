// Errors that no file system here gives: calls that fail, or wait, for paths that contain a text.
//
// FAULTS has lines `call path errno`; errno 0 means that the call waits for a minute. They hold while the file that
// FAULTS_WHEN names exists.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
int fsync(int file) {
    struct stat found;
    const char *call = !fstat(file, &found) && S_ISDIR(found.st_mode) ? "fsync_directory" : "fsync";
    return fault_at(call, file, NULL) ? -1 : REAL(fsync)(file);
}
ssize_t write(int file, const void *bytes, size_t count) {
    return fault_at("write", file, NULL) ? -1 : REAL(write)(file, bytes, count);
}
ssize_t read(int file, void *bytes, size_t count) {
    return fault_at("read", file, NULL) ? -1 : REAL(read)(file, bytes, count);
}
int mkdir(const char *path, mode_t mode) { return fault("create", path) ? -1 : REAL(mkdir)(path, mode); }

// Files that are opened to be written.
static int creates(const char *path, int flags) { return (flags & O_ACCMODE) != O_RDONLY && fault("create", path); }
#define OPEN(name)                                                   \
    int name(const char *path, int flags, ...) {                     \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                \
        return creates(path, flags) ? -1 : REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

static int maps(int flags, int file) {
    if (file < 0) return 0;
    return fault_at((flags & MAP_TYPE) == MAP_PRIVATE ? "mmap_private" : "mmap_shared", file, NULL);
}
void *mmap(void *at, size_t length, int protection, int flags, int file, off_t from) {
    return maps(flags, file) ? MAP_FAILED : REAL(mmap)(at, length, protection, flags, file, from);
}
void *mmap64(void *at, size_t length, int protection, int flags, int file, off64_t from) {
    return maps(flags, file) ? MAP_FAILED : REAL(mmap64)(at, length, protection, flags, file, from);
}

// FAULTS_RENAMEAT2 is the error of every call of it, also of those that pass by the C library.
__attribute__((constructor)) static void refuse(void) {
    const char *number = getenv("FAULTS_RENAMEAT2");
    if (!number) return;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(number)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) abort();
}
ssize_t pread64(int file, void *bytes, size_t count, off64_t at) {
    return fault_at("read", file, NULL) ? -1 : REAL(pread64)(file, bytes, count, at);
}

// An MPI library that grants fewer threads than it is asked for: FAULTS_MPI_THREADS is the level.
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    const char *granted = getenv("FAULTS_MPI_THREADS");
    int code = REAL(MPI_Init_thread)(argc, argv, required, provided);
    if (granted) *provided = atoi(granted);
    return code;
}
