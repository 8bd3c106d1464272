/* The plug-in of two-libcs.c. */
#include <stdlib.h>
#include <string.h>
void **volatile pages;
int fill_catalogue(int n) { pages = malloc(n * 8l); for (int i = 0; i < n; i++) { pages[i] = malloc(700); memset(pages[i], 'c', 700); } return n; }
