/* The folder that a printed command begins with, so that it can be pasted. */
#ifndef PIPETRAIN_PROGRAM_FOLDER_H
#define PIPETRAIN_PROGRAM_FOLDER_H

/* The folder of this program as the shell was given it, with a slash at the end: "./" for ./pipetrain. Empty if the
 * program was found in PATH, if a shell would need quotes, and if it has more than PROGRAM_FOLDER_MAX bytes. Static
 * storage; any thread. */
#define PROGRAM_FOLDER_MAX 127u
const char *program_folder(void);

#endif
