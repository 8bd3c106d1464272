/* A process to look at: counts as long as it runs, and says so in a file that others can read meanwhile.
   target COUNTERS FILE
   COUNTERS: a file of four 64-bit words that is mapped shared: 0 beats of the main thread, one a millisecond; 1 real-time
   signals that were sent; 2 those that were handled; 3 errors.
   FILE: a file of 1 MiB that is mapped and of which nothing is touched. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, SMALL = 1000, MIB = 1 << 20 };

static volatile uint64_t *words;
/* Passed when all threads run. */
static pthread_barrier_t begun;
static void *kept[SMALL + 3];

static void handled(int signal) {
    (void)signal;
    __atomic_add_fetch(&words[2], 1, __ATOMIC_SEQ_CST);
}

/* Blocks in the kernel for ever, with nothing on its stack but this. */
static void *waiting(void *arg) {
    int *pipe = arg;
    pthread_barrier_wait(&begun);
    char byte;
    if (read(pipe[0], &byte, 1) != -2) __atomic_add_fetch(&words[3], 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* Sends a real-time signal to itself again and again: a tracer may come between the sending and the handler. */
static void *signalling(void *arg) {
    (void)arg;
    pthread_barrier_wait(&begun);
    struct timespec pause = {0, 200000};
    for (;;) {
        __atomic_add_fetch(&words[1], 1, __ATOMIC_SEQ_CST);
        if (pthread_kill(pthread_self(), SIGRTMIN + 3)) __atomic_add_fetch(&words[3], 1, __ATOMIC_SEQ_CST);
        nanosleep(&pause, NULL);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    int counters = open(argv[1], O_RDWR);
    words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, counters, 0);
    int file = open(argv[2], O_RDONLY);
    void *untouched = mmap(NULL, MIB, PROT_READ, MAP_PRIVATE, file, 0);
    if (words == MAP_FAILED || untouched == MAP_FAILED) return 3;
    signal(SIGRTMIN + 3, handled);
    for (int i = 0; i < SMALL; i++) memset(kept[i] = malloc(1000), 0x5a, 1000);
    for (int i = 0; i < 3; i++) memset(kept[SMALL + i] = malloc(MIB), 0x5b, MIB);
    /* Four gibibytes that nobody touches but for eight mebibytes. */
    char *sparse = mmap(NULL, 4096UL * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memset(sparse + 2048UL * MIB, 0x5c, 8 * MIB);
    /* Read and never written: the kernel maps its page of zeros there. */
    volatile char sum = 0;
    for (int i = 0; i < 64; i++) sum += sparse[16 * MIB + i * 4096];
    /* A memfd of which nothing is there yet, and memory without access. */
    void *shared = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    void *closed = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int ends[2];
    if (pipe(ends)) return 4;
    pthread_t thread;
    pthread_barrier_init(&begun, NULL, WORKERS + 2);
    for (int i = 0; i < WORKERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "worker %d", i);
        pthread_create(&thread, NULL, waiting, ends);
        pthread_setname_np(thread, name);
    }
    pthread_create(&thread, NULL, signalling, NULL);
    pthread_setname_np(thread, "signals");
    pthread_barrier_wait(&begun);
    printf("READY %p %p %p %p\n", (void *)sparse, shared, closed, untouched);
    fflush(stdout);
    struct timespec beat = {0, 1000000};
    for (;;) {
        nanosleep(&beat, NULL);
        __atomic_add_fetch(&words[0], 1, __ATOMIC_SEQ_CST);
    }
}
