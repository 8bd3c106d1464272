/* Writes one text with a number to anonymous memory, to a changed page of a private file mapping, and to shared memory
 * without a file, in this order, again and again. At any moment the three numbers differ by one at most.
 * usage: changing FILE */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)

static void tell(char *at, const char *mark, unsigned long number)
{
    char text[64];
    snprintf(text, sizeof text, "beat %s %012lu ", mark, number);
    memcpy(at, text, strlen(text));
}

int main(int argc, char **argv)
{
    int file = argc > 1 ? open(argv[1], O_RDONLY) : -1, memory = memfd_create("beats", 0);
    if (file < 0 || memory < 0 || ftruncate(memory, BYTES))
        return 1;
    char *own = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *changed = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    char *shared = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (own == MAP_FAILED || changed == MAP_FAILED || shared == MAP_FAILED)
        return 1;
    for (unsigned long number = 0;; number++) {
        tell(own + 8192, "own", number);
        tell(changed + 8192, "changed", number);
        tell(shared + 8192, "shared", number);
        if (!number) {
            puts("ready");
            fflush(stdout);
        }
    }
}
