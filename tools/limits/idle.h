/* How much the machine's processors had nothing to do, whoever kept the others busy. */
#ifndef PIPETRAIN_IDLE_H
#define PIPETRAIN_IDLE_H

/* Seconds that all of them together were idle, since the machine's start; of two calls the difference counts. NAN where
 * that is not known. */
double idle_seconds(void);
/* The same from a text as of /proc/stat, in ticks. */
double idle_ticks(const char *text);

#endif
