// scan FILE: where byte strings lie in a file. Standard input has them, one a line: "ID HEX", at least 4 bytes each.
// Prints "ID OFFSET" for each time one is found (at most 1000 times each). A core with thousands of strings takes a second.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct pattern {
    int id, length, next, found;
    uint8_t *bytes;
};

enum { BUCKETS = 1 << 20 };
static int bucket[BUCKETS]; // by the first four bytes: 1 + the first of its patterns

static uint32_t bucket_of(const uint8_t *bytes) {
    uint32_t first;
    memcpy(&first, bytes, 4);
    return first * 2654435761u >> 12;
}

int main(int argc, char **argv) {
    static char hex[1 << 16];
    struct pattern *patterns = NULL;
    int count = 0, id;
    while (scanf("%d %65535s", &id, hex) == 2) {
        int length = strlen(hex) / 2;
        if (length < 4) continue;
        patterns = realloc(patterns, (count + 1) * sizeof *patterns);
        uint8_t *bytes = malloc(length);
        for (int i = 0; i < length; i++) sscanf(hex + 2 * i, "%2hhx", &bytes[i]);
        uint32_t b = bucket_of(bytes);
        patterns[count++] = (struct pattern){id, length, bucket[b], 0, bytes};
        bucket[b] = count;
    }
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &st)) return perror("scan"), 2;
    size_t size = st.st_size;
    const uint8_t *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (file == MAP_FAILED) return perror("scan"), 2;
    for (size_t at = 0; at + 4 <= size; at++) {
        uint64_t word = 1;
        if (at + 8 <= size) memcpy(&word, file + at, 8);
        if (word == 0) { // no string begins with four zeros
            at += 4;
            continue;
        }
        for (int i = bucket[bucket_of(file + at)]; i; i = patterns[i - 1].next) {
            struct pattern *p = &patterns[i - 1];
            if (at + p->length <= size && !memcmp(file + at, p->bytes, p->length) && p->found++ < 1000)
                printf("%d %zu\n", p->id, at);
        }
    }
    return 0;
}
