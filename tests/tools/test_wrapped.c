/* Tests of wrapped lines: where they break, and what they keep whole. */
#include <stdio.h>
#include <string.h>

#include "tests/helpers/test.h"
#include "tools/lib/text/wrapped.h"

#define PATH "/a/folder/with/a/long/name/and/another/folder/with/a/long/name"

static const struct {
    const char *text, *lines;
} cases[] = {
    { "short", "short\n" },
    { "files     a line that has exactly as many bytes as fit into one of the eighty columns",
      "files     a line that has exactly as many bytes as fit into one of the eighty\n"
      "          columns\n" },
    { "files     a line that has exactly as many characters as there is room for in it more",
      "files     a line that has exactly as many characters as there is room for in it\n"
      "          more\n" },
    { "result    the line breaks after a comma, and not at a space that is farther to the right",
      "result    the line breaks after a comma,\n"
      "          and not at a space that is farther to the right\n" },
    { "result    outside of brackets, if it can (where commas do not count, as here, or there, or there)",
      "result    outside of brackets,\n"
      "          if it can (where commas do not count, as here, or there, or there)\n" },
    { "result    a) is no bracket, so the line breaks after a comma, (as here, or there) and goes on",
      "result    a) is no bracket, so the line breaks after a comma,\n"
      "          (as here, or there) and goes on\n" },
    { "files     " PATH PATH " is long", "files     " PATH PATH "\n          is long\n" },
    /* A command that fits into a line gets one; a longer one is still not cut. */
    { "          to evaluate the weights: pipetrain evaluate -c a/run.conf --weights a/weights.safetensors",
      "          to evaluate the weights:\n"
      "          pipetrain evaluate -c a/run.conf --weights a/weights.safetensors\n" },
    { "          to evaluate the weights: pipetrain evaluate -c " PATH "/run.conf --weights " PATH "/weights.safetensors",
      "          to evaluate the weights:\n"
      "          pipetrain evaluate -c " PATH "/run.conf --weights " PATH "/weights.safetensors\n" },
    { "fix       store smaller images: ./pipetrain-convert tfrecord SHARDS -o resized --resize-short=64",
      "fix       store smaller images:\n"
      "          ./pipetrain-convert tfrecord SHARDS -o resized --resize-short=64\n" },
    { "verdict   the link to the device is saturated (/opt/bin/pipetrain --doctor measures its speed)",
      "verdict   the link to the device is saturated\n"
      "          (/opt/bin/pipetrain --doctor measures its speed)\n" },
    { "fix       store smaller images: pipetrain-convert tfrecord SHARDS -o resized --resize-short=64 (a gain of 12 %)",
      "fix       store smaller images:\n"
      "          pipetrain-convert tfrecord SHARDS -o resized --resize-short=64 (a\n"
      "          gain of 12 %)\n" },
    { "verdict   the link to the device is saturated (pipetrain --doctor measures its speed); more links help",
      "verdict   the link to the device is saturated\n"
      "          (pipetrain --doctor measures its speed); more links help\n" },
    { "plan      90 lines on a terminal of 24: to see all of the lines, pipetrain -c FILE --check | less",
      "plan      90 lines on a terminal of 24: to see all of the lines,\n"
      "          pipetrain -c FILE --check | less\n" },
    { "next      to continue with these weights instead of new ones or of others: --set a=b",
      "next      to continue with these weights instead of new ones or of others:\n"
      "          --set a=b\n" },
    { "          to evaluate: pipetrain evaluate -c '/a, b; (c/it'\\''s one, two; three and four'/run.conf --weights w",
      "          to evaluate:\n"
      "          pipetrain evaluate -c '/a, b; (c/it'\\''s one, two; three and four'/run.conf --weights w\n" },
    { "next      the users' weights, and others' weights, are not to continue with: --set w='a, b; c'/weights.safetensors",
      "next      the users' weights, and others' weights,\n"
      "          are not to continue with: --set w='a, b; c'/weights.safetensors\n" },
};

TEST(lines_break_at_stops_and_never_within_a_command)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *lines = NULL;
        size_t bytes;
        FILE *const out = open_memstream(&lines, &bytes);
        assert_non_null(out);
        wrapped_write(out, cases[i].text);
        fclose(out);
        assert_string_equal(lines, cases[i].lines);
        free(lines);
    }
}

TESTS_MAIN(NULL, NULL)
