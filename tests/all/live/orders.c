/* Waits in functions that only .symtab names.
   With an argument, a second thread is in vfork until the process ends. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static volatile int child_waits;

__attribute__((noinline)) static int wait_for_orders(int n) {
    for (;;) pause();
    return n;
}

__attribute__((noinline)) static void *launch_child(void *unused) {
    if (vfork() == 0) {
        /* Memory is shared with the parent, whose other threads run. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        child_waits = 1;
        for (;;) pause();
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, launch_child, argv)) return 2;
        while (!child_waits) usleep(1000);
    }
    puts("ready");
    fflush(stdout);
    return wait_for_orders(1) + 1;
}
