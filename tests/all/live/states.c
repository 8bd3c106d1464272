/* Memory in states that its size does not show, as far as the system allows them. Says which, and sleeps. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, HUGE = 2 * MIB };

static char *map(size_t size) {
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void *sleeper(void *unused) {
    for (;;) pause();
    return unused;
}

int main(void) {
    /* 60 of 90 MiB are freed lazily. */
    char *freed = map(90 * MIB);
    if (!freed || madvise(freed, 90 * MIB, MADV_NOHUGEPAGE)) return 2;
    memset(freed, 1, 90 * MIB);
    madvise(freed, 60 * MIB, MADV_FREE);
    char *huge = map(32 * MIB);
    if (!huge) return 3;
    huge = (char *)(((uintptr_t)huge + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    madvise(huge, 24 * MIB, MADV_HUGEPAGE);
    memset(huge, 2, 24 * MIB);
    /* A locked stack is resident in full. */
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 20 * MIB);
    int locked = mlockall(MCL_FUTURE) == 0;
    pthread_t thread;
    if (pthread_create(&thread, &attr, sleeper, NULL)) return 4;
    printf("ready%s\n", locked ? " locked" : "");
    fflush(stdout);
    for (;;) pause();
}
