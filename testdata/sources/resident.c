/* Program whose memory is resident in part, to take test cores of with what /proc said of it.
 *   resident DIR
 * maps and touches memory, says "ready PID" on stdout and waits.
 * cc -O1 -g0 -pthread -o resident resident.c
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB (1ul << 20)

static void die(const char *what) { perror(what); _exit(1); }
#define CHECK(x, what) do { if (!(x)) die(what); } while (0)

/* Make pages resident: `step` apart, every second one with something in it, the others written as zeros. */
static void touch(void *at, size_t pages, size_t step)
{
    for (size_t i = 0; i < pages; i += step)
        memset((char *)at + i * PAGE, i / step % 2 ? 0 : (int)(i % 250) + 1, PAGE);
}

static void *map(size_t n, int flags, int fd)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags, fd, 0);
    CHECK(p != MAP_FAILED, "mmap");
    return p;
}

static pthread_barrier_t there;

/* Comes down its stack by so many pages, and stays below. */
static __attribute__((noinline)) void deep(uintptr_t pages)
{
    volatile char frame[pages * PAGE];
    for (size_t i = 0; i < pages; i++) frame[i * PAGE] = (char)(i % 3);
    pthread_barrier_wait(&there);
    for (;;) pause();
}

static void *run(void *pages)
{
    char name[16];
    snprintf(name, sizeof name, "deep-%lu", (unsigned long)(uintptr_t)pages);
    pthread_setname_np(pthread_self(), name);
    deep((uintptr_t)pages);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS = 6 };
    char path[4096];
    CHECK(argc == 2, "usage: resident DIR");
    pthread_barrier_init(&there, NULL, THREADS + 1);
    /* Stacks without guards, so that the kernel makes one mapping of them. */
    for (uintptr_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        pthread_attr_t attr;
        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, MIB / 4);
        pthread_attr_setguardsize(&attr, 0);
        CHECK(pthread_create(&thread, &attr, run, (void *)(i * 7 + 1)) == 0, "pthread_create");
    }
    pthread_barrier_wait(&there);
    /* malloc's own heap, and blocks with mappings of their own beside mappings of the program: again one mapping. */
    for (int i = 0; i < 400; i++) CHECK(memset(malloc(300), 1, 300), "malloc");
    for (int i = 0; i < 3; i++) {
        char *block = malloc(MIB);
        CHECK(block, "malloc");
        touch(block + PAGE, 60 + 20 * i, 1 + i);
        touch(map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1), 100, 3);
    }
    /* Reserved, and hardly touched. */
    touch(map(64 * MIB, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1), 3 * 512, 512);
    /* Shared memory: half of it. */
    int fd = memfd_create("resident", 0);
    CHECK(fd >= 0 && ftruncate(fd, MIB) == 0, "memfd");
    touch(map(MIB, MAP_SHARED, fd), 128, 1);
    /* A file: some pages read, one written. */
    snprintf(path, sizeof path, "%s/file", argv[1]);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0, path);
    for (int i = 0; i < 64; i++) {
        char page[PAGE];
        memset(page, 'f', sizeof page);
        CHECK(write(fd, page, sizeof page) == sizeof page, "write");
    }
    char *file = map(64 * PAGE, MAP_PRIVATE, fd);
    touch(file + 8 * PAGE, 1, 1);
    CHECK(*(volatile char *)(file + 40 * PAGE) == 'f', "file");
    /* Given back, and still there. */
    char *lazy = map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    touch(lazy, 256, 1);
    CHECK(madvise(lazy, MIB / 2, MADV_FREE) == 0, "MADV_FREE");
    /* A huge page, where the system gives one. */
    char *huge = map(4 * MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    huge = (char *)(((uintptr_t)huge + 2 * MIB - 1) & ~(2 * MIB - 1));
    madvise(huge, 2 * MIB, MADV_HUGEPAGE);
    touch(huge, 512, 1);
    /* Pages that a child has too. */
    touch(map(MIB, MAP_PRIVATE | MAP_ANONYMOUS, -1), 256, 2);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) for (;;) pause();
    printf("child %d\nready %d\n", child, getpid());
    fflush(stdout);
    for (;;) pause();
}
