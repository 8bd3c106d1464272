// Blocks of every kind in three arenas, listed on stdout as JSON; then waits to be dumped.
// Foreign sbrk in the main arena, aligned blocks with mappings of their own, every kind of free chunk.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct block { void *at; size_t usable; int live; const char *kind; };
static struct block *blocks;
static int n;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static void *keep(void *p, const char *kind, int fill)
{
    pthread_mutex_lock(&lock);
    blocks[n++] = (struct block){p, malloc_usable_size(p), 1, kind};
    pthread_mutex_unlock(&lock);
    memset(p, fill, 64 < malloc_usable_size(p) ? 64 : malloc_usable_size(p));
    return p;
}
static void drop(void *p)
{
    pthread_mutex_lock(&lock);
    for (int i = n - 1; i >= 0; i--)
        if (blocks[i].at == p && blocks[i].live) { blocks[i].live = 0; break; }
    pthread_mutex_unlock(&lock);
    free(p);
}
static void work(void)
{
    void *v[64];
    for (int i = 0; i < 40; i++) v[i] = keep(malloc(40), "small", 1);
    for (int i = 0; i < 24; i += 2) drop(v[i]);                      // 7 to the cache, 5 to a fastbin
    for (int i = 0; i < 40; i++) v[i] = keep(malloc(200), "middle", 2);
    for (int i = 0; i < 40; i += 2) drop(v[i]);                      // the rest to the unsorted list
    keep(malloc(3000), "sorter", 3);                                 // and into small bins
    for (int i = 0; i < 12; i++) v[i] = keep(malloc(2000 + 100 * i), "large", 4);
    for (int i = 0; i < 12; i += 2) drop(v[i]);
    keep(malloc(6000), "sorter", 3);                                 // large bins
    for (int i = 0; i < 6; i++) v[i] = keep(malloc(1500), "last", 5);
    drop(v[1]); drop(v[3]);                                          // left unsorted
}
static void *thread(void *x)
{
    work();
    pthread_barrier_wait(&barrier);
    for (;;) pause();
    return x;
}
int main(void)
{
    // Not in the heap that is listed.
    blocks = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_barrier_init(&barrier, 0, 3);
    work();
    memset(sbrk(1000), 'A', 1000);                                   // somebody else moves the break
    for (int i = 0; i < 80; i++) keep(malloc(2500), "behind a foreign sbrk", 6);
    size_t align[] = {32, 64, 4096, 65536};
    for (int i = 0; i < 4; i++) { void *p; if (!posix_memalign(&p, align[i], 150000)) keep(p, "aligned, mmapped", 7); }
    for (int i = 0; i < 3; i++) keep(malloc(140000), "mmapped", 8);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, thread, 0);
    pthread_barrier_wait(&barrier);
    usleep(200000);
    int fd = memfd_create("truth", 0);                               // stdio would allocate
    struct mallinfo2 m = mallinfo2();
    dprintf(fd, "{\"mallinfo2\": {\"uordblks\": %zu, \"fordblks\": %zu, \"hblks\": %zu, \"hblkhd\": %zu},\n \"blocks\": [", m.uordblks, m.fordblks, m.hblks, m.hblkhd);
    for (int i = 0; i < n; i++)
        dprintf(fd, "%s\n  [\"%p\", %zu, %s, \"%s\"]", i ? "," : "", blocks[i].at, blocks[i].usable, blocks[i].live ? "true" : "false", blocks[i].kind);
    dprintf(fd, "\n ]}\n");
    char buf[4096];
    lseek(fd, 0, SEEK_SET);
    for (ssize_t k; (k = read(fd, buf, sizeof buf)) > 0;) if (write(1, buf, k) < 0) return 1;
    for (;;) pause();
}
