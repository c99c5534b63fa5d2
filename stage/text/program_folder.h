/* The folder part of commands that are printed, so that the user can paste them. */
#ifndef PIPETRAIN_PROGRAM_FOLDER_H
#define PIPETRAIN_PROGRAM_FOLDER_H

/* This program's folder as it was typed in the shell, with a slash at the end: "./" for ./pipetrain. Empty if the
 * program was found in PATH, if a shell would need quotes, or if it is longer than PROGRAM_FOLDER_MAX bytes. Static
 * storage; any thread. */
#define PROGRAM_FOLDER_MAX 127u
const char *program_folder(void);

#endif
