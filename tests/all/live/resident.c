/* Memory that is resident and that written bytes do not show. Prints the addresses of what it has, and sleeps.
   resident FILE SHARED
   FILE: a file of 24 MiB, mapped for reading; all of it is read.
   SHARED: a path in /dev/shm, for 20 MiB of shared memory that is written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096 };

static void *map(size_t size, int access, int flags, int fd) {
    void *at = mmap(NULL, size, access, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int both = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
    /* Pages of zeros that were written to. */
    char *zeros = map(48 * MIB, both, private, -1);
    if (!zeros || madvise(zeros, 48 * MIB, MADV_NOHUGEPAGE)) return 3;
    for (size_t i = 0; i < 48 * MIB; i += PAGE) ((volatile char *)zeros)[i] = 0;
    /* Excluded from cores. */
    char *excluded = map(32 * MIB, both, private, -1);
    if (!excluded) return 4;
    memset(excluded, 7, 32 * MIB);
    madvise(excluded, 32 * MIB, MADV_DONTDUMP);
    int file = open(argv[1], O_RDONLY);
    char *read_only = map(24 * MIB, PROT_READ, MAP_PRIVATE, file);
    if (!read_only) return 5;
    volatile char sum = 0;
    for (size_t i = 0; i < 24 * MIB; i += PAGE) sum += read_only[i];
    int named = open(argv[2], O_RDWR | O_CREAT, 0600);
    if (named < 0 || ftruncate(named, 20 * MIB)) return 6;
    char *shared = map(20 * MIB, both, MAP_SHARED, named);
    if (!shared) return 7;
    memset(shared, 9, 20 * MIB);
    /* 12 MiB mapped twice: 4 MiB are touched in the first view only, 4 MiB in the second only, and 4 MiB in both. */
    int ring = memfd_create("ring", 0);
    if (ring < 0 || ftruncate(ring, 12 * MIB)) return 8;
    char *a = map(12 * MIB, both, MAP_SHARED, ring), *b = map(12 * MIB, both, MAP_SHARED, ring);
    if (!a || !b) return 9;
    char *first = a < b ? a : b, *second = a < b ? b : a;
    memset(first, 3, 8 * MIB);
    memset(second + 4 * MIB, 3, 8 * MIB);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
