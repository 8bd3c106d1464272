// Keeps 60 objects of a C++ class alive in a list. The tables are as the Itanium C++ ABI has them, written in C, because a
// C++ compiler is not needed for anything else.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct info { const void *table; const char *name; const struct info *base; };
struct table { long top; const struct info *info; void (*functions[2])(void); };

static void nothing(void) {}

// Describes itself, as the class of all classes with one base does.
extern const struct table single;
static const struct info single_info = { single.functions, "N10__cxxabiv120__si_class_type_infoE", 0 };
const struct table single = { 0, &single_info, { nothing, nothing } };

static const struct info desk_info = { single.functions, "N6office8LostDeskE", 0 };
static const struct table desk = { 0, &desk_info, { nothing, nothing } };

struct desk { const void *table; struct desk *next; long number[6]; };
struct desk *volatile desks;

int main(void) {
    for (long i = 0; i < 60; i++) {
        struct desk *one = malloc(sizeof *one);
        *one = (struct desk){ desk.functions, desks, { i } };
        desks = one;
    }
    printf("ready %p\n", (void *)desks);
    fflush(stdout);
    for (;;) pause();
}
