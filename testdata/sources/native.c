/* Small threaded program to take test cores of.
 *   native MARKERS.json MAPS.txt DIR
 * makes its mappings and threads, writes the addresses of things to
 * MARKERS.json (last, so that the file says "ready") and a copy of
 * /proc/self/maps to MAPS.txt, then waits for SIGUSR2; on that the thread
 * "w-big" writes to address 0x10 and dies of a real SIGSEGV.
 * cc -O1 -g0 -pthread -o native native.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MARK "coremap-marker-utf8"
#define MARK16 "coremap-marker-utf16"
#define KIB 1024u

static atomic_int ready, crash_now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static __thread char tls_mark[32];
char bss_block[3 * 4096] = "";
char data_block[] = "coremap-marker-data";

struct worker {
    const char *name;
    size_t stack;           /* 0: default */
    int kind;
    void *ustack;
    pthread_t th;
    long tid;
    void *heap_mark, *heap_big, *stack_mark, *tls;
};
enum { WAIT_COND, WAIT_PAUSE, CRASH, IN_HANDLER, RETURNS };

static void die(const char *what) { perror(what); _exit(1); }
#define CHECK(x, what) do { if (!(x)) die(what); } while (0)

static char *mark_in_heap(size_t n)
{
    char *p = malloc(n);
    CHECK(p, "malloc");
    memset(p, 0x5a, n);
    memcpy(p, MARK, sizeof MARK);
    return p;
}

static void in_handler(int sig)
{
    char on_alt[64] = "coremap-marker-altstack";
    (void)sig;
    __asm__ volatile("" ::"r"(on_alt) : "memory");
    atomic_fetch_add(&ready, 1);
    for (;;) pause();
}

static __attribute__((noinline)) void act(struct worker *w)
{
    switch (w->kind) {
    case CRASH:
        atomic_fetch_add(&ready, 1);
        while (!atomic_load(&crash_now)) usleep(20000);
        *(volatile int *)0x10 = 1;
        break;
    case WAIT_COND:
        pthread_mutex_lock(&lock);
        atomic_fetch_add(&ready, 1);
        for (;;) pthread_cond_wait(&never, &lock);
    case WAIT_PAUSE:
        atomic_fetch_add(&ready, 1);
        for (;;) pause();
    case IN_HANDLER:
        raise(SIGUSR1);     /* does not come back */
        break;
    }
}

static stack_t alt;

static void *run(void *p)
{
    struct worker *w = p;
    char on_stack[64] = "coremap-marker-stack";
    void *freed[8];
    int i;
    w->tid = syscall(SYS_gettid);
    pthread_setname_np(pthread_self(), w->name);
    strcpy(tls_mark, "coremap-marker-tls");
    w->tls = tls_mark;
    w->stack_mark = on_stack;
    w->heap_mark = mark_in_heap(200);
    w->heap_big = mark_in_heap(20 * KIB);
    for (i = 0; i < 8; i++) freed[i] = mark_in_heap(300 + 16 * i);
    for (i = 0; i < 8; i++) free(freed[i]);
    if (w->kind == IN_HANDLER) {
        CHECK(sigaltstack(&alt, NULL) == 0, "sigaltstack");
    }
    act(w);
    __asm__ volatile("" ::"r"(on_stack) : "memory");
    return NULL;
}

static void *map(size_t n, int prot, int flags, int fd, off_t off)
{
    void *p = mmap(NULL, n, prot, flags, fd, off);
    CHECK(p != MAP_FAILED, "mmap");
    return p;
}

static int file_of(const char *dir, const char *name, size_t n, int fill)
{
    char path[512];
    char page[4096];
    int fd;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0, path);
    memset(page, fill, sizeof page);
    for (; n; n -= sizeof page)
        CHECK(write(fd, page, sizeof page) == sizeof page, "write");
    return fd;
}

int main(int argc, char **argv)
{
    static struct worker w[] = {
        { .name = "w-small", .stack = 64 * KIB, .kind = WAIT_COND },
        { .name = "w-big", .stack = 2048 * KIB, .kind = CRASH },
        { .name = "w-default", .stack = 0, .kind = WAIT_PAUSE },
        { .name = "w-user", .stack = 128 * KIB, .kind = WAIT_PAUSE },
        { .name = "w-sig", .stack = 256 * KIB, .kind = IN_HANDLER },
        { .name = "w-gone", .stack = 192 * KIB, .kind = RETURNS },
    };
    enum { N = sizeof w / sizeof *w };
    struct sigaction sa = { .sa_handler = in_handler, .sa_flags = SA_ONSTACK };
    sigset_t set;
    int i, sig, fd, mfd;
    char path[512];
    FILE *f, *in;

    if (argc != 4) { fputs("usage: native MARKERS MAPS DIR\n", stderr); return 2; }
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGUSR1, &sa, NULL);

    /* heap of the main arena */
    char *utf8 = mark_in_heap(100);
    char *chunks[300];
    for (i = 0; i < 300; i++) chunks[i] = mark_in_heap(64 + 8 * (i % 60));
    for (i = 0; i < 300; i += 3) free(chunks[i]);
    char *mmapped_chunk = mark_in_heap(300 * KIB);
    bss_block[4096] = 1;

    /* anonymous */
    char *anon = map(16 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *u16 = (uint8_t *)anon + 0x1230;
    for (i = 0; MARK16[i]; i++) { u16[2 * i] = MARK16[i]; u16[2 * i + 1] = 0; }
    char *reserve = map(16384 * KIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *commit = reserve + 1024 * KIB;
    CHECK(mprotect(commit, 64 * KIB, PROT_READ | PROT_WRITE) == 0, "mprotect");
    memset(commit, 0xc0, 20 * KIB);
    char *untouched = map(256 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shared_anon = map(16 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    strcpy(shared_anon, "coremap-marker-shared-anon");

    /* files */
    fd = file_of(argv[3], "sample.dat", 32 * KIB, 'F');
    char *file_ro = map(32 * KIB, PROT_READ, MAP_PRIVATE, fd, 0);
    char *file_off = map(8 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 16 * KIB);
    file_off[0] = 'P';      /* one page of its own */
    char *file_sh = map(8 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 24 * KIB);
    close(fd);
    fd = file_of(argv[3], "deleted.dat", 16 * KIB, 'D');
    char *file_del = map(16 * KIB, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    snprintf(path, sizeof path, "%s/deleted.dat", argv[3]);
    unlink(path);
    char touch = file_ro[0] + file_del[0] + file_sh[0];

    /* the same memfd pages twice: writable and executable, as a JIT does */
    mfd = syscall(SYS_memfd_create, "doublemapper", 0u);
    CHECK(mfd >= 0 && ftruncate(mfd, 128 * KIB) == 0, "memfd");
    char *jit_rw = map(64 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, mfd, 0);
    char *jit_rx = map(64 * KIB, PROT_READ | PROT_EXEC, MAP_SHARED, mfd, 0);
    char *jit2_rx = map(32 * KIB, PROT_READ | PROT_EXEC, MAP_SHARED, mfd, 64 * KIB);
    char *jit2_rw = map(32 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, mfd, 64 * KIB);
    memset(jit_rw, 0xc3, 4096);
    strcpy(jit_rw + 4096, "coremap-marker-memfd");
    memset(jit2_rw, 0x90, 4096);
    touch += jit_rx[0] + jit2_rx[0];

    /* POSIX and System V shared memory */
    fd = shm_open("/coremap-test-shm", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 32 * KIB) == 0, "shm_open");
    char *shm = map(32 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    strcpy(shm, "coremap-marker-shm");
    close(fd);
    int id = shmget(IPC_PRIVATE, 20 * KIB, IPC_CREAT | 0600);
    char *sysv = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
    if (id >= 0) shmctl(id, IPC_RMID, NULL);
    if (sysv != (char *)-1) strcpy(sysv, "coremap-marker-sysv"); else sysv = NULL;

    /* threads */
    alt.ss_size = 32 * KIB;
    alt.ss_sp = map(alt.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (i = 0; i < N; i++) {
        pthread_attr_t a;
        int r;
        pthread_attr_init(&a);
        if (!strcmp(w[i].name, "w-user")) {
            w[i].ustack = map(w[i].stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            pthread_attr_setstack(&a, w[i].ustack, w[i].stack);
        } else if (w[i].stack) {
            /* 64 KiB is less than the minimum of aarch64 glibc */
            if (pthread_attr_setstacksize(&a, w[i].stack) != 0)
                pthread_attr_setstacksize(&a, 2 * w[i].stack);
        }
        if (!strcmp(w[i].name, "w-sig")) pthread_attr_setguardsize(&a, 16 * KIB);
        r = pthread_create(&w[i].th, &a, run, &w[i]);
        if (r) { errno = r; die("pthread_create"); }
        pthread_attr_destroy(&a);
        if (w[i].kind == RETURNS) pthread_join(w[i].th, NULL);
        else while (atomic_load(&ready) < i + 1) usleep(1000);
    }
    usleep(100000);

    in = fopen("/proc/self/maps", "r");
    f = fopen(argv[2], "w");
    CHECK(in && f, "maps");
    while ((i = fgetc(in)) != EOF) fputc(i, f);
    fclose(in);
    fclose(f);

    snprintf(path, sizeof path, "%s.part", argv[1]);
    f = fopen(path, "w");
    CHECK(f, path);
    fprintf(f, "{\"touch\":%d", touch);
#define P(name, p) fprintf(f, ",\"%s\":\"0x%jx\"", name, (uintmax_t)(uintptr_t)(p))
    P("heap_utf8", utf8);
    P("heap_mmapped_chunk", mmapped_chunk);
    P("anon", anon);
    P("anon_utf16le", u16);
    P("bss", bss_block);
    P("data", data_block);
    P("prot_none_reserve", reserve);
    P("prot_none_reserve_committed", commit);
    P("anon_untouched", untouched);
    P("anon_shared", shared_anon);
    P("file_private_ro", file_ro);
    P("file_private_rw_one_page_written", file_off);
    P("file_shared_rw", file_sh);
    P("file_deleted_ro", file_del);
    P("memfd_rw", jit_rw);
    P("memfd_rx", jit_rx);
    P("memfd2_rx_off_0x10000", jit2_rx);
    P("memfd2_rw_off_0x10000", jit2_rw);
    P("posix_shm", shm);
    P("sysv_shm", sysv);
    P("altstack_lo", alt.ss_sp);
    fprintf(f, ",\"altstack_size\":%zu,\"workers\":[", (size_t)alt.ss_size);
    for (i = 0; i < N; i++) {
        fprintf(f, "%s{\"name\":\"%s\",\"tid\":%ld", i ? "," : "", w[i].name, w[i].tid);
        P("heap_mark", w[i].heap_mark);
        P("heap_big", w[i].heap_big);
        P("stack_mark", w[i].stack_mark);
        P("tls_mark", w[i].tls);
        P("user_stack", w[i].ustack);
        fprintf(f, "}");
    }
    fprintf(f, "]}\n");
    fclose(f);
    rename(path, argv[1]);

    sigwait(&set, &sig);
    atomic_store(&crash_now, 1);
    for (;;) pause();
}
