// A program that keeps memory of one shape and then aborts:
//   shapes mmap     mappings of random sizes, side by side, of which nothing points at most
//   shapes nodes    a list of small nodes from malloc
//   shapes vector   one vector that grew
//   shapes ended    stacks of threads that ended and that nobody joined
//   shapes memfd    shared pages of memfd
// It writes to standard output, as JSON, what it keeps: the shape and its bytes.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { KEPT = 24 << 20, PAGE = 4096 };

struct node {
    struct node *next;
    long key, value, more, last;
};

static struct node *list;
static double *vector;
static char *last_mapping;

static unsigned long mappings(void) {
    unsigned long sum = 0;
    unsigned seed = 7;
    while (sum < KEPT) {
        unsigned long size = (1 + rand_r(&seed) % 200) * PAGE;
        char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (unsigned long i = 0; i < size; i++) at[i] = "frame of a picture, "[i % 20];
        last_mapping = at;
        sum += size;
    }
    return sum;
}

static unsigned long nodes(void) {
    unsigned long count = KEPT / sizeof(struct node);
    for (unsigned long i = 0; i < count; i++) {
        struct node *node = malloc(sizeof *node);
        *node = (struct node){.next = list, .key = 1, .value = 2};
        list = node;
    }
    return count * sizeof(struct node);
}

static unsigned long grown(void) {
    unsigned long room = 16, used = 0;
    vector = malloc(room * sizeof *vector);
    while (used * sizeof *vector < KEPT) {
        if (used == room) vector = realloc(vector, (room *= 2) * sizeof *vector);
        vector[used++] = 0.5;
    }
    return used * sizeof *vector;
}

static void *touch(void *arg) {
    volatile char deep[64 * 1024];
    for (unsigned i = 0; i < sizeof deep; i += PAGE) deep[i] = 1;
    return arg;
}

static unsigned long ended(void) {
    enum { THREADS = 60 };
    pthread_t thread;
    pthread_attr_t attr;
    size_t size;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 2 << 20);
    pthread_attr_getstacksize(&attr, &size);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread, &attr, touch, 0);
        usleep(2000);
    }
    return THREADS * size;
}

static unsigned long shared(void) {
    int file = memfd_create("frames", 0);
    if (ftruncate(file, KEPT)) abort();
    memset(mmap(0, KEPT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), 0x33, KEPT);
    return KEPT;
}

int main(int argc, char **argv) {
    const char *shape = argc > 1 ? argv[1] : "";
    unsigned long bytes = !strcmp(shape, "mmap") ? mappings()
                        : !strcmp(shape, "nodes") ? nodes()
                        : !strcmp(shape, "vector") ? grown()
                        : !strcmp(shape, "ended") ? ended()
                        : shared();
    printf("{ \"pid\": %d, \"shape\": \"%s\", \"bytes\": %lu }\n", getpid(), shape, bytes);
    fflush(stdout);
    abort();
}
