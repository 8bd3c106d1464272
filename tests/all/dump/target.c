/* A process to look at while it runs: threads that wait at a known depth, blocks of malloc, and a mapping of each sort that a
 * core treats in its own way. It says where they are in one line of JSON, and then waits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static const char *const names[] = {"alpha", "beta b", "gamma"};
static volatile int waiting;

/* Frames that are told by gdb and by us. */
__attribute__((noinline)) int deep(int n) {
    volatile char room[200];
    memset((char *)room, n, sizeof room);
    if (n > 0) return deep(n - 1) + room[n];
    __sync_fetch_and_add(&waiting, 1);
    for (;;) pause();
}

static void *work(void *name) {
    prctl(PR_SET_NAME, name);
    return (void *)(long)deep(5);
}

static char *map(size_t size, int access, int flags, int fd) {
    char *at = mmap(NULL, size, access, flags, fd, 0);
    if (at == MAP_FAILED) { perror("mmap"); exit(1); }
    return at;
}

int main(int argc, char **argv) {
    const size_t size = 1 << 20;
    const int write = PROT_READ | PROT_WRITE, private = MAP_PRIVATE | MAP_ANONYMOUS;
    size_t filled = argc > 1 ? (size_t)atoi(argv[1]) << 20 : size;
    /* Who is no parent of it may look at it, where Yama asks. */
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (int i = 0; i < 2000; i++) memset(malloc(24 + i % 500), i, 24);
    for (int i = 0; i < 2000; i += 3) { void *gone = malloc(100 + i); memset(gone, 1, 8); free(gone); }
    /* Each page is another, so that nothing of it can be left out. */
    char *full = map(filled, write, private, -1);
    for (size_t i = 0; i < filled; i += 8) *(size_t *)(full + i) = i * 0x9e3779b97f4a7c15;
    /* One page in ten. */
    char *sparse = map(64 * size, write, private, -1);
    for (size_t i = 0; i < 64 * size; i += 40960) sparse[i] = 1;
    char *secret = map(size, write, private, -1);
    /* Not as it stands in the program. */
    for (size_t i = 0; i < size; i += 16) for (int c = 0; c < 16; c++) secret[i + c] = "TFDSFU-EPOU-EVNQ"[c] - 1;
    madvise(secret, size, MADV_DONTDUMP);
    char *none = map(16 * size, PROT_NONE, private, -1);
    int fd = memfd_create("shared", 0);
    if (ftruncate(fd, 65536)) return 1;
    char *shared = map(65536, write, MAP_SHARED, fd);
    strcpy(shared, "shared by name");
    char *read_only = map(size, write, private, -1);
    strcpy(read_only, "read only");
    mprotect(read_only, size, PROT_READ);
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)names[i]);
    }
    while (waiting < 3) usleep(1000);
    printf("{\"full\": %zu, \"sparse\": %zu, \"secret\": %zu, \"none\": %zu, \"shared\": %zu, \"read_only\": %zu}\n", (size_t)full,
           (size_t)sparse, (size_t)secret, (size_t)none, (size_t)shared, (size_t)read_only);
    fflush(stdout);
    deep(2);
}
