// Blocks of musl's malloc of many size classes, in two threads, listed on stdout as JSON; then waits to be dumped.
// Freed ones of each class, aligned ones far into their slots, and some with mappings of their own.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct block { void *at; size_t asked; int live; const char *kind; };
static struct block *blocks;
static int n;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static void *keep(void *p, size_t asked, const char *kind)
{
    pthread_mutex_lock(&lock);
    blocks[n++] = (struct block){p, asked, 1, kind};
    pthread_mutex_unlock(&lock);
    memset(p, n, asked < 64 ? asked : 64);
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
    // Around the border of each class, several rounds so that places in slots move on.
    for (int round = 0; round < 3; round++)
        for (size_t size = 0; size < 9000; size += size / 5 + 3) {
            void *v[6];
            for (int i = 0; i < 6; i++) v[i] = keep(malloc(size), size, "small");
            for (int i = round; i < 6; i += 2) drop(v[i]);
        }
    for (size_t size = 16000; size < 120000; size += size / 3) {
        void *v[3];
        for (int i = 0; i < 3; i++) v[i] = keep(malloc(size), size, "large");
        drop(v[1]);
    }
    for (size_t align = 32; align <= 1 << 16; align *= 4) {
        void *p;
        if (!posix_memalign(&p, align, 700)) keep(p, 700, "aligned");
        if (!posix_memalign(&p, align, 70)) { keep(p, 70, "aligned"); drop(p); }
    }
    for (int i = 0; i < 4; i++) {
        void *p = keep(malloc(140000 + 1000 * i), 140000 + 1000 * i, "mmapped");
        if (i == 1) drop(p);
    }
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
    pthread_barrier_init(&barrier, 0, 2);
    work();
    // An alignment that the header's 16 bits are too few for.
    void *p;
    if (!posix_memalign(&p, 4 << 20, 5000)) keep(p, 5000, "aligned far");
    pthread_t t;
    pthread_create(&t, 0, thread, 0);
    pthread_barrier_wait(&barrier);
    usleep(200000);
    int fd = memfd_create("truth", 0);                               // stdio would allocate
    dprintf(fd, "{\"blocks\": [");
    for (int i = 0; i < n; i++)
        dprintf(fd, "%s\n  [\"%p\", %zu, %s, \"%s\"]", i ? "," : "", blocks[i].at, blocks[i].asked, blocks[i].live ? "true" : "false", blocks[i].kind);
    dprintf(fd, "\n ]}\n");
    char buf[4096];
    lseek(fd, 0, SEEK_SET);
    for (ssize_t k; (k = read(fd, buf, sizeof buf)) > 0;) if (write(1, buf, k) < 0) return 1;
    for (;;) pause();
}
