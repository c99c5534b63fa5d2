/* What to say of long options that a program does not have. */
#ifndef PIPETRAIN_LONG_OPTION_H
#define PIPETRAIN_LONG_OPTION_H

#include <getopt.h>

/* Refuse what getopt_long would take for another option or say little about: long options that are not in `rows`
 * (ended by a NULL name), abbreviations of those that are, and negative numbers. Before getopt_long, and with the
 * same words. 0, or -EINVAL after a message with the nearest name. */
int long_option_check(int argc, char **argv, const struct option *rows);

#endif
