// Puts a secret in every place that a program of C has, then waits to be dumped.
// Standard input has them masked, a line each ("place hex"), up to a line "."; put_KIND("place", to) undoes the mask where the secret
// is to lie, so that nobody made another copy. tests/canaries/secret.py finds the places in this source. @KIND:place@ is a secret that
// is compiled in.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define USED(p) __asm__ volatile("" ::"r"(p) : "memory")

// ---- what is told

static char told[1 << 16];

static int digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

// Write the secret of a place to `to`, its bytes `step` apart.
NOINLINE static void put(const char *place, volatile void *to, int step) {
    size_t n = strlen(place);
    for (char *p = told; p && *p && *p != '.'; p = strchr(p, '\n'), p += p != NULL) {
        if (strncmp(p, place, n) || p[n] != ' ') continue;
        p += n + 1;
        for (int i = 0; p[2 * i] >= '0'; i++)
            ((volatile char *)to)[i * step] = (digit(p[2 * i]) << 4 | digit(p[2 * i + 1])) ^ (0x80 | ((i * 37 + 11) & 0x7f));
        return;
    }
    dprintf(2, "nothing is told of %s\n", place);
    _exit(9);
}
static void put_text(const char *place, volatile void *to) { put(place, to, 1); }
static void put_text_utf16(const char *place, volatile void *to) { put(place, to, 2); }
static void put_text_utf32(const char *place, volatile void *to) { put(place, to, 4); }
static void put_text16(const char *place, volatile void *to) { put(place, to, 1); }
static void put_six(const char *place, volatile void *to) { put(place, to, 1); }
static void put_name(const char *place, volatile void *to) { put(place, to, 1); }
static void put_number(const char *place, volatile void *to) { put(place, to, 1); }
static void put_pin(const char *place, volatile void *to) { put(place, to, 1); }
static void put_real(const char *place, volatile double *to) {
    volatile uint64_t v;
    put(place, &v, 1);
    *to = v;
    v = 0;
}
// These are looked for where they are told to be.
static void put_at(const char *place, volatile void *to, int step) {
    put(place, to, step);
    dprintf(1, "ADDR %s %p\n", place, to);
}
static void put_small(const char *place, volatile void *to) { put_at(place, to, 1); }
static void put_leads(const char *place, volatile void *to) { put_at(place, to, 1); }
static void put_leads16_utf16(const char *place, volatile void *to) { put_at(place, to, 2); }

// ---- variables of the program

const char rodata[] = "@text:rodata@";
const char rodata_six[8] __attribute__((aligned(8))) = "@six:rodata_six@";
char data[] = "@text:data@";
const char *literal = "@text:literal@";
static char bss[64];
static uint64_t bss_number;
static __thread char tls[40];
static __thread uint64_t tls_number;

// Secrets between pointers: what stays is beside what goes.
struct mix {
    void *first;
    char six[8];
    void *second;
    uint32_t pin, small;
    void *third;
} __attribute__((aligned(16)));
static struct mix bss_mix, data_mix = {&data_mix, "", data, 1, 1, &literal};

static void put_mix(const char *place, volatile struct mix *m) {
    char name[40];
    m->first = (void *)m;
    m->second = told;
    m->third = data;
    snprintf(name, sizeof name, "%s_six", place);
    put_six(name, m->six);
    snprintf(name, sizeof name, "%s_pin", place);
    put_pin(name, &m->pin);
    snprintf(name, sizeof name, "%s_small", place);
    put_small(name, &m->small);
}

// ---- stacks

// Frames far below those that come later.
NOINLINE static void dead_frame(void) {
    volatile char a[8192];
    put_text("dead_frame_text", a + 1024);
    put_number("dead_frame_number", a + 4096);
    USED(a);
}
NOINLINE static void thread_dead_frame(void) {
    volatile char a[8192];
    put_text("thread_dead_text", a + 1024);
    put_number("thread_dead_number", a + 4096);
    USED(a);
}

static volatile int ready;

static void *second_thread(void *unused) {
    put_text("thread_tls", tls);
    put_number("thread_tls_number", &tls_number);
    char *used = malloc(100), *freed = malloc(3000), *between = malloc(64), *cached = malloc(72);
    put_text("thread_malloc", used);
    put_text("thread_malloc_freed", freed + 600);
    put_text("thread_malloc_tcache", cached + 24);
    free(freed);
    free(cached);
    volatile char local[48];
    volatile uint64_t number;
    volatile uint32_t pin, small;
    volatile struct mix mix;
    put_text("thread_local", local);
    put_number("thread_local_number", &number);
    put_pin("thread_local_pin", &pin);
    put_small("thread_local_small", &small);
    put_mix("thread_mix", &mix);
    thread_dead_frame();
    __sync_fetch_and_add(&ready, 1);
    for (;;) {
        syscall(SYS_pause);
        USED(local);
        USED(&number);
        USED(&pin);
        USED(&small);
        USED(&mix);
        USED(used);
        USED(between);
    }
    return unused;
}

// Registers: a vector (both its halves), one of MMX, general ones.
static void *spinning_thread(void *unused) {
    static __thread char vector[64] __attribute__((aligned(32)));
    static __thread uint64_t general[4];
    put_text16("register_xmm", vector);
    put_text16("register_ymm_upper", vector + 16);
    put_number("register_mmx", vector + 32);
    put_number("register_r12", general);
    put_six("register_r13_six", general + 1);
    put_pin("register_r14_pin", general + 2);
    __asm__ volatile(
        "mov (%1), %%r12\n mov 8(%1), %%r13\n mov 16(%1), %%r14\n"
        "testl %3, %3\n jz 1f\n vmovdqu (%0), %%ymm15\n jmp 2f\n"
        "1: movdqu (%0), %%xmm15\n movdqu 16(%0), %%xmm13\n"
        "2: movq 32(%0), %%mm0\n"
        "xor %%eax, %%eax\n mov %%rax, (%0)\n mov %%rax, 8(%0)\n mov %%rax, 16(%0)\n mov %%rax, 24(%0)\n mov %%rax, 32(%0)\n"
        "mov %%rax, (%1)\n mov %%rax, 8(%1)\n mov %%rax, 16(%1)\n"
        "lock incl (%2)\n 3: pause\n jmp 3b\n" ::"r"(vector),
        "r"(general), "r"(&ready), "r"(__builtin_cpu_supports("avx"))
        : "rax", "r12", "r13", "r14", "memory");
    return unused;
}

static char live_alternate[65536], dead_alternate[65536];

static void handler_that_returns(int signal) {
    volatile char b[512];
    put_text("alternate_stack_dead", b);
}

static void handler_that_stays(int signal) {
    volatile char b[512];
    put_text("alternate_stack_live", b);
    __sync_fetch_and_add(&ready, 1);
    for (;;) {
        syscall(SYS_pause);
        USED(b);
    }
}

// A register holds a secret when the signal comes: it lies in the signal's frame.
static void *signalled_thread(void *unused) {
    stack_t stack = {.ss_sp = live_alternate, .ss_size = sizeof live_alternate};
    sigaltstack(&stack, NULL);
    static __thread char vector[32];
    put_text16("signal_frame_xmm", vector);
    long thread = syscall(SYS_gettid), process = getpid();
    __asm__ volatile("movdqu (%0), %%xmm14\n movq $0, (%0)\n movq $0, 8(%0)\n"
                     "mov %3, %%eax\n mov %1, %%rdi\n mov %2, %%rsi\n mov %4, %%edx\n syscall\n 1: pause\n jmp 1b" ::"r"(vector),
                     "r"(process), "r"(thread), "i"(SYS_tgkill), "i"(SIGUSR2)
                     : "rax", "rdi", "rsi", "rdx", "rcx", "r11", "memory");
    return unused;
}

static void *exiting_thread(void *unused) {
    volatile char b[4096];
    put_text("exited_thread_stack", b + 800);
    return unused;
}

static ucontext_t coroutine_context, main_context;
static char coroutine_stack[65536] __attribute__((aligned(16)));
static void coroutine(void) {
    volatile char b[64];
    put_text("coroutine_local", b);
    swapcontext(&coroutine_context, &main_context);
    USED(b);
}

// The frame in which the first thread stays.
NOINLINE static void stay(void) {
    volatile char local[48], utf16[64] = {0}, utf32[160] = {0};
    volatile uint64_t number;
    volatile uint32_t pin, small;
    volatile double real;
    volatile struct mix mix;
    put_text("local", local);
    put_text_utf16("local_utf16", utf16);
    put_text_utf32("local_utf32", utf32);
    put_number("local_number", &number);
    put_pin("local_pin", &pin);
    put_small("local_small", &small);
    put_mix("local_mix", &mix);
    put_real("local_real", &real);
    dead_frame();
    while (ready < 4) usleep(1000);
    dprintf(1, "READY %d\n", getpid());
    for (;;) {
        syscall(SYS_pause);
        USED(local);
        USED(utf16);
        USED(utf32);
        USED(&number);
        USED(&pin);
        USED(&small);
        USED(&mix);
        USED(&real);
    }
}

// ---- malloc

static void *kept[40];
static int kept_count;
static void *keep(void *block) { return kept[kept_count++] = block; }

static void blocks(void) {
    put_text("malloc_used", keep(malloc(120)));
    char *a = keep(calloc(1, 300));
    put_text_utf16("malloc_utf16", a + 40);
    put_text_utf32("malloc_utf32", a + 120);
    a = keep(malloc(64));
    put_number("malloc_number", a);
    put_number("malloc_number_unaligned", a + 19);
    put_mix("malloc_mix", keep(malloc(sizeof(struct mix))));
    // These lie in the next block's head.
    put_number("malloc_last_8", (char *)keep(malloc(24)) + 16);
    keep(malloc(24));

    a = malloc(984);
    keep(malloc(984));
    put_text("malloc_tcache", a + 16);
    free(a);
    a = malloc(600);
    put_text("malloc_reused_tail", a + 300);
    free(a);
    memset(keep(malloc(600)), 'x', 40);
    put_text("malloc_mapped", (char *)keep(malloc(400000)) + 200000);
    a = malloc(900);
    put_text("malloc_moved", a + 500);
    keep(malloc(16));
    keep(realloc(a, 9000));
    a = malloc(60000);
    put_text("malloc_top", a + 50000);
    free(a);
    // More than the tcache has room for.
    char *alike[10];
    for (int i = 0; i < 10; i++) alike[i] = malloc(88);
    put_text("malloc_fastbin", alike[9] + 40);
    put_text("malloc_tcache_deep", alike[2] + 40);
    for (int i = 0; i < 10; i++) free(alike[i]);

    // Words that are letters, and addresses by mischance: the memory where they lead is there.
    a = keep(calloc(1, 64));
    put_leads("leads_somewhere", a);
    put_leads16_utf16("leads_somewhere_utf16", a + 16);
}

// Blocks as large as malloc's cache of a thread, full of pointers: no lists begin there, and before what they lead to is no size.
static struct user {
    char password[32], name[32];
} users[128] = {{"", "nobody"}};

static void look_alike(void) {
    put_text("static_before_pointed_at", users[24].password + 20);
    for (int k = 0; k < 16; k++) {
        char **by_name = keep(malloc(640 + 8 * k));
        for (int i = 0; i < 80 + k; i++) by_name[i] = users[(i * 7 + k * 3) % 128].name;
    }
}

// ---- mappings and files

static char *map(void *at, size_t size, int flags, int fd) {
    char *p = mmap(at, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED) perror("mmap"), _exit(8);
    return p;
}

// A file of 64 KiB that is gone when the program is.
static int file_without_name(void) {
    char name[] = "canary-XXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || ftruncate(fd, 65536)) perror(name), _exit(8);
    unlink(name);
    return fd;
}

static void mappings(void) {
    int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    char *p = map(NULL, 65536, anonymous, -1);
    put_text("map_text", p + 5000);
    put_number("map_number", p + 9000);
    put_number("map_number_unaligned", p + 9101);
    put_mix("map_mix", (struct mix *)(p + 12288));
    put_number("map_end_of_page", p + 16384 - 8);
    put_text("map_over_two_pages", p + 20480 - 9);
    int fd = memfd_create("canary", 0);
    if (ftruncate(fd, 65536)) _exit(8);
    put_text("memfd", map(NULL, 65536, MAP_SHARED, fd) + 4200);
    put_text("shared_anonymous", map(NULL, 65536, MAP_SHARED | MAP_ANONYMOUS, -1) + 100);
    int id = shmget(IPC_PRIVATE, 65536, 0600);
    put_text("shared_sysv", (char *)shmat(id, NULL, 0) + 300);
    shmctl(id, IPC_RMID, NULL);
    fd = file_without_name();
    put_text("file_shared", map(NULL, 65536, MAP_SHARED, fd) + 500);
    put_text("file_private_written", map(NULL, 65536, MAP_PRIVATE, fd) + 8192 + 500);
    // What is named like a library need not be one.
    char library[] = "canary-XXXXXX.so.1";
    fd = mkstemps(library, 5);
    if (fd < 0 || ftruncate(fd, 65536)) perror(library), _exit(8);
    put_text("file_named_like_a_library", map(NULL, 65536, MAP_PRIVATE, fd));
    unlink(library);
    put_text("map_small", map(NULL, 16384, anonymous, -1) + 64);
    // mov $number, %rax: as jitted code has it
    p = map(NULL, 8192, anonymous, -1);
    p[16] = 0x48;
    p[17] = 0xb8;
    put_number("map_code_immediate", p + 18);
    mprotect(p, 8192, PROT_READ | PROT_EXEC);
    // Where put_leads and put_leads16 lead.
    map((void *)0x556a6d704000, 0x4000, anonymous | MAP_FIXED_NOREPLACE, -1)[0] = 1;
    map((void *)0x6b00770000, 0x1000, anonymous | MAP_FIXED_NOREPLACE, -1)[0] = 1;
}

static void buffers_and_environment(void) {
    char b[64] = {0};
    put_text("stdio_write_buffer", b);
    fprintf(fdopen(file_without_name(), "w+"), "password=%s\n", b);
    memset(b, 0, sizeof b);
    int fd = file_without_name();
    put_text("stdio_read_buffer", b);
    if (write(fd, b, sizeof b) < 0 || lseek(fd, 0, SEEK_SET) || fgetc(fdopen(fd, "r")) < 0) _exit(8);
    memset(b, 0, sizeof b);
    static char variable[80] = "CANARY_PUTENV=";
    put_text("environment_putenv", variable + strlen(variable));
    putenv(variable);
    put_text("environment_setenv", b);
    setenv("CANARY_SETENV", b, 1);
    memset(b, 0, sizeof b);
}

// Freed when nothing else is to come that would take it.
static void freed_block(void) {
    char *a = malloc(20000);
    put_text("malloc_freed", a + 7000);
    put_number("malloc_freed_number", a + 8192);
    keep(malloc(16));
    free(a);
}

int main(int argc, char **argv) {
    for (size_t n = 0; !strstr(told, "\n.\n");) {
        ssize_t got = read(0, told + n, sizeof told - 1 - n);
        if (got <= 0) break;
        n += got;
    }
    // argv[1] stays as it came; argv[2] is overwritten as by setproctitle.
    memset(argv[2], 0, strlen(argv[2]));
    put_text("argument_overwritten", argv[2]);
    put_text("bss", bss);
    put_number("bss_number", &bss_number);
    put_text("tls", tls);
    put_number("tls_number", &tls_number);
    put_mix("bss_mix", &bss_mix);
    put_mix("data_mix", &data_mix);
    blocks();
    mappings();
    look_alike();
    buffers_and_environment();
    freed_block();

    pthread_t thread;
    char name[17] = {0};
    put_name("thread_name", name);
    pthread_create(&thread, NULL, second_thread, NULL);
    pthread_setname_np(thread, name);
    memset(name, 0, sizeof name);
    pthread_create(&thread, NULL, spinning_thread, NULL);
    pthread_create(&thread, NULL, exiting_thread, NULL);
    pthread_join(thread, NULL);
    struct sigaction action = {.sa_handler = handler_that_returns, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = handler_that_stays;
    sigaction(SIGUSR2, &action, NULL);
    stack_t stack = {.ss_sp = dead_alternate, .ss_size = sizeof dead_alternate};
    sigaltstack(&stack, NULL);
    raise(SIGUSR1);
    pthread_create(&thread, NULL, signalled_thread, NULL);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = coroutine_stack;
    coroutine_context.uc_stack.ss_size = sizeof coroutine_stack;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    swapcontext(&main_context, &coroutine_context);
    __sync_fetch_and_add(&ready, 1);
    stay();
    USED(kept);
    return rodata[0] + rodata_six[0] + literal[0];
}
