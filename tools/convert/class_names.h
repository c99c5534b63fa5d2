/* The names of classes, from a file that has one on each line. */
#ifndef PIPETRAIN_CLASS_NAMES_H
#define PIPETRAIN_CLASS_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* `count` names, in one block that the caller frees with free(). NULL without memory, or, with the number of
 * names found, where it is another; empty lines are none. */
char **class_names_parse(const uint8_t *text, size_t bytes, uint32_t count, uint32_t *found_out);

#endif
