/* Loses memory slowly, amid blocks that come and go: slow-leak [KIB_A_MINUTE] [SECONDS], 1,024 and 3,600 where nothing is said.
 *
 * Built with `gcc -O1 -o slow-leak slow-leak.c -lpthread`. Lost are pairs of blocks of 120 and 1,000 bytes, which glibc
 * keeps in chunks of 128 and 1,008 (or 1,024, where what was left of a free chunk is too small for another). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SESSION = 120, BUFFER = 1000, HEADERS = 16, SLOTS = 20000, CACHE = 4000 };

static unsigned long seed = 12345;

static unsigned below(unsigned most) {
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return (unsigned)(seed >> 33) % most;
}

static void *slots[SLOTS];
static void *cache[CACHE];

static void *idle(void *unused) {
    struct timespec forever = {100000, 0};
    nanosleep(&forever, NULL);
    return unused;
}

int main(int argc, char **argv) {
    double a_minute = (argc > 1 ? atof(argv[1]) : 1024) * 1024;
    double seconds = argc > 2 ? atof(argv[2]) : 3600;
    pthread_t other;
    for (int i = 0; i < 3; i++) {
        pthread_create(&other, NULL, idle, NULL);
    }
    void *kept = malloc(40 << 20);
    memset(kept, 1, 40 << 20);
    struct timespec begun, now, pause = {0, 20 * 1000 * 1000};
    clock_gettime(CLOCK_MONOTONIC, &begun);
    double lost = 0;
    int cached = 0;
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        double at = (double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9;
        if (at > seconds) {
            return 0;
        }
        while (lost < at / 60 * a_minute) {
            memset(malloc(SESSION), 2, SESSION);
            memset(malloc(BUFFER), 3, BUFFER);
            lost += SESSION + BUFFER + HEADERS;
        }
        /* Slots hold another block each second or so, or none. */
        for (int i = 0; i < 400; i++) {
            unsigned slot = below(SLOTS);
            free(slots[slot]);
            slots[slot] = below(3) ? malloc(16 + below(3000)) : NULL;
        }
        /* A cache fills in some ten seconds, and is emptied in one go. */
        for (int i = 0; i < 7 && cached < CACHE; i++) {
            cache[cached++] = malloc(200 + below(1800));
        }
        if (cached == CACHE) {
            while (cached) {
                free(cache[--cached]);
            }
        }
        nanosleep(&pause, NULL);
    }
}
