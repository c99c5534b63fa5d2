/* Lists of CPUs as the kernel writes them: "0-3,8,10-11". */
#ifndef PIPETRAIN_CPU_LIST_H
#define PIPETRAIN_CPU_LIST_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

/* CPUs of a list, which may end with a line. False when it is none, or names CPUs from CPU_SETSIZE on. */
bool cpu_list_parse(const char *list, cpu_set_t *cpus_out);
/* The list of a set, "" of an empty one; one that is too long for the room, of 4 bytes at least, ends in dots. */
void cpu_list_write(const cpu_set_t *cpus, char *text, size_t text_size);

#endif
