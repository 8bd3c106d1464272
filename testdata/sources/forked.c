// A thread that is not the main one calls fork, and the child dumps. Its core has the stacks of all threads of the
// parent: the main one, one that waits, one that was joined, and that of the child's only thread.
// Built with gcc -O1 -pthread. Prints what pthread_getattr_np says of each stack before fork.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>

static void print_stack(const char *what) {
    pthread_attr_t attr;
    void *low;
    size_t size;
    pthread_getattr_np(pthread_self(), &attr);
    pthread_attr_getstack(&attr, &low, &size);
    printf("{\"what\": \"%s\", \"low\": %lu, \"size\": %zu}", what, (unsigned long)low, size);
}

static void *joined(void *arg) { print_stack("joined"); printf(",\n"); return arg; }
static void *waiting(void *arg) { print_stack("waiting"); printf(",\n"); fflush(stdout); pause(); return arg; }

static void *forking(void *arg) {
    sleep(1);
    print_stack("forking");
    printf("],\n");
    fflush(stdout);
    pid_t child = fork();
    if (!child) abort();
    printf("\"child\": %d}\n", child);
    fflush(stdout);
    waitpid(child, 0, 0);
    _exit(0);
    return arg;
}

int main(void) {
    pthread_t thread, other;
    printf("{\"parent\": %d, \"stacks\": [\n", getpid());
    print_stack("main");
    printf(",\n");
    pthread_create(&other, 0, waiting, 0);
    pthread_create(&other, 0, forking, 0);
    // The last one, so that no other thread gets its stack.
    usleep(200000);
    pthread_create(&thread, 0, joined, 0);
    pthread_join(thread, 0);
    pause();
}
