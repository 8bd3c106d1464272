/* Fibers by makecontext that wait: with a guard, without one, and on a stack from malloc. A thread runs on a fiber's
   stack too. Prints each stack and its purpose as JSON, and aborts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { GUARDED = 40, BARE = 5, ALLOCATED = 4, ALL = GUARDED + BARE + ALLOCATED, SIZE = 64 << 10, PAGE = 4096 };
static ucontext_t hub[ALL], fiber[ALL], thread_hub, thread_fiber;
static char *stacks[ALL];
static volatile int arrived;

static void wait_in_fiber(int n) {
    volatile char used[6000];
    memset((void *)used, n | 1, sizeof used);
    swapcontext(&fiber[n], &hub[n]);
    putchar(used[n]);
}

static void wait_in_thread(void) {
    volatile char used[6000];
    memset((void *)used, 7, sizeof used);
    for (arrived = used[1];;) pause();
}

static void prepare(ucontext_t *context, char *stack, ucontext_t *link) {
    getcontext(context);
    context->uc_stack.ss_sp = stack;
    context->uc_stack.ss_size = SIZE;
    context->uc_link = link;
}

static char *map(void) {
    char *at = mmap(0, PAGE + SIZE + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at + PAGE, SIZE, PROT_READ | PROT_WRITE);
    return at + PAGE;
}

static void *run_thread(void *stack) {
    prepare(&thread_fiber, stack, &thread_hub);
    makecontext(&thread_fiber, wait_in_thread, 0);
    swapcontext(&thread_hub, &thread_fiber);
    return 0;
}

int main(void) {
    for (int i = 0; i < ALL; i++) {
        if (i < GUARDED) stacks[i] = map();
        else if (i >= GUARDED + BARE) stacks[i] = malloc(SIZE);
        else {
            /* Writable memory below, so that there is no guard. */
            char *at = mmap(0, PAGE + SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(at, 1, PAGE);
            mprotect(at + PAGE + SIZE, PAGE, PROT_NONE);
            stacks[i] = at + PAGE;
        }
        prepare(&fiber[i], stacks[i], &hub[i]);
        makecontext(&fiber[i], (void (*)(void))wait_in_fiber, 1, i);
        swapcontext(&hub[i], &fiber[i]);
    }
    pthread_t thread;
    char *stack = map();
    pthread_create(&thread, 0, run_thread, stack);
    while (!arrived) usleep(1000);
    printf("{\"size\": %d, \"guard\": %d, \"thread\": \"%p\", \"stacks\": [", SIZE, PAGE, (void *)stack);
    for (int i = 0; i < ALL; i++) {
        const char *kind = i < GUARDED ? "guarded" : i < GUARDED + BARE ? "bare" : "allocated";
        printf("%s{\"low\": \"%p\", \"kind\": \"%s\"}", i ? ", " : "", (void *)stacks[i], kind);
    }
    puts("]}");
    fflush(stdout);
    abort();
}
