/* The log of a process's operations on the files of its folder, in order: written by recorder.c, which is preloaded
 * into it, read by power_log.c. Its path is in the environment variable of board.h. A record is a head, two paths and
 * the bytes that were written. Paths are relative to the folder. */
#ifndef PIPETRAIN_TEST_OP_LOG_H
#define PIPETRAIN_TEST_OP_LOG_H

#include <stdint.h>

enum op {
    OP_CREATE,          /* path: created by opening it */
    OP_MKDIR,           /* path */
    OP_RENAME,          /* path, other */
    OP_UNLINK,          /* path: of a file or a folder */
    OP_WRITE,           /* bytes at offset */
    OP_TRUNCATE,        /* to offset */
    OP_SYNC,            /* of a file */
    OP_SYNC_NAMES       /* path: of a folder */
};

struct op_head {
    uint32_t op, path_bytes, other_bytes, reserved;
    uint64_t inode, offset, bytes;
};

#endif
