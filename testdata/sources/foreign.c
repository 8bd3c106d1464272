/* Memory of another malloc, and what that malloc says of it: run with LD_PRELOAD=libjemalloc.so.2. Prints the
 * bytes that jemalloc has mapped and retained, as its own statistics have them, and waits. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char out[4096];
static void *kept[4][20000];

static void *work(void *number) {
    long n = (long)number;
    unsigned seed = 77 * n + 1;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1103515245 + 12345;
        size_t size = i % 5000 == 0 ? 300000 + (seed >> 16) % 700000 : 16 + (seed >> 16) % 300;
        void *p = malloc(size);
        memset(p, 0x41 + (int)n, size);
        if (i % 3 == 0)
            free(p);
        else
            kept[n][i] = p;
    }
    return 0;
}

int main(void) {
    setvbuf(stdout, out, _IOFBF, sizeof out);
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)(i + 1));
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    work(0);
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
    size_t mapped = 0, retained = 0, len = sizeof mapped;
    unsigned long long epoch = 1;
    if (!mallctl) return 1;
    mallctl("epoch", 0, 0, &epoch, sizeof epoch);
    mallctl("stats.mapped", &mapped, &len, 0, 0);
    mallctl("stats.retained", &retained, &len, 0, 0);
    printf("%zu ready\n", mapped + retained);
    fflush(stdout);
    pause();
}
