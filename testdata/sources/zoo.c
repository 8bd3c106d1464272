/* Stacks and mappings of every kind that a program can have, for the tests of what
 * the map calls them. Writes a line `kind name start end` for each into truth.txt,
 * and `thread name tid` for each thread, then waits to be dumped.
 *
 *   gcc -O1 -g0 -pthread -o zoo zoo.c; zoo DIR
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define KIB 1024ul
#define MIB (1024ul * KIB)

static FILE *truth;
static sem_t parked;

static void note(const char *kind, const char *name, void *start, size_t size) {
    fprintf(truth, "%s %s %p %p\n", kind, name, start, (char *)start + size);
    fflush(truth);
}

static void *anonymous(size_t size) {
    return mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Every thread ends up here. */
__attribute__((noinline)) static void park(void) {
    sem_post(&parked);
    for (;;)
        pause();
}

/* Uses some stack first, so that what is in use is more than a page. */
__attribute__((noinline)) static int deep(int n) {
    volatile char room[600];
    room[0] = (char)n;
    if (n == 0)
        park();
    return deep(n - 1) + room[0];
}

static void own(const char *name) {
    pthread_attr_t attr;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &low, &size);
    fprintf(truth, "thread %s %d\n", name, (int)syscall(SYS_gettid));
    note("own", name, low, size);
}

static void *plain(void *name) {
    own(name);
    deep(8);
    return 0;
}

/* --- signal handlers on alternate stacks --- */

static void alternate(void *low, size_t size) {
    stack_t st = {.ss_sp = low, .ss_size = size};
    sigaltstack(&st, 0);
}

static void park_handler(int signal) {
    (void)signal;
    deep(3);
}

/* A handler that another signal interrupts, on the same stack. */
static void raise_again(int signal) {
    (void)signal;
    raise(SIGUSR1);
}

static void *on_mapped_alternate(void *unused) {
    (void)unused;
    own("alternate");
    void *st = anonymous(64 * KIB);
    note("signal", "alternate", st, 64 * KIB);
    alternate(st, 64 * KIB);
    raise(SIGUSR1);
    return 0;
}

static void *on_malloc_alternate(void *unused) {
    (void)unused;
    own("alternate_malloc");
    void *st = malloc(32 * KIB);
    note("signal", "alternate_malloc", st, 32 * KIB);
    alternate(st, 32 * KIB);
    raise(SIGUSR1);
    return 0;
}

static void *on_nested(void *unused) {
    (void)unused;
    own("alternate_nested");
    void *st = anonymous(64 * KIB);
    note("signal", "alternate_nested", st, 64 * KIB);
    alternate(st, 64 * KIB);
    raise(SIGUSR2);
    return 0;
}

__attribute__((noinline)) static int overflow(int n) {
    volatile char room[1000];
    room[n % 1000] = (char)n;
    return overflow(n + 1) + room[0];
}

static void *overflowed(void *unused) {
    (void)unused;
    own("overflowed");
    void *st = anonymous(64 * KIB);
    note("signal", "overflowed", st, 64 * KIB);
    alternate(st, 64 * KIB);
    return (void *)(long)overflow(0);
}

/* --- stacks that a thread switches to --- */

static void switch_to(void *low, size_t size) {
    static __thread ucontext_t here, there;
    getcontext(&there);
    there.uc_stack.ss_sp = low;
    there.uc_stack.ss_size = size;
    there.uc_link = &here;
    makecontext(&there, (void (*)(void))deep, 1, 4);
    swapcontext(&here, &there);
}

static void *on_fiber(void *unused) {
    (void)unused;
    own("fiber");
    /* A guard on either side, as libraries of coroutines have it. */
    char *st = anonymous(136 * KIB);
    mprotect(st, 4 * KIB, PROT_NONE);
    mprotect(st + 132 * KIB, 4 * KIB, PROT_NONE);
    note("switched", "fiber", st + 4 * KIB, 128 * KIB);
    switch_to(st + 4 * KIB, 128 * KIB);
    return 0;
}

static void *on_malloc_fiber(void *unused) {
    (void)unused;
    own("fiber_malloc");
    void *st = malloc(48 * KIB);
    note("switched", "fiber_malloc", st, 48 * KIB);
    switch_to(st, 48 * KIB);
    return 0;
}

static void *on_shared_fiber(void *low) {
    own(low == 0 ? "?" : *(char *)low ? "fiber_shared_b" : "fiber_shared_a");
    switch_to(low, 64 * KIB);
    return 0;
}

static ucontext_t resting[4], back;
static void rest(int i) {
    volatile char room[3000];
    memset((void *)room, i + 1, sizeof room);
    swapcontext(&resting[i], &back);
    room[0]++;
}

static void start(void *(*f)(void *), void *arg, void *stack, size_t size) {
    pthread_attr_t attr;
    pthread_t t;
    pthread_attr_init(&attr);
    if (stack)
        pthread_attr_setstack(&attr, stack, size);
    else
        pthread_attr_setstacksize(&attr, 256 * KIB);
    if (pthread_create(&t, &attr, f, arg))
        abort();
    sem_wait(&parked);
}

static void threads(void) {
    static char in_bss[256 * KIB] __attribute__((aligned(4096)));
    start(plain, "plain", 0, 0);
    start(plain, "given_mapped", anonymous(256 * KIB), 256 * KIB);
    start(plain, "given_static", in_bss, sizeof in_bss);
    /* malloc's own alignment, and in the middle of an arena */
    start(plain, "given_malloc", malloc(96 * KIB), 96 * KIB);
    start(on_mapped_alternate, 0, 0, 0);
    start(on_malloc_alternate, 0, 0, 0);
    start(on_nested, 0, 0, 0);
    start(overflowed, 0, 0, 0);
    start(on_fiber, 0, 0, 0);
    start(on_malloc_fiber, 0, 0, 0);
    /* Two threads on stacks cut from one mapping. */
    char *both = anonymous(128 * KIB);
    both[64 * KIB] = 1;
    note("switched_shared", "fiber_shared_a", both, 64 * KIB);
    note("switched_shared", "fiber_shared_b", both + 64 * KIB, 64 * KIB);
    start(on_shared_fiber, both, 0, 0);
    start(on_shared_fiber, both + 64 * KIB, 0, 0);
    for (int i = 0; i < 4; i++) {
        char *st = anonymous(68 * KIB);
        mprotect(st, 4 * KIB, PROT_NONE);
        note("resting", "fiber_resting", st + 4 * KIB, 64 * KIB);
        getcontext(&resting[i]);
        resting[i].uc_stack.ss_sp = st + 4 * KIB;
        resting[i].uc_stack.ss_size = 64 * KIB;
        makecontext(&resting[i], (void (*)(void))rest, 1, i);
        swapcontext(&back, &resting[i]);
    }
}

static void mappings(const char *dir) {
    char path[4096];
    int fd = memfd_create("zoo", 0);
    if (ftruncate(fd, MIB))
        abort();
    char *rw = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(rw, 0x33, MIB);
    note("memfd", "memfd_rw", rw, MIB);
    note("memfd", "memfd_ro", mmap(0, MIB, PROT_READ, MAP_SHARED, fd, 0), MIB);
    char *copy = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    copy[5] = 1;
    note("memfd", "memfd_private", copy, MIB);

    int id = shmget(IPC_PRIVATE, MIB, IPC_CREAT | 0600);
    void *sysv = shmat(id, 0, 0);
    memset(sysv, 0x44, MIB);
    shmctl(id, IPC_RMID, 0);
    note("shared", "sysv", sysv, MIB);

    fd = shm_open("/coremap-zoo", O_CREAT | O_RDWR, 0600);
    if (ftruncate(fd, MIB))
        abort();
    void *posix = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(posix, 0x55, MIB);
    shm_unlink("/coremap-zoo");
    note("shm", "posix", posix, MIB);

    void *shared = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 0x66, MIB);
    note("shared", "shared_anonymous", shared, MIB);

    fd = open("/dev/zero", O_RDWR);
    void *zero = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    memset(zero, 0x77, MIB);
    note("anonymous", "dev_zero_private", zero, MIB);

    void *huge = mmap(0, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    if (huge != MAP_FAILED) {
        memset(huge, 0x22, 4 * MIB);
        note("anonymous", "hugetlb", huge, 4 * MIB);
    }

    struct io_uring_params p = {0};
    fd = (int)syscall(SYS_io_uring_setup, 64, &p);
    if (fd >= 0) {
        size_t size = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
        size_t entries = p.sq_entries * sizeof(struct io_uring_sqe);
        int both = PROT_READ | PROT_WRITE;
        note("kernel", "io_uring", mmap(0, size, both, MAP_SHARED, fd, IORING_OFF_SQ_RING), size);
        note("kernel", "io_uring_sqes", mmap(0, entries, both, MAP_SHARED, fd, IORING_OFF_SQES), entries);
    }

    void *left_out = anonymous(MIB);
    memset(left_out, 0x88, MIB);
    madvise(left_out, MIB, MADV_DONTDUMP);
    note("anonymous", "dontdump", left_out, MIB);

    char *code = anonymous(64 * KIB);
    memset(code, 0x90, 64 * KIB);
    mprotect(code, 64 * KIB, PROT_READ | PROT_EXEC);
    note("code", "jit_rx", code, 64 * KIB);
    void *rwx = mmap(0, 64 * KIB, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(rwx, 0x91, 64 * KIB);
    note("code", "jit_rwx", rwx, 64 * KIB);

    fd = open("/proc/self/exe", O_RDONLY);
    note("file", "elf_as_data", mmap(0, 8 * KIB, PROT_READ, MAP_PRIVATE, fd, 0), 8 * KIB);
    snprintf(path, sizeof path, "%s/data.bin", dir);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    if (ftruncate(fd, MIB))
        abort();
    void *file = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(file, 1, MIB);
    unlink(path);
    note("file", "deleted_file", file, MIB);

    char *reserve = mmap(0, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    note("reserve", "reserve_low", reserve, 16 * MIB);
    mprotect(reserve + 16 * MIB, MIB, PROT_READ | PROT_WRITE);
    memset(reserve + 16 * MIB, 0x99, MIB);
    note("anonymous", "reserve_committed", reserve + 16 * MIB, MIB);
    note("reserve", "reserve_high", reserve + 17 * MIB, 47 * MIB);

    char *grows = mmap(0, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    grows[100] = 1;
    note("anonymous", "growsdown", grows, MIB);

    void *big = malloc(5 * MIB);
    memset(big, 0xaa, 5 * MIB);
    note("malloc", "big_malloc", big, 5 * MIB);
}

int main(int argc, char **argv) {
    const char *dir = argc > 1 ? argv[1] : ".";
    mallopt(M_ARENA_MAX, 2); /* gcore writes the reserve of each */
    char path[4096];
    snprintf(path, sizeof path, "%s/truth.txt", dir);
    truth = fopen(path, "w");
    sem_init(&parked, 0, 0);
    struct sigaction handler = {.sa_handler = park_handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaction(SIGUSR1, &handler, 0);
    sigaction(SIGSEGV, &handler, 0);
    handler.sa_handler = raise_again;
    sigaction(SIGUSR2, &handler, 0);
    threads();
    mappings(dir);
    fprintf(truth, "ready %d\n", getpid());
    fclose(truth);
    for (;;)
        pause();
}
