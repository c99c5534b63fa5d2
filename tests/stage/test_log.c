/* Tests of messages and of escaping. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stage/log.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/test.h"

static char captured[65536];

TEST(prefixes_errors_and_only_errors)
{
    struct capture capture;
    capture_begin(&capture);
    log_message(LOG_ERROR, "shard %d: checksum differs", 3);
    log_message(LOG_RUN, "seed %d", 7);
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "pipetrain: shard 3: checksum differs\nseed 7\n");
}

TEST(another_program_has_its_name_in_errors)
{
    struct capture capture;
    capture_begin(&capture);
    log_name("pipetrain-convert");
    log_message(LOG_ERROR, "shard %d", 3);
    log_message(LOG_RUN, "seed %d", 7);
    log_name("pipetrain");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "pipetrain-convert: shard 3\nseed 7\n");
}

TEST(a_message_is_one_line_whatever_it_holds)
{
    struct capture capture;
    capture_begin(&capture);
    log_message(LOG_RUN, "a%sb", "\n\r\t\x1b[31m\x7f");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "a\\x0a\\x0d\\x09\\x1b[31m\\x7fb\n");
}

TEST(a_message_keeps_quotes_and_utf8)
{
    struct capture capture;
    capture_begin(&capture);
    log_message(LOG_RUN, "unknown key 'tr\xc3\xa4in' \\ \"x\"");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "unknown key 'tr\xc3\xa4in' \\ \"x\"\n");
}

TEST(what_is_no_text_for_people_is_escaped)
{
    static const struct { const char *text, *shown; } cases[] = {
        { "csi \xc2\x9b" "2J next \xc2\x85 line", "csi \\xc2\\x9b2J next \\xc2\\x85 line" },
        { "\xe2\x80\xa8 and \xe2\x80\xa9", "\\xe2\\x80\\xa8 and \\xe2\\x80\\xa9" },
        { "\xe2\x80\xae" "reversed\xe2\x80\xac \xe2\x81\xa6 \xe2\x81\xa9 \xe2\x80\x8f \xd8\x9c",
          "\\xe2\\x80\\xaereversed\\xe2\\x80\\xac \\xe2\\x81\\xa6 \\xe2\\x81\\xa9 \\xe2\\x80\\x8f \\xd8\\x9c" },
        /* Their neighbours are joiners, which letters of some languages need, and spaces. */
        { "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5\xd8\x9b\xd8\x9d",
          "\xe2\x80\x8d\xe2\x80\xaf\xe2\x81\xa5\xd8\x9b\xd8\x9d" },
        { "\xff \x9b \xc3( \xc0\x8a \xed\xa0\x80", "\\xff \\x9b \\xc3( \\xc0\\x8a \\xed\\xa0\\x80" },
        { "cut \xf0\x9f\x92", "cut \\xf0\\x9f\\x92" },
        { "\xc2\xa0\xc3\xa4\xe6\x97\xa5\xe2\x80\xa7\xf0\x9f\x92\xbe",
         "\xc2\xa0\xc3\xa4\xe6\x97\xa5\xe2\x80\xa7\xf0\x9f\x92\xbe" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct capture capture;
        char expected[128], copy[128];
        snprintf(expected, sizeof(expected), "%s\n", cases[i].shown);
        capture_begin(&capture);
        log_message(LOG_RUN, "%s", cases[i].text);
        capture_end(&capture, captured, sizeof(captured));
        assert_string_equal(captured, expected);
        log_escape(cases[i].text, strlen(cases[i].text), copy, sizeof(copy));
        assert_string_equal(copy, cases[i].shown);
    }
}

TEST(a_long_message_is_cut_and_says_so)
{
    static char text[20000];
    memset(text, 'x', sizeof(text) - 1);
    struct capture capture;
    capture_begin(&capture);
    log_message(LOG_RUN, "%s", text);
    memset(text, '\n', sizeof(text) - 1);
    log_message(LOG_ERROR, "%s", text);
    capture_end(&capture, captured, sizeof(captured));
    const char *const line_end = strchr(captured, '\n');
    assert_non_null(line_end);
    assert_true(line_end - captured > 1000);
    assert_memory_equal(line_end - 4, "x...", 4);
    const char *const second = line_end + 1;
    assert_memory_equal(second, "pipetrain: \\x0a\\x0a", 19);
    assert_memory_equal(second + strlen(second) - 8, "\\x0a...\n", 8);
}

/* Of a character of three bytes, whatever stands before it. */
TEST(a_long_message_is_cut_between_characters)
{
    static char text[20000];
    for (size_t before = 0; before < 3; before++) {
        struct capture capture;
        for (size_t i = 0; i < sizeof(text) - 1; i++)
            text[i] = i < before ? 'x' : "\xe7\x8c\xab"[(i - before) % 3];
        capture_begin(&capture);
        log_message(LOG_RUN, "%s", text);
        capture_end(&capture, captured, sizeof(captured));
        assert_null(strstr(captured, "\\x"));
        assert_non_null(strstr(captured, "\xe7\x8c\xab...\n"));
    }
}

TEST(a_message_keeps_errno)
{
    struct capture capture;
    capture_begin(&capture);
    errno = EBADMSG;
    log_message(LOG_RUN, "%s", "text");
    assert_int_equal(errno, EBADMSG);
    capture_end(&capture, captured, sizeof(captured));
}

TEST(escapes_every_byte_that_is_not_plain)
{
    for (int byte = 0; byte < 256; byte++) {
        const char text = (char)byte;
        char out[8], expected[8];
        const bool is_plain = byte >= 32 && byte <= 126 && strchr("\"'\\", byte) == NULL;
        snprintf(expected, sizeof(expected), is_plain ? "%c" : "\\x%02x", byte);
        log_escape(&text, 1, out, sizeof(out));
        assert_string_equal(out, expected);
    }
}

TEST(escaped_text_fits_any_capacity)
{
    static const char text[] = "ab\ncd\x80" "e";
    static const char whole[] = "ab\\x0acd\\x80e";
    for (size_t capacity = 0; capacity <= sizeof(whole) + 2; capacity++) {
        char out[32];
        memset(out, '#', sizeof(out));
        log_escape(text, sizeof(text) - 1, out, capacity);
        for (size_t i = capacity; i < sizeof(out); i++)
            assert_int_equal(out[i], '#');
        if (capacity == 0)
            continue;
        const size_t length = strlen(out);
        assert_true(length < capacity);
        assert_memory_equal(out, whole, length);
        /* Nothing but a whole escape that does not fit is left out. */
        assert_true(length == sizeof(whole) - 1 || length + 4 >= capacity);
        assert_true(length < 3 || length > 5);
    }
}

TEST(held_messages_are_printed_when_they_are_released)
{
    struct capture capture;
    capture_begin(&capture);
    log_hold();
    log_message(LOG_ERROR, "one");
    log_message(LOG_PROBLEM, "run.conf:3: two");
    assert_int_equal(ftell(capture.file), 0);
    assert_true(log_release());
    log_message(LOG_RUN, "three");
    assert_false(log_release());
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "pipetrain: one\nrun.conf:3: two\nthree\n");
}

TEST(held_messages_are_taken_once_and_their_rest_counted)
{
    struct capture capture;
    uint32_t dropped;
    capture_begin(&capture);
    log_hold();
    log_message(LOG_ERROR, "on%se", "\n");
    log_message(LOG_RUN, "two");
    char *text = log_take_held(&dropped);
    assert_string_equal(text, "Aon\\x0ae\nCtwo\n");
    assert_int_equal(dropped, 0);
    free(text);
    for (uint32_t i = 0; i < LOG_HELD_BYTES / 1000 + 10; i++)
        log_message(LOG_RUN, "%0998d", i);
    text = log_take_held(&dropped);
    assert_int_equal(strlen(text), LOG_HELD_BYTES / 1000 * 1000);
    assert_int_equal(dropped, 10);
    free(text);
    assert_true(log_release());
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "");
}

TEST(a_muted_thread_prints_nothing)
{
    struct capture capture;
    capture_begin(&capture);
    log_mute(true);
    log_message(LOG_ERROR, "one");
    log_mute(false);
    log_message(LOG_ERROR, "two");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "pipetrain: two\n");
}

TEST(a_sender_is_named_in_all_messages)
{
    struct capture capture;
    capture_begin(&capture);
    log_sender("rank 2 (node7)");
    log_message(LOG_ERROR, "one");
    log_message(LOG_PROBLEM, "run.conf:3: two");
    log_sender(NULL);
    log_message(LOG_ERROR, "three");
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(captured, "pipetrain: rank 2 (node7): one\nrank 2 (node7): run.conf:3: two\npipetrain: three\n");
}

/* A sink that keeps its messages as lines, each after a digit for its level. */
struct kept_lines { struct log_sink sink; char text[3 * 4096]; };

static void keep_line(void *arg, enum log_level level, const char *text)
{
    struct kept_lines *const kept = arg;
    const size_t used = strlen(kept->text);
    snprintf(kept->text + used, sizeof(kept->text) - used, "%d %s\n", (int)level, text);
}

TEST(a_sink_gets_all_messages_of_its_thread_and_stderr_none)
{
    struct kept_lines kept = { { keep_line, &kept }, "" }, inner = { { keep_line, &inner }, "" };
    struct capture capture;
    capture_begin(&capture);
    log_sender("rank 2");
    log_hold();
    assert_null(log_sink_set(&kept.sink));
    log_message(LOG_ERROR, "shard %d", 3);
    log_message(LOG_RUN, "a\nb \xff");
    log_line("a line");
    log_live("not shown");
    log_live(NULL);
    log_mute(true);
    log_message(LOG_ERROR, "muted");
    log_mute(false);
    assert_ptr_equal(log_sink_set(&inner.sink), &kept.sink);
    log_message(LOG_PROBLEM, "run.conf:3: key");
    assert_ptr_equal(log_sink_set(&kept.sink), &inner.sink);
    assert_ptr_equal(log_sink_get(), &kept.sink);
    assert_ptr_equal(log_sink_set(NULL), &kept.sink);
    log_message(LOG_RUN, "held");
    assert_true(log_release());
    log_sender(NULL);
    capture_end(&capture, captured, sizeof(captured));
    assert_string_equal(kept.text, "0 shard 3\n2 a\\x0ab \\xff\n2 a line\n");
    assert_string_equal(inner.text, "1 run.conf:3: key\n");
    assert_string_equal(captured, "rank 2: held\n");
}

TEST(a_sink_gets_a_long_message_cut_and_terminated)
{
    static struct kept_lines kept = { .sink = { keep_line, &kept } };
    static char text[9000];
    memset(text, 'x', sizeof(text) - 1);
    (void)log_sink_set(&kept.sink);
    log_message(LOG_RUN, "%s", text);
    (void)log_sink_set(NULL);
    const size_t length = strlen(kept.text);
    assert_string_equal(kept.text + length - 5, "x...\n");
    assert_int_equal(length, strlen("2 ") + 4095 + strlen("...\n"));
}

TESTS_MAIN(NULL, NULL)
