/* A process that checks itself while others look at it. It exits with 1, after a line on stderr, at the first fault:
   a system call that ends early or fails, a lost or doubled message, signal or child, a timer that is early, changed
   memory, a lock that was lost, a file too many.
   target COUNTERS: a file of 64-bit words that is mapped shared: 0 rounds of all threads, 1 EINTR of calls that may
   return it after any stop (signal(7)). SIGTERM prints the counts and ends it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 1 << 21, SLOTS = 64, PAGE = 4096 };

static volatile uint64_t *words;
static volatile sig_atomic_t over;
static uint64_t rounds[16], interrupted;

#define COUNT(n) __atomic_add_fetch(&rounds[n], 1, __ATOMIC_RELAXED)

static void fault(const char *what, long a, long b) {
    fprintf(stderr, "FAULT: %s (%ld, %ld), errno %d %s\n", what, a, b, errno, strerror(errno));
    _exit(1);
}
#define MUST(is, a, b) do { if (!(is)) fault(#is, (long)(a), (long)(b)); } while (0)

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Numbered messages over a socket and back. */
static int sockets[2];
static void *sender(void *arg) {
    for (uint64_t i = 1;; i++) {
        uint64_t back = 0;
        ssize_t n = write(sockets[0], &i, 8);
        MUST(n == 8, n, i);
        n = read(sockets[0], &back, 8);
        MUST(n == 8 && back == ~i, n, i);
        COUNT(0);
        if (i % 64 == 0) usleep(100);
    }
    return arg;
}
static void *echo(void *arg) {
    for (uint64_t i = 1;; i++) {
        uint64_t got = 0;
        ssize_t n = read(sockets[1], &got, 8);
        MUST(n == 8 && got == i, n, got);
        got = ~got;
        n = write(sockets[1], &got, 8);
        MUST(n == 8, n, i);
    }
    return arg;
}

/* Two sums that are equal whenever the mutex is free. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static uint64_t sums[2], turn;
static void *adder(void *arg) {
    uint64_t own = (uint64_t)(intptr_t)arg;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (turn % 2 != own) pthread_cond_wait(&turned, &mutex);
        MUST(sums[0] == sums[1], sums[0], sums[1]);
        sums[0] += own + 1;
        sums[1] += own + 1;
        turn++;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&mutex);
        COUNT(1);
        if (turn % 64 == 0) usleep(100);
    }
    return NULL;
}

/* A signal every millisecond, whose handler restarts calls, at a thread that reads a pipe. */
static volatile uint64_t ticks;
static int slow_pipe[2];
static pthread_t reader_thread;
static void on_tick(int signal) { (void)signal; ticks++; }
static void *reader(void *arg) {
    for (uint64_t i = 1;; i++) {
        uint64_t got = 0;
        ssize_t n = read(slow_pipe[0], &got, 8);
        MUST(n == 8 && got == i, n, got);
        COUNT(2);
    }
    return arg;
}
static void *ticker(void *arg) {
    uint64_t sent = 0, seen = 0;
    for (uint64_t i = 1;; i++) {
        int done = pthread_kill(reader_thread, SIGUSR1);
        MUST(done == 0, done, 0);
        usleep(1000);
        if (i % 16 == 0) {
            sent++;
            ssize_t n = write(slow_pipe[1], &sent, 8);
            MUST(n == 8, n, sent);
        }
        if (i % 1024 == 0) {
            MUST(ticks > seen, ticks, seen);
            seen = ticks;
        }
    }
    return arg;
}

/* Queued signals: as many arrive as were sent, in order. */
static volatile uint64_t queued;
static void on_queued(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    MUST((uint64_t)info->si_value.sival_int == (queued & 0x7fffffff), info->si_value.sival_int, queued);
    queued++;
}
static void *queuer(void *arg) {
    for (uint64_t i = 0;; i++) {
        union sigval value = {.sival_int = (int)(i & 0x7fffffff)};
        int done = pthread_sigqueue(pthread_self(), SIGRTMIN + 3, value);
        MUST(done == 0, done, i);
        MUST(queued == i + 1, queued, i);
        usleep(200);
        COUNT(3);
    }
    return arg;
}

/* Sleeps are whole, of each kind that the kernel continues in its own way. */
static void *sleeper(void *arg) {
    sem_t never;
    sem_init(&never, 0, 0);
    for (uint64_t i = 0;; i++) {
        int64_t begun = now();
        long wanted = 1000000 + (long)(i % 7) * 400000;
        struct timespec pause = {0, wanted};
        if (i % 3 == 0) {
            int done = clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
            MUST(done == 0, done, i);
        } else if (i % 3 == 1) {
            int64_t until = begun + wanted;
            struct timespec at = {until / 1000000000, until % 1000000000};
            int done = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
            MUST(done == 0, done, i);
        } else {
            struct timespec at;
            clock_gettime(CLOCK_REALTIME, &at);
            at.tv_nsec += wanted;
            if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
            int done = sem_timedwait(&never, &at);
            MUST(done == -1 && errno == ETIMEDOUT, done, i);
        }
        int64_t took = now() - begun;
        MUST(took >= wanted - 100000, took, wanted);
        COUNT(4);
    }
    return arg;
}

/* epoll_wait may end with EINTR after any stop; nothing else may go wrong. */
static void *poller(void *arg) {
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), epoll = epoll_create1(0);
    struct itimerspec every = {{0, 2000000}, {0, 2000000}};
    struct epoll_event event = {.events = EPOLLIN};
    MUST(timer >= 0 && epoll >= 0, timer, epoll);
    int64_t begun = now();
    timerfd_settime(timer, 0, &every, NULL);
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
    uint64_t fired = 0;
    for (;;) {
        int n = epoll_wait(epoll, &event, 1, 60000);
        if (n < 0 && errno == EINTR) {
            __atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
            continue;
        }
        MUST(n == 1, n, fired);
        uint64_t more = 0;
        ssize_t got = read(timer, &more, 8);
        MUST(got == 8, got, more);
        fired += more;
        int64_t due = (now() - begun) / 2000000;
        MUST((int64_t)fired <= due, fired, due);
        COUNT(5);
    }
    return arg;
}

/* Children: exactly the ones that were made are there to wait for, and each sends one SIGCHLD at its end. */
static volatile uint64_t ended;
static void on_child(int signal) { (void)signal; ended++; }
static void *parent(void *arg) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(SIG_UNBLOCK, &child, NULL);
    for (uint64_t i = 0;; i++) {
        int status = 0;
        pid_t none = waitpid(-1, &status, WNOHANG);
        MUST(none == -1 && errno == ECHILD, none, status);
        siginfo_t info;
        int done = waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG);
        MUST(done == -1 && errno == ECHILD, done, info.si_pid);
        pid_t made = fork();
        MUST(made >= 0, made, i);
        if (made == 0) _exit((int)(i % 100));
        pid_t got = wait(&status);
        MUST(got == made && WIFEXITED(status) && WEXITSTATUS(status) == (int)(i % 100), got, status);
        usleep(3000);
        MUST(ended == i + 1, ended, i);
        COUNT(6);
    }
    return arg;
}

/* Memory changes only by this thread. */
static void *memory(void *arg) {
    uint64_t *mine = malloc(WORDS * 8);
    for (uint64_t i = 0; i < WORDS; i++) mine[i] = i * 0x9e3779b97f4a7c15ULL;
    for (uint64_t round = 0;; round++) {
        for (uint64_t slot = 0; slot < SLOTS; slot++) {
            uint64_t at = (round * SLOTS + slot) * 40503 % WORDS;
            uint64_t value = mine[at];
            MUST(value == at * 0x9e3779b97f4a7c15ULL, at, value);
            /* The same value, but a page that is written. */
            ((volatile uint64_t *)mine)[at] = value;
        }
        for (uint64_t i = round % 512; i < WORDS; i += 512)
            MUST(mine[i] == i * 0x9e3779b97f4a7c15ULL, i, mine[i]);
        COUNT(7);
        usleep(500);
    }
    return arg;
}

/* Computes without a system call, in registers of every kind. */
static void *computer(void *arg) {
    for (;;) {
        double sum = 0;
        uint64_t whole = 0;
        for (int i = 1; i <= 300000; i++) sum += 1.0 / i, whole = whole * 31 + (uint64_t)i;
        static double first;
        static uint64_t first_whole;
        if (first == 0) first = sum, first_whole = whole;
        MUST(first == sum && first_whole == whole, sum * 1e6, whole);
        COUNT(8);
        usleep(2000);
    }
    return arg;
}

static int open_files(void) {
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

static void on_term(int signal) { (void)signal; over = 1; }

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    int counters = open(argv[1], O_RDWR | O_CLOEXEC);
    words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, counters, 0);
    if (words == MAP_FAILED) return 3;
    /* A lock on a file belongs to the process, and would be lost if a copy of it closed the file. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    MUST(fcntl(counters, F_SETLK, &lock) == 0, 0, 0);
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0, 0, 0);
    MUST(pipe2(slow_pipe, O_CLOEXEC) == 0, 0, 0);
    struct sigaction action = {.sa_flags = SA_RESTART};
    action.sa_handler = on_tick, sigaction(SIGUSR1, &action, NULL);
    action.sa_handler = on_child, sigaction(SIGCHLD, &action, NULL);
    struct sigaction info = {.sa_flags = SA_RESTART | SA_SIGINFO, .sa_sigaction = on_queued};
    sigaction(SIGRTMIN + 3, &info, NULL);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigaddset(&child, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &child, NULL);
    pthread_t thread;
    void *(*bodies[])(void *) = {sender, echo, adder, adder, ticker, queuer, sleeper, poller, parent, memory, computer};
    pthread_create(&reader_thread, NULL, reader, NULL);
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        pthread_create(&thread, NULL, bodies[i], (void *)(intptr_t)(i % 2));
    struct sigaction term = {.sa_handler = on_term};
    sigaction(SIGTERM, &term, NULL);
    sigdelset(&child, SIGCHLD);
    pthread_sigmask(SIG_UNBLOCK, &child, NULL);
    usleep(100000);
    int files = open_files();
    puts("ready");
    fflush(stdout);
    uint64_t before[9] = {0};
    while (!over) {
        struct timespec pause = {0, 20000000};
        nanosleep(&pause, NULL);
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < 9; i++) {
            uint64_t n = __atomic_load_n(&rounds[i], __ATOMIC_RELAXED);
            if (n - before[i] < least) least = n - before[i];
        }
        /* All threads came a step further. */
        if (least > 0) {
            for (int i = 0; i < 9; i++) before[i] = __atomic_load_n(&rounds[i], __ATOMIC_RELAXED);
            words[0]++;
        }
        words[1] = __atomic_load_n(&interrupted, __ATOMIC_RELAXED);
        MUST(open_files() == files, open_files(), files);
    }
    printf("rounds:");
    for (int i = 0; i < 9; i++) printf(" %lu", (unsigned long)rounds[i]);
    printf("; EINTR of epoll_wait: %lu\n", (unsigned long)interrupted);
    return 0;
}
