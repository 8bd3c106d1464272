/* Blocks that are kept, and blocks that are lost, in the main arena and in a
 * second one. Tells on stdout, as JSON, which is which, with the address and the
 * usable size of each; then dies by SIGABRT.
 *
 * Built with `gcc -O1 -o leaks leaks.c -lpthread`. What a function leaves on its
 * stack or in registers would keep a lost block: blocks are made in functions of
 * their own, and the stack is written over afterwards. Addresses are kept
 * turned over (~) where they are only kept for the answer. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct node {
    struct node *volatile next;
    char fill[192];
};

enum { MOST = 4096 };
struct told {
    unsigned long turned;
    unsigned long usable;
    const char *what;
};
static struct told told[MOST];
static int tellings;

static void tell(void *block, const char *what) {
    told[tellings].turned = ~(unsigned long)block;
    told[tellings].usable = malloc_usable_size(block);
    told[tellings++].what = what;
}

/* Roots of three kinds: data, a block that data leads to, the inside of a block. */
static void *volatile kept[64];
static struct node *volatile list;
static char *volatile inside[8];
static int at, insides;

__attribute__((noinline)) static void keep(void) {
    for (int i = 0; i < 20; i++) {
        void *block = malloc(1000);
        memset(block, 1, 1000);
        kept[at++] = block;
        tell(block, "kept");
    }
    for (int i = 0; i < 100; i++) {
        struct node *node = malloc(sizeof *node);
        memset(node->fill, 2, sizeof node->fill);
        node->next = list;
        list = node;
        tell(node, "kept");
    }
    for (int i = 0; i < 4; i++) {
        char *block = malloc(3000);
        memset(block, 3, 3000);
        inside[insides++] = block + 1500;
        tell(block, "kept");
    }
}

__attribute__((noinline)) static void lose(void) {
    char *volatile block;
    for (int i = 0; i < 37; i++) {
        block = malloc(5000);
        memset(block, 0x33, 5000);
        tell(block, "lost");
    }
    for (int i = 0; i < 3; i++) {
        block = malloc(400000);
        memset(block, 0x44, 400000);
        tell(block, "lost");
    }
    block = NULL;
    /* A list that nobody knows: the others are held by it. */
    struct node *volatile head = NULL;
    for (int i = 0; i < 15; i++) {
        struct node *node = malloc(sizeof *node);
        memset(node->fill, 5, sizeof node->fill);
        node->next = head;
        head = node;
        tell(node, i == 14 ? "lost" : "lost, held by a lost one");
    }
    head = NULL;
}

__attribute__((noinline)) static void clobber(void) {
    volatile char zeros[128 << 10];
    memset((void *)zeros, 0, sizeof zeros);
}

static void *second(void *unused) {
    (void)unused;
    keep();
    lose();
    clobber();
    return NULL;
}

static pthread_barrier_t never;

static void *stay(void *unused) {
    second(unused);
    pthread_barrier_wait(&never);
    return NULL;
}

int main(void) {
    static char buffer[1 << 20];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    pthread_barrier_init(&never, NULL, 9);
    keep();
    lose();
    clobber();
    pthread_t thread;
    pthread_create(&thread, NULL, stay, NULL);
    sleep(1);
    printf("{\"pid\": %d, \"blocks\": [\n", getpid());
    for (int i = 0; i < tellings; i++)
        printf("  {\"address\": \"%#lx\", \"usable\": %lu, \"what\": \"%s\"}%s\n", ~told[i].turned, told[i].usable,
               told[i].what, i + 1 < tellings ? "," : "");
    printf("]}\n");
    fflush(stdout);
    clobber();
    abort();
}
