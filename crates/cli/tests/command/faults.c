/* A library that tests preload. It makes one of the system calls fail that a server makes for its files and connections. The file
   named by TEST_FAULTS, which is mapped, says which call fails, counted from now on, and with which error number. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct fault_plan {
    long long after, error, failed;
};

static struct fault_plan *fault_plan;

__attribute__((constructor)) static void map_plan(void) {
    const char *path = getenv("TEST_FAULTS");
    int file = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (file < 0) return;
    void *mapped = (void *)syscall(SYS_mmap, NULL, sizeof *fault_plan, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) fault_plan = mapped;
}

/* Returns whether this call is the one that fails, and sets errno then. */
static int should_fail(void) {
    if (!fault_plan || __atomic_load_n(&fault_plan->after, __ATOMIC_SEQ_CST) <= 0) return 0;
    if (__atomic_sub_fetch(&fault_plan->after, 1, __ATOMIC_SEQ_CST) != 0) return 0;
    __atomic_add_fetch(&fault_plan->failed, 1, __ATOMIC_SEQ_CST);
    errno = (int)fault_plan->error;
    return 1;
}

/* Reads and writes that wake threads of the server use other kinds of files, and don't fail in practice. */
static int is_file(int file) {
    struct stat data;
    return syscall(SYS_fstat, file, &data) == 0 && S_ISREG(data.st_mode);
}

static int is_connection(int file) {
    int domain = 0;
    socklen_t len = sizeof domain;
    return syscall(SYS_getsockopt, file, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET;
}

static mode_t read_mode(int flags, va_list list) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

#define FAILING(name, type, parameters, arguments)                    \
    type name parameters {                                            \
        static type(*real) parameters;                                \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        return should_fail() ? (type)-1 : real arguments;                   \
    }

FAILING(fsync, int, (int file), (file))
FAILING(fdatasync, int, (int file), (file))
FAILING(ftruncate64, int, (int file, off64_t len), (file, len))
FAILING(fallocate64, int, (int file, int mode, off64_t offset, off64_t len), (file, mode, offset, len))
FAILING(pread64, ssize_t, (int file, void *into, size_t len, off64_t offset), (file, into, len, offset))
FAILING(pwrite64, ssize_t, (int file, const void *from, size_t len, off64_t offset), (file, from, len, offset))
FAILING(linkat, int, (int a, const char *from, int b, const char *to, int flags), (a, from, b, to, flags))
FAILING(renameat, int, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAILING(rename, int, (const char *from, const char *to), (from, to))
FAILING(unlinkat, int, (int folder, const char *path, int flags), (folder, path, flags))
FAILING(flock, int, (int file, int how), (file, how))
FAILING(statx, int, (int folder, const char *path, int flags, unsigned what, struct statx *into),
        (folder, path, flags, what, into))
FAILING(accept4, int, (int file, struct sockaddr *from, socklen_t *len, int flags), (file, from, len, flags))

DIR *opendir(const char *path) {
    static DIR *(*real)(const char *path);
    if (!real) real = (DIR * (*)(const char *path)) dlsym(RTLD_NEXT, "opendir");
    return should_fail() ? NULL : real(path);
}

ssize_t recv(int file, void *into, size_t len, int flags) {
    return is_connection(file) && should_fail() ? -1 : syscall(SYS_recvfrom, file, into, len, flags, NULL, NULL);
}

ssize_t send(int file, const void *from, size_t len, int flags) {
    return is_connection(file) && should_fail() ? -1 : syscall(SYS_sendto, file, from, len, flags, NULL, 0);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return is_connection(file) && should_fail() ? -1 : syscall(SYS_writev, file, parts, count);
}

ssize_t read(int file, void *into, size_t len) {
    return is_file(file) && should_fail() ? -1 : syscall(SYS_read, file, into, len);
}

ssize_t write(int file, const void *from, size_t len) {
    return is_file(file) && should_fail() ? -1 : syscall(SYS_write, file, from, len);
}

void *mmap64(void *address, size_t len, int protection, int flags, int file, off64_t from) {
    if (file >= 0 && should_fail()) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, len, protection, flags, file, from);
}

int open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = read_mode(flags, list);
    va_end(list);
    return should_fail() ? -1 : syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = read_mode(flags, list);
    va_end(list);
    return should_fail() ? -1 : syscall(SYS_openat, folder, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = read_mode(flags, list);
    va_end(list);
    return should_fail() ? -1 : syscall(SYS_openat, folder, path, flags, mode);
}
