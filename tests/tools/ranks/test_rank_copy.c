/* Tests of copies from rank 0: what arrives is what was sent, in messages of bounded size, each of which has left before
 * the next is made. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stage/file/file.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/ranks/rank_copy.h"

#define PART RANK_COPY_PART_BYTES

/* ---- the messages on their way ---- */

static struct message *first, **last = &first;
static size_t unsent;           /* bytes since the last flush */
static size_t most_unsent;

int __wrap_ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes);
int __wrap_ranks_flush(struct ranks *ranks);
int __wrap_ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out);

int __wrap_ranks_send_all(struct ranks *ranks, enum message_kind kind, const void *data, size_t bytes)
{
    (void)ranks;
    assert_int_equal(kind, MESSAGE_COLLECTIVE);
    assert_true(bytes <= PART);
    struct message *const message = malloc(sizeof(*message) + bytes);
    *message = (struct message){ .bytes = bytes };
    if (bytes > 0)
        memcpy(message->data, data, bytes);
    *last = message;
    last = &message->next;
    unsent += bytes;
    most_unsent = unsent > most_unsent ? unsent : most_unsent;
    return 0;
}

int __wrap_ranks_flush(struct ranks *ranks)
{
    (void)ranks;
    unsent = 0;
    return 0;
}

int __wrap_ranks_receive(struct ranks *ranks, uint32_t from, enum message_kind kind, struct message **message_out)
{
    (void)ranks;
    assert_int_equal(from, 0);
    assert_int_equal(kind, MESSAGE_COLLECTIVE);
    if (first == NULL)
        return -ECANCELED;
    *message_out = first;
    first = first->next;
    last = first == NULL ? &first : last;
    return 0;
}

/* ---- copies ---- */

static uint8_t *make_data(size_t bytes)
{
    uint8_t *const data = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    return data;
}

static int make_file(const uint8_t *data, size_t bytes)
{
    const int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(file_write(fd, data, bytes), 0);
    return fd;
}

static void assert_arrives(const uint8_t *data, size_t bytes)
{
    uint64_t got = 1;
    int fd = -1;
    assert_int_equal(rank_copy_receive(NULL, &fd, &got), 0);
    assert_int_equal(got, bytes);
    uint8_t *const copy = malloc(bytes + 1);
    assert_int_equal(file_read_whole(fd, copy, bytes), 0);
    assert_memory_equal(copy, data, bytes);
    assert_null(first);
    free(copy);
    close(fd);
}

TEST(a_copy_of_any_size_arrives_in_bounded_messages)
{
    static const size_t sizes[] = { 0, 1, 8, PART - 1, PART, PART + 1, 3 * PART + 5 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *const data = make_data(sizes[i]);
        const int file = make_file(data, sizes[i]);
        most_unsent = unsent = 0;
        assert_int_equal(rank_copy_send_memory(NULL, data, sizes[i]), 0);
        assert_arrives(data, sizes[i]);
        assert_int_equal(rank_copy_send_file(NULL, file, sizes[i]), 0);
        assert_arrives(data, sizes[i]);
        assert_true(most_unsent <= PART + 2 * sizeof(uint64_t));
        close(file);
        free(data);
    }
}

/* At its beginning, and after some parts. */
TEST(a_file_that_has_become_shorter_fails_in_all_ranks)
{
    static const size_t sizes[] = { 0, 1, 2 * PART };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        uint8_t *const data = make_data(sizes[i]);
        const int file = make_file(data, sizes[i]);
        uint64_t got;
        int fd = -1;
        assert_int_equal(rank_copy_send_file(NULL, file, sizes[i] + PART / 2), -EBADMSG);
        assert_int_equal(rank_copy_receive(NULL, &fd, &got), -EIO);
        assert_null(first);
        assert_int_equal(fd, -1);
        close(file);
        free(data);
    }
}

TEST(a_rank_that_has_failed_ends_the_wait)
{
    uint64_t got;
    int fd = -1;
    assert_int_equal(rank_copy_receive(NULL, &fd, &got), -ECANCELED);
    assert_int_equal(fd, -1);
}

TESTS_MAIN(NULL, NULL)
