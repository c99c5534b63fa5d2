/* Tests of reading runs for the report page, whole, damaged and still going on, and of the page's data. How the page is
 * drawn is tested by tests/e2e/use/e2e_report.sh. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stage/stop.h"
#include "tests/helpers/capture.h"
#include "tests/helpers/file_fixture.h"
#include "tests/helpers/test.h"
#include "tools/report/page.h"
#include "tools/report/report_input.h"

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

static int try_to_read(json_t **run_out, const char *path)
{
    struct capture capture;
    capture_begin(&capture);
    const int code = report_input_read(run_out, path);
    capture_end(&capture, said, sizeof(said));
    return code;
}

/* The run in the folder; to be released. */
static json_t *read_run(void)
{
    json_t *run = NULL;
    assert_int_equal(try_to_read(&run, folder), 0);
    return run;
}

/* "summary.validation.accuracy", "train.step.0". */
static const json_t *at(const json_t *value, const char *path)
{
    char text[128], *rest = text;
    snprintf(text, sizeof(text), "%s", path);
    for (const char *key = strsep(&rest, "."); key != NULL; key = strsep(&rest, "."))
        value = json_typeof(value) == JSON_ARRAY ? json_array_get(value, (size_t)atoi(key))
                                                 : json_object_get(value, key);
    return value;
}

static double number(const json_t *value, const char *path)
{
    return json_number_value(at(value, path));
}

static bool is_null(const json_t *value, const char *path)
{
    return json_typeof(at(value, path)) == JSON_NULL;
}

static size_t count(const json_t *value, const char *path)
{
    return json_array_size(at(value, path));
}

/* The data in the page of a run, read back: nothing in it can end the script element. To be released. */
static json_t *page_data(json_t *run)
{
    static const char begin[] = "id=\"data\">\n", end[] = "\n</script>";
    char *text = NULL;
    size_t bytes;
    json_t *const runs = json_pack("[O]", run);
    FILE *const stream = open_memstream(&text, &bytes);
    assert_int_equal(page_write(stream, runs), 0);
    fclose(stream);
    assert_int_equal(strncmp(text, PAGE_BEGINS, strlen(PAGE_BEGINS)), 0);
    char *const data = strstr(text, begin) + strlen(begin), *const data_end = strchr(data, '<') - 1;
    assert_int_equal(strncmp(data_end, end, strlen(end)), 0);
    json_t *const value = json_loadb(data, (size_t)(data_end - data), 0, NULL);
    assert_non_null(value);
    json_decref(runs);
    free(text);
    return value;
}

TEST_WITH(reads_a_whole_run, fixture_folder_make, fixture_folder_remove)
{
    put_all();
    json_t *const run = read_run(), *const data = page_data(run);
    assert_string_equal(said, "");
    assert_int_equal(count(run, "train.groups"), 2);
    assert_int_equal(count(run, "validation.groups"), 1);
    assert_true(number(run, "train.groups.1.mean.step") == 20 && is_null(run, "train.groups.1.mean.loss"));
    assert_true(number(run, "train.groups.0.line") == 1 && number(run, "train.groups.1.line") == 4);
    assert_true(number(run, "train.groups.0.mean.queues.ring.mean") == 3 && number(run, "train.last.step") == 20);
    assert_true(json_is_true(at(run, "has_summary")));
    assert_string_equal(json_string_value(at(run, "conf")), conf_text);
    assert_string_equal(json_string_value(at(run, "summary.damage.records.0.path")), "a<b");
    assert_true(is_null(run, "evaluation"));
    assert_int_equal(json_equal(at(data, "runs.0.summary"), at(run, "summary")), 1);
    json_decref(data);
    json_decref(run);
}

TEST_WITH(reads_a_run_that_goes_on, fixture_folder_make, fixture_folder_remove)
{
    put("metrics.jsonl", rows_text);
    put("run.conf", conf_text);
    json_t *const run = read_run();
    assert_string_equal(said, "");
    assert_true(json_is_false(at(run, "has_summary")) && is_null(run, "summary"));
    assert_int_equal(count(run, "train.groups"), 2);
    json_decref(run);
}

/* Of a run that continues the last line may be half written; of one that has ended that is damage. */
TEST_WITH(every_cut_leaves_the_whole_rows, fixture_folder_make, fixture_folder_remove)
{
    for (size_t bytes = 0; bytes < strlen(rows_text); bytes++)
        for (int has_ended = 0; has_ended < 2; has_ended++) {
            size_t whole = 0;
            put("run.conf", conf_text);
            if (has_ended == 1)
                put("summary.json", summary_text);
            fixture_write(fixture_path(folder, "metrics.jsonl"), rows_text, bytes);
            for (size_t i = 0; i < bytes; i++)
                whole += rows_text[i] == '\n';
            json_t *const run = read_run();
            const size_t rows = count(run, "train.groups") + count(run, "validation.groups");
            const bool is_cut = bytes > 0 && rows_text[bytes - 1] != '\n', is_row = rows_text[bytes] == '\n';
            const size_t expected = (whole >= 3 ? whole - 1 : whole) + (has_ended == 1 && is_row && whole != 2);
            assert_int_equal(rows, expected);
            assert_int_equal(count(run, "problems"), has_ended == 1 && is_cut && !is_row);
            json_decref(run);
            unlink(fixture_path(folder, "summary.json"));
        }
}

TEST_WITH(reads_an_evaluation_beside_the_run, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *text, *problem; } rows[] = {
        { "{\"samples\":1234,\"confusion\":[{\"class\":0,\"predicted\":2,\"samples\":1}]}", NULL },
        { "[]", "evaluation.json: is not a JSON object: it is not shown" },
        { "{", "evaluation.json: " },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_all();
        put("evaluation.json", rows[i].text);
        json_t *const run = read_run();
        assert_int_equal(is_null(run, "evaluation"), rows[i].problem != NULL);
        assert_non_null(strstr(said, rows[i].problem != NULL ? rows[i].problem : ""));
        assert_int_equal(count(run, "problems"), rows[i].problem != NULL);
        json_decref(run);
    }
}

TEST_WITH(reports_damaged_lines_and_leaves_them_out, fixture_folder_make, fixture_folder_remove)
{
    static const char *const damaged[] = {
        "x", "{", "{\"kind\":\"train\"}", "{\"kind\":1,\"step\":1}", "[]", "7", "\"a\"", "{\"step\":1}", "\x01\xff",
        "{\"kind\":\"train\",\"step\":1,\"step\":2}", "{\"kind\":\"train\",\"step\":1} 2", "<script>alert(1)</script>",
        "{\"kind\":\"train\",\"step\":1,\"loss\":NaN}", "{\"kind\":\"train\",\"step\":1,\"loss\":-Infinity}",
        "{\"kind\":\"train\",\"step\":1,\"loss\":1e999}", "{\"kind\":\"train\",\"step\":NaN}",
    };
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        char text[4096], expected[512];
        put_all();
        snprintf(text, sizeof(text), "%s%s\n%s", rows_text, damaged[i], rows_text);
        put("metrics.jsonl", text);
        json_t *const run = read_run();
        assert_int_equal(count(run, "train.groups"), 4);
        assert_int_equal(count(run, "problems"), 1);
        snprintf(expected, sizeof(expected), "%s/metrics.jsonl: line 5 is damaged and left out", folder);
        assert_non_null(strstr(said, expected));
        assert_non_null(strstr(json_string_value(at(run, "problems.0")), expected));
        json_decref(run);
    }
}

TEST_WITH(counts_many_damaged_lines, fixture_folder_make, fixture_folder_remove)
{
    char *const text = calloc(1, (2u << 20) + 4096);
    put_all();
    memset(text, 'x', 2u << 20);        /* longer than any line */
    for (int i = 0; i < 1000; i++)
        strcat(text + (2u << 20), "\n.");
    put("metrics.jsonl", text);
    json_t *const run = read_run();
    assert_int_equal(count(run, "problems"), 4);
    assert_non_null(strstr(said, "line 1 is damaged and left out: it is longer than 1 MiB"));
    assert_non_null(strstr(said, "1001 lines are damaged in all"));
    json_decref(run);
    free(text);
}

/* Any byte of the summary changed: it is shown or reported, and there is a page. */
TEST_WITH(a_damaged_summary_makes_a_page_all_the_same, fixture_folder_make, fixture_folder_remove)
{
    static const char bytes[] = "\"{}[]:,9-e\\x\n<&";
    for (size_t i = 0; i < strlen(summary_text); i++) {
        char text[sizeof(summary_text)];
        put_all();
        memcpy(text, summary_text, sizeof(text));
        text[i] = bytes[i % (sizeof(bytes) - 1)];
        put("summary.json", text);
        json_t *const run = read_run();
        assert_int_equal(count(run, "problems") > 0, strstr(said, "summary.json") != NULL);
        json_decref(page_data(run));
        json_decref(run);
    }
}

/* What is not UTF-8 becomes U+FFFD; markup and controls stay what they are, as text. */
TEST_WITH(any_bytes_of_a_file_are_text, fixture_folder_make, fixture_folder_remove)
{
    static const struct { const char *conf, *expected; } rows[] = {
        { "a </script><!-- <b> & \"c\" 'd'", "a </script><!-- <b> & \"c\" 'd'" },
        { "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\t\n\x01\x7f", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\t\n\x01\x7f" },
        { "\xff\xc3(\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
        { "\xc3", "\xef\xbf\xbd" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_all();
        put("run.conf", rows[i].conf);
        json_t *const run = read_run(), *const data = page_data(run);
        assert_string_equal(json_string_value(at(data, "runs.0.conf")), rows[i].expected);
        json_decref(data);
        json_decref(run);
    }
    srand(1);
    for (int round = 0; round < 300; round++) {
        char text[24];
        for (size_t i = 0; i + 1 < sizeof(text); i++)
            text[i] = (char)(rand() % 4 == 0 ? "<>&\"'\xc3\xef\xbf"[rand() % 8] : rand() % 255 + 1);
        text[sizeof(text) - 1] = '\0';
        put("run.conf", text);
        json_t *const run = read_run();
        json_decref(page_data(run));
        json_decref(run);
    }
}

TEST_WITH(reports_what_is_missing, fixture_folder_make, fixture_folder_remove)
{
    put_all();
    unlink(fixture_path(folder, "metrics.jsonl"));
    json_t *run = read_run();
    assert_non_null(strstr(said, "metrics.jsonl: No such file or directory: there are no curves"));
    assert_int_equal(count(run, "train.groups"), 0);
    json_decref(run);
    unlink(fixture_path(folder, "run.conf"));
    assert_int_equal(mkfifo(fixture_path(folder, "metrics.jsonl"), 0600), 0);
    run = read_run();
    assert_non_null(strstr(said, "metrics.jsonl: is not a regular file"));
    assert_non_null(strstr(said, "run.conf: No such file"));
    assert_true(is_null(run, "conf"));
    json_decref(run);
}

TEST_WITH(refuses_what_is_no_run, fixture_folder_make, fixture_folder_remove)
{
    json_t *run = NULL;
    assert_int_equal(try_to_read(&run, folder), EXIT_CODE_DATA);
    assert_non_null(strstr(said, "not the directory of a run"));
    put("run.conf", conf_text);
    assert_int_equal(try_to_read(&run, fixture_path(folder, "run.conf")), EXIT_CODE_DATA);
    assert_non_null(strstr(said, "Not a directory: name the directory of a run"));
    assert_null(run);
}

/* Lines of the file replace those of the summary. */
TEST_WITH(lists_damaged_records_up_to_a_limit, fixture_folder_make, fixture_folder_remove)
{
    char *text = NULL;
    size_t bytes;
    FILE *const stream = open_memstream(&text, &bytes);
    for (int i = 0; i < 300; i++)
        fprintf(stream, "{\"set\":\"train\",\"path\":\"s\",\"record\":%d,\"count\":%d,\"problem\":\"p\"}\n", i,
                i == 7 ? 20 : 1);
    fclose(stream);
    put_all();
    put("quarantine.jsonl", text);
    json_t *const run = read_run();
    assert_true(number(run, "damage_count") == 319);
    assert_int_equal(count(run, "damage"), REPORT_DAMAGE_SHOWN_MAX);
    json_decref(run);
    free(text);
}

int main(void)
{
    alarm(120);
    return tests_run(NULL, NULL);
}
