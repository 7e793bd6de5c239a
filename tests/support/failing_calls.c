// A library that tests preload. It makes one system call fail, or all from one on, or sends the process a signal before
// a call. Calls that can't fail, such as close, are left alone.
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
// Not a kind of call. At the `when`-th call of any kind, pages of mapped files begin to fail, as if a disk could not read
// them: the pages of the file that was mapped last, or, if the failure is lasting, of all files that are or will be mapped.
enum { PAGES = 512 };

static int failing_kinds, until_failure, outcome, failures;
static bool is_lasting;
static const char *failed_name = "";
// The address range of the code whose calls fail. An empty range means all code.
static uintptr_t code_start, code_end;

static int find_code(struct dl_phdr_info *object, size_t size, void *name) {
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

// Limits failures to calls from the library whose path contains `name`. Returns false if no such library is loaded.
bool fail_calls_of(const char *name) { return dl_iterate_phdr(find_code, (void *)name) == 1 && code_start != 0; }

enum { MAX_FILES = 1024, PAGE_SIZE = 4096 };
typedef struct {
    dev_t device;
    ino_t inode;
} Identity;
// The mappings of files, oldest first.
static struct {
    uintptr_t address;
    size_t length;
    Identity file;
} mappings[MAX_FILES];
static int mapping_count;
// The files whose pages fail.
static Identity bad_files[MAX_FILES];
static int bad_count;
static bool all_are_bad;
// Held while memory is mapped and unmapped. Otherwise another file could be mapped to addresses whose pages are about to
// fail.
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

static bool identify(int file, Identity *into) {
    struct stat status;
    if (syscall(SYS_newfstatat, file, "", &status, AT_EMPTY_PATH) != 0 || !S_ISREG(status.st_mode)) {
        return false;
    }
    *into = (Identity){status.st_dev, status.st_ino};
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

// Replaces the pages of a mapping by pages beyond the end of an empty file, so that each access raises SIGBUS.
static void replace_pages(int mapping) {
    static int empty = -1;
    if (empty < 0) {
        empty = syscall(SYS_memfd_create, "", 0);
    }
    // Reads of the file must fail before its pages do, as a thread that finds a failed page reads the file.
    if (!is_bad(mappings[mapping].file) && bad_count < MAX_FILES) {
        bad_files[bad_count] = mappings[mapping].file;
        __atomic_add_fetch(&bad_count, 1, __ATOMIC_SEQ_CST);
    }
    size_t pages = (mappings[mapping].length + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
    syscall(SYS_mmap, mappings[mapping].address, pages, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0);
}

static void fail_pages(bool all) {
    int error = errno;
    pthread_mutex_lock(&mappings_lock);
    all_are_bad = all;
    Identity newest = mapping_count > 0 ? mappings[mapping_count - 1].file : (Identity){0};
    for (int i = 0; i < mapping_count; i++) {
        Identity file = mappings[i].file;
        if (all || (file.device == newest.device && file.inode == newest.inode)) {
            replace_pages(i);
        }
    }
    pthread_mutex_unlock(&mappings_lock);
    errno = error;
}

static void forget_mapping(uintptr_t address, size_t length) {
    for (int i = 0; i < mapping_count; i++) {
        if (mappings[i].address >= address && mappings[i].address < address + length) {
            memmove(&mappings[i], &mappings[i + 1], (--mapping_count - i) * sizeof mappings[0]);
            i--;
        }
    }
}

static void note_mapping(void *address, size_t length, Identity file) {
    int error = errno;
    forget_mapping((uintptr_t)address, length);
    if (mapping_count < MAX_FILES) {
        mappings[mapping_count].address = (uintptr_t)address;
        mappings[mapping_count].length = length;
        mappings[mapping_count++].file = file;
        if (all_are_bad || is_bad(file)) {
            replace_pages(mapping_count - 1);
        }
    }
    errno = error;
}

// Makes the `when`-th call of these kinds fail with the error number `how`, and all later ones too if `lasting`. If `how`
// is negative, the process gets that signal before the call instead. A `when` of 0 ends all failures.
void fail_calls(int kinds, int when, int how, bool lasting) {
    __atomic_store_n(&until_failure, 0, __ATOMIC_SEQ_CST);
    failing_kinds = kinds;
    outcome = how;
    is_lasting = lasting;
    failures = 0;
    failed_name = "";
    bad_count = 0;
    all_are_bad = false;
    __atomic_store_n(&until_failure, when, __ATOMIC_SEQ_CST);
}

// Returns how many calls have failed since fail_calls.
int failed_calls(void) { return __atomic_load_n(&failures, __ATOMIC_SEQ_CST); }

// Returns the name of the first call that failed.
const char *failed_call(void) { return failed_name; }

static bool is_tested_code(void *caller) {
    return code_end == 0 || (uintptr_t)caller - code_start < code_end - code_start;
}

static bool should_fail(int kind, const char *name, void *caller) {
    if (((failing_kinds & kind) == 0 && failing_kinds != PAGES) || !is_tested_code(caller)) {
        return false;
    }
    int left = __atomic_load_n(&until_failure, __ATOMIC_SEQ_CST);
    bool is_done;
    do {
        if (left == 0) {
            return false;
        }
        int next = left > 1 || !is_lasting || outcome < 0 || failing_kinds == PAGES ? left - 1 : 1;
        is_done = __atomic_compare_exchange_n(&until_failure, &left, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    } while (!is_done);
    if (left > 1) {
        return false;
    }
    if (__atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST) == 1) {
        failed_name = name;
    }
    if (failing_kinds == PAGES) {
        fail_pages(is_lasting);
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
#define FAILS(kind, name) should_fail(kind, name, __builtin_return_address(0))
#define WRAP_AS(failed, result, name, parameters, arguments, kind) \
    result name parameters { \
        NEXT(name) \
        return FAILS(kind, #name) ? (result)failed : next arguments; \
    }
// Functions that return a number fail with -1, and functions that return a pointer with NULL.
#define WRAP(result, name, parameters, arguments, kind) WRAP_AS(-1, result, name, parameters, arguments, kind)
#define WRAP_NULL(result, name, parameters, arguments, kind) WRAP_AS(NULL, result, name, parameters, arguments, kind)

// Sets errno and returns true for a file whose pages fail.
static bool is_unreadable(int file) {
    Identity identity;
    if (bad_count == 0 || !identify(file, &identity) || !is_bad(identity)) {
        return false;
    }
    errno = EIO;
    return true;
}
#define WRAP_READ(name, parameters, arguments) \
    ssize_t name parameters { \
        NEXT(name) \
        return FAILS(READ, #name) || is_unreadable(file) ? -1 : next arguments; \
    }

WRAP_READ(pread64, (int file, void *into, size_t count, off64_t offset), (file, into, count, offset))
WRAP_READ(read, (int file, void *into, size_t count), (file, into, count))
WRAP(ssize_t, pwrite64, (int file, const void *from, size_t count, off64_t offset), (file, from, count, offset), WRITE)
WRAP(int, ftruncate64, (int file, off64_t length), (file, length), WRITE)
WRAP(int, fsync, (int file), (file), SYNC)
WRAP(int, fdatasync, (int file), (file), SYNC)
WRAP(int, msync, (void *address, size_t length, int flags), (address, length, flags), SYNC)
WRAP(int, rename, (const char *from, const char *to), (from, to), NAME)
WRAP(int, renameat, (int old, const char *from, int new, const char *to), (old, from, new, to), NAME)
WRAP(int, linkat, (int old, const char *from, int new, const char *to, int flags), (old, from, new, to, flags), NAME)
WRAP(int, unlink, (const char *path), (path), NAME)
WRAP(int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags), NAME)
WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), NAME)
WRAP(int, fallocate, (int file, int mode, off_t offset, off_t length), (file, mode, offset, length), SPACE)
WRAP(int, rmdir, (const char *path), (path), NAME)

// Returns whether a file is a counter of eventfd(2), whose writes don't fail. Only such files have no type.
static bool is_counter(int file) {
    struct stat status;
    return syscall(SYS_newfstatat, file, "", &status, AT_EMPTY_PATH) == 0 && (status.st_mode & S_IFMT) == 0;
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

// If `from` is 0, the call makes a further mapping of the same file.
void *mremap(void *old, size_t from, size_t to, int flags, ...) {
    NEXT(mremap)
    va_list rest;
    va_start(rest, flags);
    void *place = va_arg(rest, void *);
    va_end(rest);
    if (FAILS(MAP, "mremap")) {
        return MAP_FAILED;
    }
    pthread_mutex_lock(&mappings_lock);
    void *mapped = next(old, from, to, flags, place);
    if (mapped != MAP_FAILED) {
        Identity file;
        bool is_of_file = false;
        for (int i = 0; i < mapping_count; i++) {
            if ((uintptr_t)old - mappings[i].address < mappings[i].length) {
                file = mappings[i].file;
                is_of_file = true;
            }
        }
        forget_mapping((uintptr_t)old, from);
        if (is_of_file) {
            note_mapping(mapped, to, file);
        }
    }
    pthread_mutex_unlock(&mappings_lock);
    return mapped;
}

int munmap(void *address, size_t length) {
    NEXT(munmap)
    pthread_mutex_lock(&mappings_lock);
    forget_mapping((uintptr_t)address, length);
    int done = next(address, length);
    pthread_mutex_unlock(&mappings_lock);
    return done;
}

// Populating pages takes space. Other advice can be ignored, so its failure is not tested.
int madvise(void *address, size_t length, int advice) {
    NEXT(madvise)
    if (advice == MADV_POPULATE_WRITE && FAILS(SPACE, "madvise")) {
        if (errno == ENOSPC) {
            errno = EFAULT; // the kernel's error for a full disk here
        }
        return -1;
    }
    return next(address, length, advice);
}

// Mappings without a file never fail here, as a process without memory can't go on.
#define WRAP_MAP(name, offset) \
    void *name(void *address, size_t length, int protection, int flags, int file, offset from) { \
        NEXT(name) \
        if (file >= 0 && FAILS(MAP, #name)) { \
            return MAP_FAILED; \
        } \
        Identity identity; \
        bool is_noted = file >= 0 && is_tested_code(__builtin_return_address(0)) && identify(file, &identity); \
        if (!is_noted) { \
            return next(address, length, protection, flags, file, from); \
        } \
        pthread_mutex_lock(&mappings_lock); \
        void *mapped = next(address, length, protection, flags, file, from); \
        if (mapped != MAP_FAILED) { \
            note_mapping(mapped, length, identity); \
        } \
        pthread_mutex_unlock(&mappings_lock); \
        return mapped; \
    }

WRAP_MAP(mmap64, off64_t)
WRAP_MAP(mmap, off_t)

// The mode is passed only if the call may create a file.
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
    if ((number == SYS_renameat2 && FAILS(NAME, "renameat2")) || (number == SYS_statx && FAILS(STAT, "statx")) ||
        (number == SYS_pwritev2 && FAILS(WRITE, "pwritev2"))) {
        return -1;
    }
    return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
