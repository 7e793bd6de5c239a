// Preloaded by tests: lets a call of the system fail, or all from one on; or ends or stops the process before it. Calls that
// can't fail (close) pass.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
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
// No kind of call: at the `when`-th call of any kind, pages begin to fail, as where a disk can't read them. Those are the
// pages of the file that was mapped last, or, if that lasts, of all files that are mapped and will be.
enum { PAGES = 512 };

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

enum { MOST = 1024 };
typedef struct {
    dev_t device;
    ino_t inode;
} Identity;
// The mappings of files, in their order.
static struct {
    uintptr_t at;
    size_t length;
    Identity file;
} mappings[MOST];
static int mapping_count;
// The files whose pages fail.
static Identity bad_files[MOST];
static int bad_count;
static bool all_are_bad;
// Held while memory is mapped and unmapped, so that what fails is never the pages of another file, which came to their place.
static pthread_mutex_t of_mappings = PTHREAD_MUTEX_INITIALIZER;

static bool identify(int file, Identity *into) {
    struct stat found;
    if (syscall(SYS_newfstatat, file, "", &found, AT_EMPTY_PATH) != 0 || !S_ISREG(found.st_mode)) {
        return false;
    }
    *into = (Identity){found.st_dev, found.st_ino};
    return true;
}

static bool is_bad(Identity file) {
    for (int i = 0; i < bad_count; i++) {
        if (bad_files[i].device == file.device && bad_files[i].inode == file.inode) {
            return true;
        }
    }
    return false;
}

// Puts pages behind the end of an empty file in the place of those of a mapping: each touch raises SIGBUS.
static void spoil(int mapping) {
    static int empty = -1;
    if (empty < 0) {
        empty = syscall(SYS_memfd_create, "", 0);
    }
    // Before any of its pages fails, so that whoever finds such a page can't read the file.
    if (!is_bad(mappings[mapping].file) && bad_count < MOST) {
        bad_files[bad_count] = mappings[mapping].file;
        __atomic_add_fetch(&bad_count, 1, __ATOMIC_SEQ_CST);
    }
    size_t pages = (mappings[mapping].length + 4095) / 4096 * 4096;
    syscall(SYS_mmap, mappings[mapping].at, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0);
}

static void spoil_files(bool all) {
    int error = errno;
    pthread_mutex_lock(&of_mappings);
    all_are_bad = all;
    Identity newest = mapping_count > 0 ? mappings[mapping_count - 1].file : (Identity){0};
    for (int i = 0; i < mapping_count; i++) {
        Identity file = mappings[i].file;
        if (all || (file.device == newest.device && file.inode == newest.inode)) {
            spoil(i);
        }
    }
    pthread_mutex_unlock(&of_mappings);
    errno = error;
}

static void forget_mapping(uintptr_t at, size_t length) {
    for (int i = 0; i < mapping_count; i++) {
        if (mappings[i].at >= at && mappings[i].at < at + length) {
            memmove(&mappings[i], &mappings[i + 1], (--mapping_count - i) * sizeof mappings[0]);
            i--;
        }
    }
}

static void note_mapping(void *at, size_t length, Identity file) {
    int error = errno;
    forget_mapping((uintptr_t)at, length);
    if (mapping_count < MOST) {
        mappings[mapping_count].at = (uintptr_t)at;
        mappings[mapping_count].length = length;
        mappings[mapping_count++].file = file;
        if (all_are_bad || is_bad(file)) {
            spoil(mapping_count - 1);
        }
    }
    errno = error;
}

// The `when`-th call of one of these kinds from now on fails with the error number `how`, and those after it too if
// `lasting`; if `how` is negative, the process gets that signal before the call. A `when` of 0 ends that.
void fail_calls(int kinds, int when, int how, bool lasting) {
    __atomic_store_n(&until_failure, 0, __ATOMIC_SEQ_CST);
    wanted = kinds;
    outcome = how;
    lasts = lasting;
    failures = 0;
    failed_name = "";
    bad_count = 0;
    all_are_bad = false;
    __atomic_store_n(&until_failure, when, __ATOMIC_SEQ_CST);
}

// How many have failed since.
int failed_calls(void) { return __atomic_load_n(&failures, __ATOMIC_SEQ_CST); }

// The name of the first of them.
const char *failed_call(void) { return failed_name; }

static bool is_of_code(void *caller) {
    return code_end == 0 || (uintptr_t)caller - code_start < code_end - code_start;
}

static bool fails(int kind, const char *name, void *caller) {
    if (((wanted & kind) == 0 && wanted != PAGES) || !is_of_code(caller)) {
        return false;
    }
    int left = __atomic_load_n(&until_failure, __ATOMIC_SEQ_CST);
    bool is_done;
    do {
        if (left == 0) {
            return false;
        }
        int next = left > 1 || !lasts || outcome < 0 || wanted == PAGES ? left - 1 : 1;
        is_done = __atomic_compare_exchange_n(&until_failure, &left, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    } while (!is_done);
    if (left > 1) {
        return false;
    }
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST) == 1) {
        failed_name = name;
    }
    if (wanted == PAGES) {
        spoil_files(lasts);
        return false;
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

// A file whose pages fail can't be read.
static bool can_not_be_read(int file) {
    Identity found;
    if (bad_count == 0 || !identify(file, &found) || !is_bad(found)) {
        return false;
    }
    errno = EIO;
    return true;
}
#define WRAP_READ(name, parameters, arguments) \
    ssize_t name parameters { \
        NEXT(name) \
        return FAILS(READ, #name) || can_not_be_read(file) ? -1 : next arguments; \
    }

WRAP_READ(pread64, (int file, void *into, size_t count, off64_t offset), (file, into, count, offset))
WRAP_READ(read, (int file, void *into, size_t count), (file, into, count))
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

// A further mapping of the same file, if `from` is 0.
void *mremap(void *old, size_t from, size_t to, int flags, ...) {
    NEXT(mremap)
    va_list rest;
    va_start(rest, flags);
    void *place = va_arg(rest, void *);
    va_end(rest);
    if (FAILS(MAP, "mremap")) {
        return MAP_FAILED;
    }
    pthread_mutex_lock(&of_mappings);
    void *mapped = next(old, from, to, flags, place);
    if (mapped != MAP_FAILED) {
        Identity file;
        bool is_of_file = false;
        for (int i = 0; i < mapping_count; i++) {
            if ((uintptr_t)old - mappings[i].at < mappings[i].length) {
                file = mappings[i].file;
                is_of_file = true;
            }
        }
        forget_mapping((uintptr_t)old, from);
        if (is_of_file) {
            note_mapping(mapped, to, file);
        }
    }
    pthread_mutex_unlock(&of_mappings);
    return mapped;
}

int munmap(void *at, size_t length) {
    NEXT(munmap)
    pthread_mutex_lock(&of_mappings);
    forget_mapping((uintptr_t)at, length);
    int done = next(at, length);
    pthread_mutex_unlock(&of_mappings);
    return done;
}

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
        if (file >= 0 && FAILS(MAP, #name)) { \
            return MAP_FAILED; \
        } \
        Identity found; \
        bool is_noted = file >= 0 && is_of_code(__builtin_return_address(0)) && identify(file, &found); \
        if (!is_noted) { \
            return next(at, length, protection, flags, file, from); \
        } \
        pthread_mutex_lock(&of_mappings); \
        void *mapped = next(at, length, protection, flags, file, from); \
        if (mapped != MAP_FAILED) { \
            note_mapping(mapped, length, found); \
        } \
        pthread_mutex_unlock(&of_mappings); \
        return mapped; \
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
