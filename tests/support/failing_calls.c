// Preloaded by tests: lets a call of the system fail, or all from one on; or ends or stops the process before it. Calls that
// can't fail (close) pass.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

// Kinds of calls.
enum { READ = 1, WRITE = 2, SYNC = 4, OPEN = 8, NAME = 16, MAP = 32, SPACE = 64, STAT = 128, CREATE = 256 };

static int wanted, until_failure, outcome, failures;
static bool lasts;
static const char *failed_name = "";
// The code whose calls fail, if not all do.
static uintptr_t code_start, code_end;

static int find(struct dl_phdr_info *object, size_t size, void *name) {
    (void)size;
    if (!strstr(object->dlpi_name, name)) {
        return 0;
    }
    for (int part = 0; part < object->dlpi_phnum; part++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[part];
        if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
            code_start = object->dlpi_addr + header->p_vaddr;
            code_end = code_start + header->p_memsz;
        }
    }
    return 1;
}

// Only calls of the library whose path has this in it fail; false if there is none.
bool fail_calls_of(const char *name) { return dl_iterate_phdr(find, (void *)name) == 1 && code_start != 0; }

// The `when`-th call of one of these kinds from now on fails with the error number `how`, and those after it too if
// `lasting`; if `how` is negative, the process gets that signal before the call. A `when` of 0 ends that.
void fail_calls(int kinds, int when, int how, bool lasting) {
    __atomic_store_n(&until_failure, 0, __ATOMIC_SEQ_CST);
    wanted = kinds;
    outcome = how;
    lasts = lasting;
    failures = 0;
    failed_name = "";
    __atomic_store_n(&until_failure, when, __ATOMIC_SEQ_CST);
}

// How many have failed since.
int failed_calls(void) { return __atomic_load_n(&failures, __ATOMIC_SEQ_CST); }

// The name of the first of them.
const char *failed_call(void) { return failed_name; }

static bool fails(int kind, const char *name, void *caller) {
    bool is_of_code = code_end == 0 || (uintptr_t)caller - code_start < code_end - code_start;
    if ((wanted & kind) == 0 || !is_of_code) {
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
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST) == 1) {
        failed_name = name;
    }
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
#define FAILS(kind, name) fails(kind, name, __builtin_return_address(0))
#define WRAP_AS(failed, result, name, parameters, arguments, kind) \
    result name parameters { \
        NEXT(name) \
        return FAILS(kind, #name) ? (result)failed : next arguments; \
    }
// How a call that returns a number, and one that returns a pointer, says that it has failed.
#define WRAP(result, name, parameters, arguments, kind) WRAP_AS(-1, result, name, parameters, arguments, kind)
#define WRAP_NULL(result, name, parameters, arguments, kind) WRAP_AS(NULL, result, name, parameters, arguments, kind)

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
WRAP(int, rmdir, (const char *path), (path), NAME)

// Whether it is a counter (eventfd(2)), which has no disk: a write that there is room for never fails. Such files have no type.
static bool is_counter(int file) {
    struct stat found;
    return syscall(SYS_newfstatat, file, "", &found, AT_EMPTY_PATH) == 0 && (found.st_mode & S_IFMT) == 0;
}

ssize_t write(int file, const void *from, size_t count) {
    NEXT(write)
    return !is_counter(file) && FAILS(WRITE, "write") ? -1 : next(file, from, count);
}

WRAP(ssize_t, writev, (int file, const struct iovec *from, int count), (file, from, count), WRITE)
WRAP(int, fstat64, (int file, struct stat64 *into), (file, into), STAT)
WRAP(int, stat64, (const char *path, struct stat64 *into), (path, into), STAT)
WRAP(int, lstat64, (const char *path, struct stat64 *into), (path, into), STAT)
WRAP(int, fstatat64, (int folder, const char *path, struct stat64 *into, int flags), (folder, path, into, flags), STAT)
WRAP(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *into),
     (folder, path, flags, mask, into), STAT)
WRAP(int, statfs, (const char *path, struct statfs *into), (path, into), STAT)
WRAP(int, fstatfs, (int file, struct statfs *into), (file, into), STAT)
WRAP(off64_t, lseek64, (int file, off64_t to, int from), (file, to, from), STAT)
WRAP(int, flock, (int file, int how), (file, how), STAT)
WRAP(ssize_t, readlink, (const char *path, char *into, size_t count), (path, into, count), STAT)
WRAP_NULL(char *, realpath, (const char *path, char *into), (path, into), STAT)
WRAP_NULL(struct dirent64 *, readdir64, (DIR *folder), (folder), STAT)
WRAP_NULL(DIR *, opendir, (const char *path), (path), OPEN)
WRAP_NULL(DIR *, fdopendir, (int file), (file), OPEN)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), OPEN)
WRAP(void *, mremap, (void *old, size_t from, size_t to, int flags, ...), (old, from, to, flags), MAP)

// A populated page takes space; other advice is none that anybody relies on.
int madvise(void *at, size_t length, int advice) {
    NEXT(madvise)
    if (advice == MADV_POPULATE_WRITE && FAILS(SPACE, "madvise")) {
        if (errno == ENOSPC) {
            errno = EFAULT; // as the kernel says it
        }
        return -1;
    }
    return next(at, length, advice);
}

// Of memory without a file there is no end here: that is what ends the process.
#define WRAP_MAP(name, offset) \
    void *name(void *at, size_t length, int protection, int flags, int file, offset from) { \
        NEXT(name) \
        return file >= 0 && FAILS(MAP, #name) ? MAP_FAILED : next(at, length, protection, flags, file, from); \
    }

WRAP_MAP(mmap64, off64_t)
WRAP_MAP(mmap, off_t)

// The third parameter is there if a file may be made.
#define MODE(flags) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define KIND(flags) (flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY ? OPEN | CREATE : OPEN)

#define WRAP_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(name) \
        MODE(flags) \
        return FAILS(KIND(flags), #name) ? -1 : next(path, flags, mode); \
    }
#define WRAP_OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        NEXT(name) \
        MODE(flags) \
        return FAILS(KIND(flags), #name) ? -1 : next(folder, path, flags, mode); \
    }

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

long syscall(long number, ...) {
    NEXT(syscall)
    va_list rest;
    va_start(rest, number);
    long words[6];
    for (int i = 0; i < 6; i++) {
        words[i] = va_arg(rest, long);
    }
    va_end(rest);
    if ((number == SYS_renameat2 && FAILS(NAME, "renameat2")) || (number == SYS_statx && FAILS(STAT, "statx"))) {
        return -1;
    }
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
