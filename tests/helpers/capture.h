/* Capture what a part of a test writes to stderr. */
#ifndef PIPETRAIN_CAPTURE_H
#define PIPETRAIN_CAPTURE_H

#include <stdio.h>
#include <unistd.h>

struct capture {
    FILE *file;
    int saved_stderr;
};

static inline void capture_begin(struct capture *capture)
{
    fflush(stderr);
    capture->file = tmpfile();
    capture->saved_stderr = dup(STDERR_FILENO);
    dup2(fileno(capture->file), STDERR_FILENO);
}

/* End capturing. Copies what was written to `text`, NUL-terminated. */
static inline void capture_end(struct capture *capture, char *text, size_t text_size)
{
    dup2(capture->saved_stderr, STDERR_FILENO);
    close(capture->saved_stderr);
    rewind(capture->file);
    const size_t bytes = fread(text, 1, text_size - 1, capture->file);
    text[bytes] = '\0';
    fclose(capture->file);
}

/* The value of `call`. What it writes to stderr is stored in the array `text`. */
#define CAPTURE(text, call)                             \
    ({                                                  \
        struct capture capture_;                        \
        capture_begin(&capture_);                       \
        __typeof__(call) result_ = (call);              \
        capture_end(&capture_, (text), sizeof(text));   \
        result_;                                        \
    })

static inline size_t capture_lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

#endif
