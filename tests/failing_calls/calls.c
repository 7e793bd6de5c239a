/* Lets calls of the system fail that one library of the process makes: those of its files, mappings and threads. Preloaded by
   operations.py, which says which one. The calls of other libraries, and those that can't fail (close), pass. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

/* What a call does, which says the errors that it may end with. */
enum kind { READS, WRITES, OPENS, CREATES, MAPS, STARTS };

static uintptr_t library_start, library_end;
static bool is_armed, lasts;
static long first, calls, failures;
static int error_number;
static const char *failed_name;

static int find(struct dl_phdr_info *object, size_t size, void *name) {
    (void)size;
    if (!strstr(object->dlpi_name, name)) return 0;
    for (int part = 0; part < object->dlpi_phnum; part++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[part];
        if (header->p_type == PT_LOAD && header->p_flags & PF_X) {
            library_start = object->dlpi_addr + header->p_vaddr;
            library_end = library_start + header->p_memsz;
        }
    }
    return 1;
}

/* Only calls of the library whose path has this in it fail; false if there is none. */
bool fail_calls_of(const char *name) { return dl_iterate_phdr(find, (void *)name) == 1 && library_start != 0; }

/* From now on, no call fails. */
void disarm(void) { __atomic_store_n(&is_armed, false, __ATOMIC_SEQ_CST); }

/* The `when`-th call from now on that may end with `number` does, and those after it too if `lasting`. */
void fail_call(long when, int number, bool lasting) {
    disarm();
    first = when;
    error_number = number;
    lasts = lasting;
    calls = failures = 0;
    failed_name = "";
    __atomic_store_n(&is_armed, true, __ATOMIC_SEQ_CST);
}

/* How many have failed since; and the name of the first. */
long failed_calls(void) { return __atomic_load_n(&failures, __ATOMIC_SEQ_CST); }
const char *failed_call(void) { return failed_name; }

static bool may_end_with(enum kind kind, int number) {
    switch (number) {
        case ENOSPC: return kind == WRITES || kind == CREATES;
        case EMFILE: return kind == OPENS || kind == CREATES;
        case EAGAIN: return kind == STARTS;
        case ENOMEM: return kind != STARTS;
        default: return kind == READS || kind == WRITES || kind == OPENS || kind == CREATES;
    }
}

static bool fails(enum kind kind, const char *name, void *caller) {
    bool is_ours = (uintptr_t)caller - library_start < library_end - library_start;
    if (!__atomic_load_n(&is_armed, __ATOMIC_SEQ_CST) || !is_ours || !may_end_with(kind, error_number)) return false;
    long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (number < first || (number > first && !lasts)) return false;
    if (number == first) failed_name = name;
    __atomic_add_fetch(&failures, 1, __ATOMIC_SEQ_CST);
    errno = error_number;
    return true;
}

#define FAILING(kind, failed, type, name, parameters, arguments)                   \
    type name parameters {                                                         \
        static type(*real) parameters;                                             \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);             \
        return fails(kind, #name, __builtin_return_address(0)) ? failed : real arguments; \
    }

FAILING(READS, -1, ssize_t, pread64, (int file, void *into, size_t len, off64_t at), (file, into, len, at))
FAILING(READS, -1, ssize_t, read, (int file, void *into, size_t len), (file, into, len))
FAILING(READS, -1, int, fstat64, (int file, struct stat64 *into), (file, into))
FAILING(READS, -1, int, stat64, (const char *path, struct stat64 *into), (path, into))
FAILING(READS, -1, int, lstat64, (const char *path, struct stat64 *into), (path, into))
FAILING(READS, -1, int, fstatat64, (int folder, const char *path, struct stat64 *into, int flags), (folder, path, into, flags))
FAILING(READS, -1, int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *into), (folder, path, flags, mask, into))
FAILING(READS, -1, int, statfs, (const char *path, struct statfs *into), (path, into))
FAILING(READS, NULL, struct dirent64 *, readdir64, (DIR *folder), (folder))
FAILING(READS, -1, off64_t, lseek64, (int file, off64_t to, int from), (file, to, from))
FAILING(READS, -1, ssize_t, readlink, (const char *path, char *into, size_t len), (path, into, len))
FAILING(READS, NULL, char *, realpath, (const char *path, char *into), (path, into))
FAILING(OPENS, NULL, DIR *, opendir, (const char *path), (path))
FAILING(OPENS, NULL, DIR *, fdopendir, (int file), (file))
FAILING(OPENS, -1, int, memfd_create, (const char *name, unsigned flags), (name, flags))
FAILING(WRITES, -1, int, fsync, (int file), (file))
FAILING(WRITES, -1, int, fdatasync, (int file), (file))
FAILING(WRITES, -1, int, msync, (void *at, size_t len, int flags), (at, len, flags))
FAILING(WRITES, -1, int, ftruncate64, (int file, off64_t len), (file, len))
FAILING(WRITES, -1, int, fallocate, (int file, int mode, off_t at, off_t len), (file, mode, at, len))
FAILING(WRITES, -1, ssize_t, pwrite64, (int file, const void *from, size_t len, off64_t at), (file, from, len, at))
FAILING(WRITES, -1, ssize_t, pwritev2, (int file, const struct iovec *parts, int count, off_t at, int flags), (file, parts, count, at, flags))
FAILING(WRITES, -1, ssize_t, write, (int file, const void *from, size_t len), (file, from, len))
FAILING(WRITES, -1, ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
FAILING(CREATES, -1, int, linkat, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
FAILING(CREATES, -1, int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAILING(CREATES, -1, int, rename, (const char *from, const char *to), (from, to))
FAILING(CREATES, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
FAILING(WRITES, -1, int, unlinkat, (int folder, const char *path, int flags), (folder, path, flags))
FAILING(WRITES, -1, int, unlink, (const char *path), (path))
FAILING(WRITES, -1, int, rmdir, (const char *path), (path))
FAILING(READS, -1, int, flock, (int file, int how), (file, how))
FAILING(MAPS, MAP_FAILED, void *, mmap64, (void *at, size_t len, int protection, int flags, int file, off64_t from), (at, len, protection, flags, file, from))
FAILING(MAPS, MAP_FAILED, void *, mmap, (void *at, size_t len, int protection, int flags, int file, off_t from), (at, len, protection, flags, file, from))
FAILING(MAPS, -1, int, madvise, (void *at, size_t len, int advice), (at, len, advice))

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0; }

#define OPENING(name, path, folder, parameters)                                                                \
    int name parameters {                                                                                     \
        va_list list;                                                                                         \
        va_start(list, flags);                                                                                \
        mode_t mode = mode_of(flags, list);                                                                   \
        va_end(list);                                                                                         \
        enum kind kind = flags & (O_CREAT | O_TMPFILE) & ~O_DIRECTORY ? CREATES : OPENS;                      \
        return fails(kind, #name, __builtin_return_address(0)) ? -1 : syscall(SYS_openat, folder, path, flags, mode); \
    }

OPENING(open, path, AT_FDCWD, (const char *path, int flags, ...))
OPENING(open64, path, AT_FDCWD, (const char *path, int flags, ...))
OPENING(openat, path, folder, (int folder, const char *path, int flags, ...))
OPENING(openat64, path, folder, (int folder, const char *path, int flags, ...))

void *mremap(void *at, size_t before, size_t after, int flags, ...) {
    va_list list;
    va_start(list, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    if (fails(MAPS, "mremap", __builtin_return_address(0))) return MAP_FAILED;
    return (void *)syscall(SYS_mremap, at, before, after, flags, to);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *), void *argument) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
    return fails(STARTS, "pthread_create", __builtin_return_address(0)) ? EAGAIN : real(thread, attributes, work, argument);
}

/* The calls that have no function in older C libraries. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list list;
    va_start(list, number);
    long part[6];
    for (int each = 0; each < 6; each++) part[each] = va_arg(list, long);
    va_end(list);
    void *caller = __builtin_return_address(0);
    if (number == SYS_statx && fails(READS, "statx", caller)) return -1;
    if (number == SYS_renameat2 && fails(CREATES, "renameat2", caller)) return -1;
    return real(number, part[0], part[1], part[2], part[3], part[4], part[5]);
}
