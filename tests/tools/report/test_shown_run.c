/* Tests of runs as a report reads them, whole, damaged and still going on, and of the page that it makes of them. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/stop.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tests/tools/report/markup.h"
#include "tools/report/look.h"
#include "tools/report/page.h"

static const char summary_text[] =
    "{\"version\":\"0.1.0\",\"ended\":\"finished\",\"model\":\"mnist_cnn\",\"parameters\":600810,\"steps\":40,"
    "\"images_per_second\":5000.4,\"step_ms\":{\"p50\":24.5,\"p90\":29,\"p99\":34},"
    "\"step_ms_histogram\":{\"per_decade\":100,\"first\":138,\"counts\":[3,20,0,1]},"
    "\"fractions\":{\"forward\":0.3,\"backward\":0.65,\"input_wait\":0.05},\"libraries\":{\"zlib\":\"1.2\"},"
    "\"devices\":[{\"name\":\"A\",\"memory_bytes\":1024},{\"name\":\"A\",\"memory_bytes\":1024}],"
    "\"corrupt_records\":1,\"damage\":{\"records\":[{\"set\":\"train\",\"path\":\"a<b\",\"record\":3,\"offset\":99,"
    "\"count\":1,\"problem\":\"cut\"}],\"unlisted\":0},\"verdict\":\"compute limits\"}\n";

static const char rows_text[] =
    "{\"kind\":\"train\",\"step\":10,\"images\":640,\"loss\":2.5,\"accuracy\":0.25,\"seconds\":2,"
    "\"images_per_second\":320,\"learning_rate\":0.1,\"fractions\":{\"forward\":0.5,\"backward\":0.5},"
    "\"queues\":{\"ring\":{\"depth\":4,\"least\":1,\"mean\":3,\"median\":3,\"empty\":0}}}\n"
    "{\"kind\":\"validation\",\"step\":10,\"images\":100,\"loss\":2,\"accuracy\":0.5,\"seconds\":1}\n"
    "{\"kind\":\"epoch\",\"step\":10,\"images\":640,\"loss\":2.5,\"seconds\":2}\n"
    "{\"kind\":\"train\",\"step\":20,\"images\":640,\"loss\":null,\"accuracy\":0.75,\"seconds\":6,"
    "\"images_per_second\":106.7,\"learning_rate\":0.1,\"fractions\":{\"forward\":0.1,\"backward\":0.9}}\n";

static const char conf_text[] = "[run]\nname = a\n\n[model]\nname = mnist_cnn\n[train]\nbatch = 64\nboundaries =\n";

static char said[8192];         /* on stderr while a run was read */

static void put(const char *name, const char *text)
{
    fixture_write_text(fixture_path(folder, name), text);
}

static void put_all(void)
{
    put("summary.json", summary_text);
    put("metrics.jsonl", rows_text);
    put("run.conf", conf_text);
}

static int read_run(struct shown_run *run)
{
    struct capture capture;
    capture_begin(&capture);
    const int code = shown_run_read(run, folder);
    capture_end(&capture, said, sizeof(said));
    return code;
}

/* The page of a run is well-formed, whatever is in it. To be freed. */
static char *page_of(const struct shown_run *run, uint32_t count)
{
    char *text = NULL;
    size_t bytes;
    FILE *const stream = open_memstream(&text, &bytes);
    assert_int_equal(page_write(stream, run, count), 0);
    fclose(stream);
    const char *const problem = markup_problem(text);
    if (problem != NULL)
        print_error("not well-formed at: %.80s\n", problem);
    assert_null(problem);
    assert_int_equal(strncmp(text, PAGE_BEGINS, strlen(PAGE_BEGINS)), 0);
    assert_null(strstr(text, "<script"));
    assert_null(strstr(text, "http"));
    return text;
}

static void expect_page_has(const struct shown_run *run, const char *part)
{
    char *const text = page_of(run, 1);
    if (strstr(text, part) == NULL)
        print_error("the page lacks %s\n", part);
    assert_non_null(strstr(text, part));
    free(text);
}

TEST_WITH(a_whole_run_is_read, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    put_all();
    assert_int_equal(read_run(&run), 0);
    assert_string_equal(said, "");
    const struct columns *const train = &run.metrics.rows[ROW_TRAIN];
    assert_int_equal(train->count, 2);
    assert_int_equal(run.metrics.rows[ROW_VALIDATION].count, 1);
    assert_true(train->values[VALUE_STEP][1] == 20 && isnan(train->values[VALUE_LOSS][1]));
    assert_true(train->values[VALUE_RING_FILL][0] == 0.75 && isnan(train->values[VALUE_RING_FILL][1]));
    assert_true(train->values[VALUE_ELAPSED][0] == 2 && train->values[VALUE_ELAPSED][1] == 9);
    assert_true(run.has_ended && run.damage_count == 1);
    assert_string_equal(settings_list_find(&run.settings, "train", "batch"), "64");
    assert_string_equal(settings_list_find(&run.settings, "train", "boundaries"), "");
    assert_null(settings_list_find(&run.settings, "run", "batch"));
    static const char *const parts[] = {
        "600,810", "5,000", ">Loss<", ">Accuracy<", ">Queue on the host: how full it was found<", ">Step times<",
        "p90 29", "2 x A, 1.0 KiB", "compute limits", "a&lt;b", "mnist_cnn", "batch = 64",
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        expect_page_has(&run, parts[i]);
    shown_run_release(&run);
}

TEST_WITH(a_run_that_goes_on_is_told_from_its_rows, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    put("metrics.jsonl", rows_text);
    put("run.conf", conf_text);
    assert_int_equal(read_run(&run), 0);
    assert_string_equal(said, "");
    assert_false(run.has_ended);
    static const char *const forward[] = { "fractions", "forward", NULL }, *const steps[] = { "steps", NULL };
    static const char *const accuracy[] = { "validation", "accuracy", NULL };
    assert_true(fabs(look_number_at(run.summary, forward) - (2 * 0.5 + 6 * 0.1) / 8) < 1e-12);
    assert_true(look_number_at(run.summary, steps) == 20 && look_number_at(run.summary, accuracy) == 0.5);
    expect_page_has(&run, "no summary yet");
    expect_page_has(&run, "mnist_cnn");
    shown_run_release(&run);
}

/* Of a run that goes on the last line may be half written; of one that has ended that is damage. */
TEST_WITH(every_cut_leaves_the_whole_rows, fixture_folder_make, fixture_folder_remove)
{
    for (size_t bytes = 0; bytes < strlen(rows_text); bytes++)
        for (int has_ended = 0; has_ended < 2; has_ended++) {
            struct shown_run run;
            size_t whole = 0;
            put("run.conf", conf_text);
            if (has_ended == 1)
                put("summary.json", summary_text);
            fixture_write(fixture_path(folder, "metrics.jsonl"), rows_text, bytes);
            for (size_t i = 0; i < bytes; i++)
                whole += rows_text[i] == '\n';
            assert_int_equal(read_run(&run), 0);
            const size_t rows = run.metrics.rows[ROW_TRAIN].count + run.metrics.rows[ROW_VALIDATION].count;
            const bool is_cut = bytes > 0 && rows_text[bytes - 1] != '\n', is_row = rows_text[bytes] == '\n';
            const size_t expected = (whole >= 3 ? whole - 1 : whole) + (has_ended == 1 && is_row && whole != 2);
            assert_int_equal(rows, expected);
            assert_int_equal(run.remarks.count, has_ended == 1 && is_cut && !is_row);
            shown_run_release(&run);
            unlink(fixture_path(folder, "summary.json"));
        }
}

TEST_WITH(what_classes_were_taken_for_is_drawn, fixture_folder_make, fixture_folder_remove)
{
    static const char evaluation[] =
        "{\"weights\":\"w<1>\",\"samples\":1234,\"classes\":[{\"class\":0,\"name\":\"a<b\",\"samples\":4}],"
        "\"confusion\":[{\"class\":0,\"predicted\":0,\"samples\":3},{\"class\":0,\"predicted\":2,\"samples\":1},"
        "{\"class\":-1,\"predicted\":2,\"samples\":9},{\"class\":2,\"predicted\":1,\"samples\":\"9\"},7]}";
    struct shown_run run;
    put_all();
    assert_int_equal(read_run(&run), 0);
    char *const without = page_of(&run, 1);
    assert_null(strstr(without, "taken for"));
    free(without);
    shown_run_release(&run);
    put("evaluation.json", evaluation);
    assert_int_equal(read_run(&run), 0);
    assert_string_equal(said, "");
    expect_page_has(&run, ": 1,234 samples, w&lt;1&gt;</h3>");
    expect_page_has(&run, "<th>class</th><th>0</th><th>1</th><th>2</th></tr>");
    expect_page_has(&run, "<tr><th scope=\"row\">0 a&lt;b</th><td class=\"right\" "
                          "style=\"background:rgba(57,106,177,0.45)\">3</td><td></td>"
                          "<td style=\"background:rgba(57,106,177,0.15)\">1</td></tr>");
    expect_page_has(&run, "<tr><th scope=\"row\">2 </th><td></td><td></td><td></td></tr>");
    shown_run_release(&run);
}

TEST_WITH(of_many_classes_it_is_not_drawn, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    put_all();
    put("evaluation.json", "{\"confusion\":[{\"class\":0,\"predicted\":100,\"samples\":3}]}");
    assert_int_equal(read_run(&run), 0);
    expect_page_has(&run, "Of 101 classes it is not drawn");
    shown_run_release(&run);
    put("evaluation.json", "[]");
    assert_int_equal(read_run(&run), 0);
    assert_non_null(strstr(said, "evaluation.json: is no object: it is not shown"));
    shown_run_release(&run);
    put("evaluation.json", "{");
    assert_int_equal(read_run(&run), 0);
    assert_non_null(strstr(said, "evaluation.json: "));
    shown_run_release(&run);
}

TEST_WITH(damaged_lines_are_told_and_left_out, fixture_folder_make, fixture_folder_remove)
{
    static const char *const damaged[] = {
        "x", "{", "{\"kind\":\"train\"}", "{\"kind\":1,\"step\":1}", "[]", "7", "\"a\"", "{\"step\":1}", "\x01\xff",
        "{\"kind\":\"train\",\"step\":1,\"step\":2}", "{\"kind\":\"train\",\"step\":1} 2", "<script>alert(1)</script>",
    };
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct shown_run run;
        char text[4096], expected[512];
        put_all();
        snprintf(text, sizeof(text), "%s%s\n%s", rows_text, damaged[i], rows_text);
        put("metrics.jsonl", text);
        assert_int_equal(read_run(&run), 0);
        assert_int_equal(run.metrics.rows[ROW_TRAIN].count, 4);
        assert_int_equal(run.remarks.count, 1);
        snprintf(expected, sizeof(expected), "%s/metrics.jsonl: line 5 is damaged", folder);
        assert_non_null(strstr(said, expected));
        expect_page_has(&run, "line 5 is damaged and left out");
        shown_run_release(&run);
    }
}

TEST_WITH(many_damaged_lines_are_counted, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    char *const text = calloc(1, (2u << 20) + 4096);
    put_all();
    memset(text, 'x', 2u << 20);        /* longer than any line */
    for (int i = 0; i < 1000; i++)
        strcat(text + (2u << 20), "\n.");
    put("metrics.jsonl", text);
    assert_int_equal(read_run(&run), 0);
    assert_int_equal(run.remarks.count, 4);
    assert_non_null(strstr(said, "line 1 is damaged and left out: it is longer than 1 MiB"));
    assert_non_null(strstr(said, "1001 lines are damaged in all"));
    shown_run_release(&run);
    free(text);
}

/* Any byte of the summary changed: it is shown or told, and the page is one. */
TEST_WITH(a_damaged_summary_makes_a_page_all_the_same, fixture_folder_make, fixture_folder_remove)
{
    static const char bytes[] = "\"{}[]:,9-e\\x\n<&";
    for (size_t i = 0; i < strlen(summary_text); i++) {
        char text[sizeof(summary_text)];
        struct shown_run run;
        put_all();
        memcpy(text, summary_text, sizeof(text));
        text[i] = bytes[i % (sizeof(bytes) - 1)];
        put("summary.json", text);
        assert_int_equal(read_run(&run), 0);
        assert_int_equal(run.remarks.count > 0, strstr(said, "summary.json") != NULL);
        free(page_of(&run, 1));
        shown_run_release(&run);
    }
}

TEST_WITH(what_is_missing_is_told, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    put_all();
    unlink(fixture_path(folder, "metrics.jsonl"));
    assert_int_equal(read_run(&run), 0);
    assert_non_null(strstr(said, "metrics.jsonl: No such file or directory: there are no curves"));
    expect_page_has(&run, "has no rows yet");
    shown_run_release(&run);
    unlink(fixture_path(folder, "run.conf"));
    assert_int_equal(mkfifo(fixture_path(folder, "metrics.jsonl"), 0600), 0);
    assert_int_equal(read_run(&run), 0);
    assert_non_null(strstr(said, "metrics.jsonl: is no regular file"));
    assert_non_null(strstr(said, "run.conf: No such file"));
    expect_page_has(&run, "There is none.");
    shown_run_release(&run);
}

TEST_WITH(what_is_no_run_is_refused, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    assert_int_equal(read_run(&run), EXIT_CODE_DATA);
    assert_non_null(strstr(said, "is no directory of a run"));
    shown_run_release(&run);
    struct capture capture;
    put("run.conf", conf_text);
    capture_begin(&capture);
    assert_int_equal(shown_run_read(&run, fixture_path(folder, "run.conf")), EXIT_CODE_DATA);
    capture_end(&capture, said, sizeof(said));
    assert_non_null(strstr(said, "Not a directory: name the directory of a run"));
    shown_run_release(&run);
}

/* Lines of the file take the place of those of the summary. */
TEST_WITH(damaged_records_are_listed_up_to_a_limit, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run run;
    char *text = NULL;
    size_t bytes;
    FILE *const stream = open_memstream(&text, &bytes);
    for (int i = 0; i < 300; i++)
        fprintf(stream, "{\"set\":\"train\",\"path\":\"s\",\"record\":%d,\"count\":%d,\"problem\":\"p\"}\n", i,
                i == 7 ? 20 : 1);
    fclose(stream);
    put_all();
    put("quarantine.jsonl", text);
    assert_int_equal(read_run(&run), 0);
    assert_int_equal(run.damage_count, 319);
    assert_int_equal(json_array_size(run.damage), DAMAGE_SHOWN_MAX);
    expect_page_has(&run, "319 records");
    expect_page_has(&run, "The first 100 places");
    shown_run_release(&run);
    free(text);
}

TEST_WITH(several_runs_stand_side_by_side, fixture_folder_make, fixture_folder_remove)
{
    struct shown_run runs[3];
    put_all();
    for (uint32_t i = 0; i < 3; i++) {
        if (i == 2)
            put("run.conf", "[train]\nbatch = 32\n[model]\nname = mnist_cnn\nfile = a&b\n");
        assert_int_equal(read_run(&runs[i]), 0);
        runs[i].number = i;
    }
    char *const two = page_of(runs, 2), *const three = page_of(runs, 3);
    assert_non_null(strstr(two, "None: all runs had the same settings."));
    assert_null(strstr(two, "class=\"differs\""));
    assert_non_null(strstr(three, "<th scope=\"row\">train.batch</th><td>64</td><td>64</td><td>32</td>"));
    assert_non_null(strstr(three, "<th scope=\"row\">model.file</th><td>-</td><td>-</td><td>a&amp;b</td>"));
    assert_null(strstr(three, "<th scope=\"row\">run.name</th>"));
    assert_non_null(strstr(three, "Step times of run 3"));
    free(two);
    free(three);
    for (uint32_t i = 0; i < 3; i++)
        shown_run_release(&runs[i]);
}

int main(void)
{
    alarm(120);
    return tests_run(NULL, NULL);
}
