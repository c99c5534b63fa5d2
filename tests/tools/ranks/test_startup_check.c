/* Tests of what the ranks of a run agree on before it begins: one exit code, every message once, and the same facts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage/stop.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/network/tower_fixture.h"
#include "tests/helpers/test.h"
#include "tools/lib/config/config.h"
#include "tools/lib/run/ranks/startup_check.h"
#include "tools/lib/run/ranks/startup_report.h"

#define RANKS_MAX 64u

static char said[1 << 16];
static char names[RANKS_MAX][40];

/* Ranks that can start, with no messages: two on a host. */
static void make_parts(struct rank_status *parts, uint32_t count)
{
    for (uint32_t rank = 0; rank < count; rank++) {
        snprintf(names[rank], sizeof(names[rank]), "rank %u (node%u)", rank, rank / 2);
        parts[rank] = (struct rank_status){ .name = names[rank], .messages = "" };
    }
}

static int report(const struct rank_status *parts, uint32_t count)
{
    return CAPTURE(said, startup_report(parts, count));
}

TEST(ranks_that_agree_say_nothing)
{
    struct rank_status parts[4];
    make_parts(parts, 4);
    for (int rank = 0; rank < 4; rank++)
        parts[rank].facts = "train.batch\t128\n";
    assert_int_equal(report(parts, 4), 0);
    assert_string_equal(said, "");
}

TEST(a_message_of_all_ranks_is_printed_once_as_by_one_process)
{
    struct rank_status parts[4];
    make_parts(parts, 4);
    for (int rank = 0; rank < 4; rank++) {
        parts[rank].code = EXIT_CODE_USAGE;
        parts[rank].messages = "Brun.conf:3: unknown key\nAno configuration\n";
    }
    assert_int_equal(report(parts, 4), EXIT_CODE_USAGE);
    assert_string_equal(said, "run.conf:3: unknown key\npipetrain: no configuration\n");
}

TEST(messages_of_other_ranks_name_them_and_their_hosts)
{
    struct rank_status parts[8];
    make_parts(parts, 8);
    parts[0].messages = "Aours\n";
    parts[2].messages = "Atheirs alone\nAtheirs\n";
    for (int rank = 4; rank < 6; rank++)
        parts[rank].messages = "Aours\nAtheirs\n";
    for (int rank = 1; rank < 8; rank++)
        if (rank != 4)
            parts[rank].messages = rank == 2 || rank == 5 ? parts[rank].messages : "Bon many\n";
    assert_int_equal(report(parts, 8), 0);
    assert_string_equal(said, "pipetrain: ours\n"
                              "ranks 1, 3, 6-7 (node0, node1, node3): on many\n"
                              "pipetrain: rank 2 (node1): theirs alone\n"
                              "pipetrain: ranks 2, 4-5 (node1, node2): theirs\n");
}

TEST(all_end_with_the_code_of_the_lowest_rank_that_has_one)
{
    struct rank_status parts[4];
    make_parts(parts, 4);
    parts[1].code = EXIT_CODE_DATA;
    parts[3].code = EXIT_CODE_OUTPUT;
    assert_int_equal(report(parts, 4), EXIT_CODE_DATA);
    parts[0].code = EXIT_CODE_OUTPUT;
    assert_int_equal(report(parts, 4), EXIT_CODE_OUTPUT);
}

TEST(a_difference_names_the_values_of_rank_0_and_of_the_first_rank_with_another)
{
    struct rank_status parts[4];
    make_parts(parts, 4);
    for (int rank = 0; rank < 4; rank++)
        parts[rank].facts = "train.batch\t128\ntrain.epochs\t3\nmodel.skip\t\n";
    parts[2].facts = "train.batch\t64\ntrain.epochs\t3\nmodel.skip\tfc*\n";
    parts[3].facts = "train.batch\t32\ntrain.epochs\t3\nmodel.skip\tfc*\n";
    assert_int_equal(report(parts, 4), EXIT_CODE_USAGE);
    assert_string_equal(said,
                        "pipetrain: train.batch is 128 on rank 0 (node0), but 64 on rank 2 (node1): all ranks need "
                        "the same\n"
                        "pipetrain: model.skip is not set on rank 0 (node0), but fc* on rank 2 (node1): all ranks "
                        "need the same\n");
}

TEST(data_that_differ_have_their_own_code_and_notes_have_none)
{
    struct rank_status parts[2];
    make_parts(parts, 2);
    parts[0].facts = "data number of train records\t100\nnote version of oneDNN\t3.1\n";
    parts[1].facts = "data number of train records\t90\nnote version of oneDNN\t3.1\n";
    assert_int_equal(report(parts, 2), EXIT_CODE_DATA);
    assert_string_equal(said, "pipetrain: number of train records is 100 on rank 0 (node0), but 90 on rank 1 (node0): "
                              "all ranks need the same\n");
    parts[1].facts = "data number of train records\t100\nnote version of oneDNN\t2.6\n";
    assert_int_equal(report(parts, 2), 0);
    assert_string_equal(said, "version of oneDNN is 3.1 on rank 0 (node0), but 2.6 on rank 1 (node0)\n");
    parts[1].facts = "data number of train records\t90\ntrain.batch\t1\n";
    assert_int_equal(report(parts, 2), EXIT_CODE_USAGE);
}

TEST(a_hash_of_data_is_named_only_where_nothing_else_differs)
{
    struct rank_status parts[2];
    make_parts(parts, 2);
    parts[0].facts = "data hash of all train shards\t12\ndata train shard a\t100 bytes\n";
    parts[1].facts = "data hash of all train shards\t13\n";
    assert_int_equal(report(parts, 2), EXIT_CODE_DATA);
    assert_string_equal(said, "pipetrain: train shard a is 100 bytes on rank 0 (node0), but missing on rank 1 (node0): "
                              "all ranks need the same\n");
    parts[1].facts = "data hash of all train shards\t13\ndata train shard a\t100 bytes\n";
    assert_int_equal(report(parts, 2), EXIT_CODE_DATA);
    assert_string_equal(said, "pipetrain: hash of all train shards is 12 on rank 0 (node0), but 13 on rank 1 (node0): "
                              "all ranks need the same\n");
}

TEST(facts_of_a_rank_that_cannot_start_are_not_compared)
{
    struct rank_status parts[3];
    make_parts(parts, 3);
    parts[0].facts = parts[2].facts = "a\t1\n";
    parts[1].facts = "a\t2\n";
    parts[1].code = EXIT_CODE_DATA;
    parts[1].messages = "Aa shard is missing\n";
    assert_int_equal(report(parts, 3), EXIT_CODE_DATA);
    assert_string_equal(said, "pipetrain: rank 1 (node0): a shard is missing\n");
    parts[2].facts = NULL;
    assert_int_equal(report(parts, 3), EXIT_CODE_DATA);
}

TEST(many_messages_and_differences_end_in_a_count)
{
    static char text[RANKS_MAX][32], facts[2][4096];
    struct rank_status parts[RANKS_MAX];
    make_parts(parts, RANKS_MAX);
    for (uint32_t rank = 1; rank < RANKS_MAX; rank++) {
        snprintf(text[rank], sizeof(text[rank]), "Amessage %u\n", rank);
        parts[rank].messages = text[rank];
    }
    parts[3].dropped = 7;
    assert_int_equal(report(parts, RANKS_MAX), 0);
    assert_non_null(strstr(said, "pipetrain: rank 20 (node10): message 20\npipetrain: 43 more messages of other ranks\n"
                                 "pipetrain: rank 3 (node1): 7 more messages\n"));
    make_parts(parts, 2);
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < 100; i++)
            snprintf(facts[side] + strlen(facts[side]), sizeof(facts[side]) - strlen(facts[side]), "key%02d\t%d\n", i,
                     side);
    parts[0].facts = facts[0];
    parts[1].facts = facts[1];
    assert_int_equal(report(parts, 2), EXIT_CODE_USAGE);
    assert_non_null(strstr(said, "key09 is 0 on"));
    assert_null(strstr(said, "key10 is 0 on"));
    assert_non_null(strstr(said, "pipetrain: 90 more differences between ranks\n"));
}

TEST(cut_text_is_read_to_its_end)
{
    static const char messages[] = "Aone\nBtwo", facts[] = "a\t1\nb\nc";
    for (size_t bytes = 0; bytes <= sizeof(messages); bytes++) {
        struct rank_status parts[2];
        char *const cut_messages = strndup(messages, bytes), *const cut_facts = strndup(facts, bytes);
        make_parts(parts, 2);
        parts[0].facts = facts;
        parts[1].messages = cut_messages;
        parts[1].facts = cut_facts;
        assert_int_equal(report(parts, 2), bytes < 3 ? EXIT_CODE_USAGE : 0); /* a key without value is not set */
        free(cut_messages);
        free(cut_facts);
    }
}

/* The facts of these assignments. */
static char *facts_of(const char *const *assignments)
{
    struct settings settings;
    struct problems problems;
    char *text = NULL;
    problems_init(&problems);
    assert_int_equal(settings_init(&settings), 0);
    for (; *assignments != NULL; assignments++)
        assert_int_equal(config_set(&settings, *assignments, &problems), 0);
    const struct startup_facts facts = { .kind = RUN_TRAIN, .settings = &settings };
    assert_int_equal(startup_facts_write(&facts, &text), 0);
    settings_release(&settings);
    problems_release(&problems);
    return text;
}

TEST(settings_are_facts_but_for_the_places_of_input)
{
    static const struct {
        const char *assignment;
        int code;
    } rows[] = {
        { "train.batch=64", EXIT_CODE_USAGE },
        { "run.seed=5", EXIT_CODE_USAGE },
        { "sync.deadline=20", EXIT_CODE_USAGE },
        { "data.train=/scratch/train", 0 },
        { "model.weights=/scratch/weights", 0 },
        { "report.progress=none", 0 },
    };
    char *const ours = facts_of((const char *const[]){ NULL });
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rank_status parts[2];
        char *const theirs = facts_of((const char *const[]){ rows[i].assignment, NULL });
        make_parts(parts, 2);
        parts[0].facts = ours;
        parts[1].facts = theirs;
        assert_int_equal(report(parts, 2), rows[i].code);
        free(theirs);
    }
    free(ours);
}

/* The two facts, each behind its key and cut from the other. */
struct weights_facts {
    char text[STARTUP_WEIGHTS_BYTES];
    const char *layout, *first;
};

static void weights_facts(struct weights_facts *facts, const struct net *net, enum layout layout, uint64_t seed)
{
    struct tower_fixture fixture;
    tower_fixture_open_device(&fixture, "onednn");
    struct tower_spec spec = tower_fixture_spec(&fixture, "onednn", net);
    spec.backend_spec.layout = layout;
    spec.seed = seed;
    tower_fixture_open_tower(&fixture, &spec);
    assert_int_equal(startup_weights_facts(fixture.tower, facts->text), 0);
    tower_fixture_close(&fixture);
    assert_int_equal(strncmp(facts->text, "hash of the layout of weights\t", 30), 0);
    facts->layout = facts->text + 30;
    facts->first = strchr(facts->text, '\n') + 1;
    facts->text[facts->first - facts->text - 1] = '\0';
}

/* Sums of arenas that are laid out in two ways would be of unlike weights. */
TEST(equal_weights_that_are_stored_in_two_ways_are_found)
{
    if (backend_find("onednn") == NULL)
        skip();
    struct net *const net = tower_fixture_norm_net(32, 0.0f);
    struct weights_facts ours, same, plain, other;
    weights_facts(&ours, net, LAYOUT_AUTO, 1);
    weights_facts(&same, net, LAYOUT_AUTO, 1);
    weights_facts(&plain, net, LAYOUT_NCHW, 1);
    weights_facts(&other, net, LAYOUT_AUTO, 2);
    assert_string_equal(ours.layout, same.layout);
    assert_string_equal(ours.first, same.first);
    assert_string_not_equal(ours.layout, plain.layout);
    assert_string_equal(ours.first, plain.first);
    assert_string_equal(ours.layout, other.layout);
    assert_string_not_equal(ours.first, other.first);
    net_close(net);
}

TESTS_MAIN(NULL, NULL)
