/* Tests of how the ranks of a run agree on its end. All ranks are in this process (tests/helpers/fake_mpi.h). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage/thread.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/fake_mpi.h"
#include "tests/helpers/test.h"
#include "tools/lib/run/ranks/shutdown.h"

enum { RANKS = 3, WAITS_MAX = 100000 };         /* waits of 0.1 ms each */

static struct ranks *ranks[FAKE_RANKS_MAX];

/* What a rank brings, and what it gets. */
static struct end {
    uint32_t rank;
    int code;
    bool has_failed;
    struct run_back back;
} ends[RANKS];

static void reach(void *arg)
{
    struct end *const end = arg;
    end->code = shutdown_agree(ranks[end->rank], end->code, end->has_failed, &end->back);
}

static void open_ranks(void)
{
    fake_mpi_reset(RANKS, 3, 1);
    fake_ranks_open(ranks, RANKS, 60);
}

static void reach_all(const int codes[RANKS], uint32_t failed, const char *folder)
{
    struct thread *threads[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        ends[rank] = (struct end){ .rank = rank, .code = codes[rank], .has_failed = rank == failed };
        if (rank == 0)
            strcpy(ends[0].back.folder, folder);
        assert_int_equal(thread_start(&threads[rank], "end", reach, &ends[rank]), 0);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        thread_join(threads[rank]);
}

static void check(const int codes[RANKS], const char *folder)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(ends[rank].code, codes[rank]);
        assert_string_equal(ends[rank].back.folder, folder);
    }
}

TEST(all_ranks_end_as_rank_0_does)
{
    static const struct { int brought[RANKS], got[RANKS]; } rows[] = {
        { { 0, 0, 0 }, { 0, 0, 0 } },
        { { EXIT_CODE_STOPPED, 0, EXIT_CODE_STOPPED }, { EXIT_CODE_STOPPED, EXIT_CODE_STOPPED, EXIT_CODE_STOPPED } },
        { { 0, EXIT_CODE_STOPPED, 0 }, { 0, 0, 0 } },
        { { EXIT_CODE_OUTPUT, 0, 0 }, { EXIT_CODE_OUTPUT, EXIT_CODE_RANK, EXIT_CODE_RANK } },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        open_ranks();
        reach_all(rows[i].brought, RANKS, "");
        check(rows[i].got, "");
        fake_ranks_close(ranks, RANKS);
    }
}

TEST(all_ranks_go_back_where_rank_0_does)
{
    static const int brought[RANKS] = { EXIT_CODE_NONFINITE, 0, 0 };
    static const int got[RANKS] = { EXIT_CODE_NONFINITE, EXIT_CODE_NONFINITE, EXIT_CODE_NONFINITE };
    open_ranks();
    reach_all(brought, RANKS, "runs/a");
    check(got, "runs/a");
    fake_ranks_close(ranks, RANKS);
}

/* Ranks that have failed cannot be closed (test_ranks.c). */
static void fail_rank_1(void)
{
    struct capture capture;
    char text[4096];
    struct stop *stop;
    open_ranks();
    assert_int_equal(stop_open(&stop), 0);
    assert_int_equal(ranks_set_stop(ranks[1], stop), 0);
    capture_begin(&capture);
    stop_fail(stop, EXIT_CODE_DATA, "shard 7 is damaged");
    for (uint32_t rank = 0; rank < RANKS; rank++)
        for (int waits = 0; waits < WAITS_MAX && !ranks_failed(ranks[rank]); waits++)
            usleep(100);
    capture_end(&capture, text, sizeof(text));
    assert_int_equal(ranks_set_stop(ranks[1], NULL), 0);
    stop_close(stop);
}

TEST(no_rank_goes_back_after_one_has_failed)
{
    static const int brought[RANKS] = { EXIT_CODE_NONFINITE, EXIT_CODE_DATA, 0 };
    static const int got[RANKS] = { EXIT_CODE_NONFINITE, EXIT_CODE_DATA, EXIT_CODE_NONFINITE };
    fail_rank_1();
    reach_all(brought, 1, "runs/a");
    check(got, "");
}

TEST(a_rank_that_fails_at_the_end_is_in_the_code_of_all)
{
    static const int brought[RANKS] = { 0, EXIT_CODE_DATA, 0 };
    static const int got[RANKS] = { EXIT_CODE_RANK, EXIT_CODE_DATA, EXIT_CODE_RANK };
    fail_rank_1();
    reach_all(brought, 1, "");
    check(got, "");
}

TESTS_MAIN(NULL, NULL)
