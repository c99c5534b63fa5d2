/* Properties of a terminal. */
#include "tools/lib/text/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_repaints(int fd)
{
    const char *const term = getenv("TERM");
    return isatty(fd) == 1 && term != NULL && *term != '\0' && strcmp(term, "dumb") != 0;
}

unsigned terminal_columns(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

unsigned terminal_rows(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}
