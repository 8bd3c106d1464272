/* Threads that wait for every kind of object of pthreads, with their truth. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t ring[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t left = PTHREAD_MUTEX_INITIALIZER, guard = PTHREAD_MUTEX_INITIALIZER, print = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t read_by_two, written;
static sem_t permits;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t all, start;
static pthread_t joined;
static int first = 1;

/* One wait: kind, address, this thread, and the owner's thread or 0. */
static void waits(const char *kind, void *address, int owner) {
    pthread_mutex_lock(&print);
    printf("%s\n  {\"tid\": %ld, \"kind\": \"%s\", \"address\": \"0x%lx\", \"owner\": ", first ? "" : ",", syscall(SYS_gettid), kind, (long)address);
    if (owner) printf("%d}", owner); else printf("null}");
    first = 0;
    pthread_mutex_unlock(&print);
}

static int tids[3];
static void *in_ring(void *p) {
    long i = (long)p;
    pthread_mutex_lock(&ring[i]);
    tids[i] = syscall(SYS_gettid);
    pthread_barrier_wait(&start);
    waits("mutex", &ring[(i + 1) % 3], tids[(i + 1) % 3]);
    pthread_mutex_lock(&ring[(i + 1) % 3]);
    return p;
}

static int writer_tid, ended_tid;
static void *reader(void *p) { pthread_rwlock_rdlock(&read_by_two); pause(); return p; }
static void *writer(void *p) { sleep(1); waits("rwlock", &read_by_two, 0); pthread_rwlock_wrlock(&read_by_two); return p; }
static void *holder(void *p) { pthread_rwlock_wrlock(&written); writer_tid = syscall(SYS_gettid); pause(); return p; }
static void *behind(void *p) { sleep(1); waits("rwlock", &written, writer_tid); pthread_rwlock_rdlock(&written); return p; }
static void *next_writer(void *p) { sleep(2); waits("rwlock", &written, writer_tid); pthread_rwlock_wrlock(&written); return p; }
static void *permit(void *p) { waits("semaphore", &permits, 0); sem_wait(&permits); return p; }
static void *condition(void *p) {
    waits("condvar", &never, 0);
    pthread_mutex_lock(&guard);
    for (;;) pthread_cond_wait(&never, &guard);
    return p;
}
static void *barrier(void *p) { waits("barrier", &all, 0); pthread_barrier_wait(&all); return p; }
static void *ends(void *p) { pthread_mutex_lock(&left); ended_tid = syscall(SYS_gettid); return p; }
static void *late(void *p) { waits("mutex", &left, ended_tid); pthread_mutex_lock(&left); return p; }
static int sleeper_tid;
static void *sleeper(void *p) { sleeper_tid = syscall(SYS_gettid); pause(); return p; }

int main(void) {
    void *(*const others[])(void *) = {reader, reader, writer, holder, behind, next_writer, permit, permit, condition, condition, condition, barrier, barrier};
    pthread_rwlock_init(&read_by_two, 0);
    pthread_rwlock_init(&written, 0);
    sem_init(&permits, 0, 0);
    pthread_barrier_init(&start, 0, 3);
    pthread_barrier_init(&all, 0, 3);
    printf("{\"waits\": [");
    pthread_t t;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (long i = 0; i < 3; i++) pthread_create(&t, &small, in_ring, (void *)i);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) pthread_create(&t, &small, others[i], 0);
    pthread_create(&t, &small, ends, 0);
    pthread_join(t, 0);
    pthread_create(&t, &small, late, 0);
    pthread_create(&joined, &small, sleeper, 0);
    sleep(3);
    waits("join", 0, sleeper_tid);
    printf("\n ],\n \"ended\": %d\n}\n", ended_tid);
    fflush(stdout);
    pthread_join(joined, 0);
}
