/* Ends of a process: a failed assert, a block written past its end, text over a pointer, a block used after free. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct order { char name[16]; int *count; };

__attribute__((noinline)) static int add(struct order *order) { return ++*order->count; }

int main(int argc, char **argv) {
    char *volatile blocks[6];
    int count = 0;
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "assert")) {
        int ordered = argc + 10, stock = 5;
        assert(ordered <= stock && "more ordered than in stock");
    } else if (!strcmp(argv[1], "overrun")) {
        for (int i = 0; i < 6; i++) blocks[i] = malloc(2000);
        printf("{\"block\": \"0x%lx\"}\n", (long)blocks[2]);
        fflush(stdout);
        strcpy(blocks[2], "record ");
        memset(blocks[2] + 7, 'x', 2010);
        free(blocks[3]);
    } else if (!strcmp(argv[1], "text")) {
        struct order *order = malloc(sizeof *order);
        order->count = &count;
        memcpy(order->name, "a name that is much too ", 24);
        return add(order);
    }
    return 1;
}
