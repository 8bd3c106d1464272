/* A program that loads a plug-in into a namespace of its own (dlmopen), and so has two copies of the C library, each
 * with a heap. The program has 2,000 blocks of 400 bytes and an array of 16,000 bytes; the plug-in has 3,000 blocks of
 * 700 bytes and an array of 24,000 bytes. All of them are in use.
 *
 * Built with `gcc -O1 -o two-libcs two-libcs.c` and `gcc -O1 -shared -fPIC -o plug.so two-libcs-plug.c`. Run with the
 * path of plug.so. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void **volatile orders;
int main(int c, char **v) {
  orders = malloc(2000 * 8); for (int i = 0; i < 2000; i++) { orders[i] = malloc(400); memset(orders[i], 'o', 400); }
  void *h = dlmopen(LM_ID_NEWLM, v[1], RTLD_NOW | RTLD_LOCAL); if (!h) { puts(dlerror()); return 1; }
  int (*fill)(int) = dlsym(h, "fill_catalogue"); printf("READY {\"pid\": %d, \"own\": 2000, \"plugin\": %d}\n", getpid(), fill(3000)); fflush(stdout);
  for (;;) pause();
}
