// GCC's unwinder asks glibc where the tables of a function are. This is the same for musl, for programs of tests.
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <stddef.h>

// The unwinder calls these, but links them weakly: without another use, static programs lack them.
void *const _dl_find_object_links[] = {(void *)pthread_once, (void *)pthread_getspecific, (void *)pthread_setspecific,
                                       (void *)pthread_mutex_lock, (void *)pthread_mutex_unlock};

// As in glibc's <dlfcn.h>.
struct dl_find_object {
    unsigned long long flags;
    void *start, *end;
    struct link_map *link_map;
    void *tables;
    unsigned long long reserved[7];
};

struct search {
    ElfW(Addr) address;
    struct dl_find_object *found;
};

static int look_into(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    void *start = NULL, *end = NULL, *tables = NULL;
    for (int part = 0; part < object->dlpi_phnum; part++) {
        const ElfW(Phdr) *header = &object->dlpi_phdr[part];
        ElfW(Addr) address = object->dlpi_addr + header->p_vaddr;
        if (header->p_type == PT_LOAD && search->address - address < header->p_memsz) {
            start = (void *)address;
            end = (void *)(address + header->p_memsz);
        } else if (header->p_type == PT_GNU_EH_FRAME) {
            tables = (void *)address;
        }
    }
    if (start == NULL || tables == NULL) {
        return 0;
    }
    *search->found = (struct dl_find_object){.start = start, .end = end, .tables = tables};
    return 1;
}

int _dl_find_object(void *address, struct dl_find_object *found) {
    struct search search = {(ElfW(Addr))address, found};
    return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
