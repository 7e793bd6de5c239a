// Preloaded by tests: lets a call of the system fail, or all from one on; or ends or stops the process before it.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

// Kinds of calls.
enum { READ = 1, WRITE = 2, SYNC = 4, OPEN = 8, NAME = 16, MAP = 32, SPACE = 64, LOCK = 128 };

static int wanted, until_failure, outcome, failures;
static bool lasts;

// The `when`-th call of one of these kinds from now on fails with the error number `how`, and those after it too if
// `lasting`; if `how` is negative, the process gets that signal before the call. A `when` of 0 ends that.
void fail_calls(int kinds, int when, int how, bool lasting) {
    __atomic_store_n(&until_failure, 0, __ATOMIC_SEQ_CST);
    wanted = kinds;
    outcome = how;
    lasts = lasting;
    failures = 0;
    __atomic_store_n(&until_failure, when, __ATOMIC_SEQ_CST);
}

// How many have failed since.
int failed_calls(void) { return __atomic_load_n(&failures, __ATOMIC_SEQ_CST); }

// How many more are needed until one fails.
int calls_left(void) { return __atomic_load_n(&until_failure, __ATOMIC_SEQ_CST); }

static bool fails(int kind) {
    if ((wanted & kind) == 0) {
        return false;
    }
    int left = __atomic_load_n(&until_failure, __ATOMIC_SEQ_CST);
    do {
        if (left == 0) {
            return false;
        }
    } while (!__atomic_compare_exchange_n(&until_failure, &left, left > 1 || !lasts || outcome < 0 ? left - 1 : 1, false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if (left > 1) {
        return false;
    }
    __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
    if (outcome < 0) {
        kill(getpid(), -outcome);
        return false;
    }
    errno = outcome;
    return true;
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (next == NULL) { \
        next = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
    }
#define WRAP(result, name, parameters, arguments, kind) \
    result name parameters { \
        NEXT(name) \
        return fails(kind) ? (result)-1 : next arguments; \
    }

WRAP(ssize_t, pread64, (int file, void *into, size_t count, off64_t offset), (file, into, count, offset), READ)
WRAP(ssize_t, read, (int file, void *into, size_t count), (file, into, count), READ)
WRAP(ssize_t, pwrite64, (int file, const void *from, size_t count, off64_t offset), (file, from, count, offset), WRITE)
WRAP(ssize_t, pwritev2, (int file, const struct iovec *from, int count, off_t offset, int flags),
     (file, from, count, offset, flags), WRITE)
WRAP(int, ftruncate64, (int file, off64_t length), (file, length), WRITE)
WRAP(int, fsync, (int file), (file), SYNC)
WRAP(int, fdatasync, (int file), (file), SYNC)
WRAP(int, msync, (void *at, size_t length, int flags), (at, length, flags), SYNC)
WRAP(int, rename, (const char *from, const char *to), (from, to), NAME)
WRAP(int, renameat, (int old, const char *from, int new, const char *to), (old, from, new, to), NAME)
WRAP(int, linkat, (int old, const char *from, int new, const char *to, int flags), (old, from, new, to, flags), NAME)
WRAP(int, unlink, (const char *path), (path), NAME)
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), NAME)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), NAME)
WRAP(int, fallocate, (int file, int mode, off_t offset, off_t length), (file, mode, offset, length), SPACE)
WRAP(void *, mremap, (void *old, size_t from, size_t to, int flags, ...), (old, from, to, flags), MAP)

// A populated page takes space; other advice is none that anybody relies on.
int madvise(void *at, size_t length, int advice) {
    NEXT(madvise)
    if (advice == MADV_POPULATE_WRITE && fails(SPACE)) {
        if (errno == ENOSPC) {
            errno = EFAULT; // as the kernel says it
        }
        return -1;
    }
    return next(at, length, advice);
}

// Of memory without a file there is no end here: that is what ends the process.
void *mmap64(void *at, size_t length, int protection, int flags, int file, off64_t offset) {
    NEXT(mmap64)
    return file >= 0 && fails(MAP) ? MAP_FAILED : next(at, length, protection, flags, file, offset);
}

void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset) {
    return mmap64(at, length, protection, flags, file, offset);
}

// The third parameter is there if a file may be made.
#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open64(const char *path, int flags, ...) {
    NEXT(open64)
    MODE(flags)
    return fails(OPEN) ? -1 : next(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    NEXT(openat)
    MODE(flags)
    return fails(OPEN) ? -1 : next(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    NEXT(openat64)
    MODE(flags)
    return fails(OPEN) ? -1 : next(folder, path, flags, mode);
}

DIR *opendir(const char *path) {
    NEXT(opendir)
    return fails(OPEN) ? NULL : next(path);
}

long syscall(long number, ...) {
    NEXT(syscall)
    va_list rest;
    va_start(rest, number);
    long words[6];
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(rest, long);
    }
    va_end(rest);
    if (number == SYS_renameat2 && fails(NAME)) {
        return -1;
    }
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
