// Preloaded by test_failing_calls.py: lets one read of a file fail, or all from one on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

static int until_failure, error_number, failures;
static bool lasts;

// The `when`-th read from now on fails with `number`, and those after it too if `lasting`; 0 ends that.
void fail_reads(int when, int number, bool lasting) {
    until_failure = when;
    error_number = number;
    lasts = lasting;
    failures = 0;
}

// How many have failed since.
int failed_reads(void) { return failures; }

static bool fails(void) {
    if (until_failure == 0 || --until_failure > 0) {
        return false;
    }
    until_failure = lasts ? 1 : 0;
    failures++;
    errno = error_number;
    return true;
}

ssize_t pread64(int file, void *into, size_t count, off64_t offset) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    if (next == NULL) {
        next = dlsym(RTLD_NEXT, "pread64");
    }
    return fails() ? -1 : next(file, into, count, offset);
}
