/* The messages and facts of all ranks, merged, so that each is printed once. */
#include "tools/lib/run/ranks/startup_report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/shards/text.h"
#include "stage/log.h"
#include "stage/stop.h"

#define PRINTED_MAX 20u         /* messages of ranks other than 0 that are printed */
#define DIFFERENCES_MAX 10u
#define VALUE_SHOWN 120
#define HOSTS_SHOWN 3u
#define RANKS_TEXT_BYTES 256u

/* A part of a longer text. */
struct piece { const char *text; size_t bytes; };

/* A message and the ranks that have it, or a fact that differs and the first rank with another value than rank 0. */
struct entry {
    struct piece key, value;    /* message: its level and text; fact: key, and that rank's value (bytes 0: none) */
    struct piece ours;          /* fact: rank 0's value (bytes 0: none) */
    bool *ranks;                /* [count of ranks]: those of this entry */
};

struct entries {
    const struct rank_status *statuses;
    uint32_t rank_count;
    size_t count, room;
    struct entry *entry;
    bool is_short;              /* out of memory: entries are missing */
};

static bool are_equal(struct piece a, struct piece b)
{
    return a.bytes == b.bytes && memcmp(a.text, b.text, a.bytes) == 0;
}

static struct entry *find_entry(const struct entries *entries, const struct entry *like)
{
    for (size_t i = 0; i < entries->count; i++)
        if (are_equal(entries->entry[i].value, like->value) && are_equal(entries->entry[i].key, like->key))
            return &entries->entry[i];
    return NULL;
}

static struct entry *add_entry(struct entries *entries, const struct entry *like)
{
    if (entries->count == entries->room) {
        const size_t room = 2 * entries->room + 16;
        struct entry *const grown = realloc(entries->entry, room * sizeof(*grown));
        if (grown == NULL)
            return NULL;
        entries->entry = grown;
        entries->room = room;
    }
    bool *const ranks = calloc(entries->rank_count, sizeof(*ranks));
    if (ranks == NULL)
        return NULL;
    struct entry *const entry = &entries->entry[entries->count++];
    *entry = *like;
    entry->ranks = ranks;
    return entry;
}

static void note_entry(struct entries *entries, const struct entry *like, uint32_t rank)
{
    struct entry *entry = find_entry(entries, like);
    if (entry == NULL)
        entry = add_entry(entries, like);
    if (entry != NULL)
        entry->ranks[rank] = true;
    else
        entries->is_short = true;
}

static void release_entries(struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        free(entries->entry[i].ranks);
    free(entries->entry);
}

/* ---- names of ranks ---- */

/* The host in "rank 2 (node7)". */
static struct piece host_of(const char *name)
{
    const char *const open = strchr(name, '(');
    return open != NULL ? (struct piece){ open + 1, strcspn(open + 1, ")") } : (struct piece){ "", 0 };
}

static uint32_t count_ranks(const struct entry *entry, uint32_t rank_count)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < rank_count; rank++)
        count += entry->ranks[rank];
    return count;
}

static void add_numbers(struct text *text, const struct entry *entry, uint32_t rank_count)
{
    const char *separator = "ranks ";
    for (uint32_t first = 0; first < rank_count; first++) {
        uint32_t end = first;
        while (end < rank_count && entry->ranks[end])
            end++;
        if (end == first)
            continue;
        text_add(text, "%s%u", separator, first);
        if (end - first > 1)
            text_add(text, "-%u", end - 1);
        separator = ", ";
        first = end;
    }
}

static void add_hosts(struct text *text, const struct entries *entries, const struct entry *entry)
{
    struct piece hosts[HOSTS_SHOWN];
    uint32_t shown = 0;
    for (uint32_t rank = 0; rank < entries->rank_count; rank++) {
        const struct piece host = host_of(entries->statuses[rank].name);
        uint32_t i = 0;
        while (i < shown && !are_equal(hosts[i], host))
            i++;
        if (!entry->ranks[rank] || i < shown)
            continue;
        if (shown == HOSTS_SHOWN) {
            text_add(text, ", ...");
            break;
        }
        hosts[shown++] = host;
        text_add(text, "%s%.*s", shown == 1 ? " (" : ", ", (int)host.bytes, host.text);
    }
    text_add(text, ")");
}

/* "rank 2 (node7)", "ranks 1-3, 5 (node7, node8)" */
static const char *ranks_text(const struct entries *entries, const struct entry *entry, char line[RANKS_TEXT_BYTES])
{
    struct text text;
    text_init(&text, line, RANKS_TEXT_BYTES);
    if (count_ranks(entry, entries->rank_count) > 1) {
        add_numbers(&text, entry, entries->rank_count);
        add_hosts(&text, entries, entry);
        return line;
    }
    uint32_t rank = 0;
    while (!entry->ranks[rank])
        rank++;
    return entries->statuses[rank].name;
}

/* ---- messages ---- */

static void collect_messages(struct entries *entries)
{
    for (uint32_t rank = 0; rank < entries->rank_count; rank++)
        for (const char *at = entries->statuses[rank].messages; *at != '\0';) {
            const size_t bytes = strcspn(at, "\n");
            const struct entry like = { .key = { at, 1 }, .value = { at + 1, bytes - 1 } };
            note_entry(entries, &like, rank);
            at += bytes + (at[bytes] == '\n');
        }
}

static void print_message(const struct entries *entries, const struct entry *entry)
{
    const enum log_level level = (enum log_level)(*entry->key.text - 'A');
    char line[RANKS_TEXT_BYTES];
    if (entry->ranks[0])
        log_message(level, "%.*s", (int)entry->value.bytes, entry->value.text);
    else
        log_message(level, "%s: %.*s", ranks_text(entries, entry, line), (int)entry->value.bytes, entry->value.text);
}

static void print_messages(const struct entries *entries)
{
    size_t others = 0;
    for (size_t i = 0; i < entries->count; i++) {
        others += !entries->entry[i].ranks[0];
        if (entries->entry[i].ranks[0] || others <= PRINTED_MAX)
            print_message(entries, &entries->entry[i]);
    }
    if (others > PRINTED_MAX)
        log_message(LOG_ERROR, "%zu more messages of other ranks", others - PRINTED_MAX);
    for (uint32_t rank = 0; rank < entries->rank_count; rank++)
        if (entries->statuses[rank].dropped > 0)
            log_message(LOG_ERROR, "%s: %u more messages", entries->statuses[rank].name,
                        entries->statuses[rank].dropped);
}

/* ---- facts ---- */

/* Read the key and the value of a line. Returns the begin of the next line. */
static const char *read_fact(const char *line, struct piece *key_out, struct piece *value_out)
{
    const size_t key_bytes = strcspn(line, "\t\n"), bytes = strcspn(line, "\n");
    *key_out = (struct piece){ line, key_bytes };
    *value_out = bytes > key_bytes ? (struct piece){ line + key_bytes + 1, bytes - key_bytes - 1 }
                                   : (struct piece){ "", 0 };
    return line + bytes + (line[bytes] == '\n');
}

/* Returns the value of the key; bytes 0 if it is not found. */
static struct piece find_value(const char *facts, struct piece key)
{
    struct piece found, value;
    while (*facts != '\0') {
        facts = read_fact(facts, &found, &value);
        if (are_equal(found, key))
            return value;
    }
    return (struct piece){ "", 0 };
}

static bool has_key(const struct entries *entries, struct piece key)
{
    for (size_t i = 0; i < entries->count; i++)
        if (are_equal(entries->entry[i].key, key))
            return true;
    return false;
}

/* Compare a rank with rank 0 in the keys that `keys` contains, which are the facts of one of the two. Record each key
 * in which the rank is the first that differs. */
static void compare_keys(struct entries *entries, uint32_t rank, const char *keys)
{
    const char *const ours = entries->statuses[0].facts, *const theirs = entries->statuses[rank].facts;
    while (*keys != '\0') {
        struct entry like;
        keys = read_fact(keys, &like.key, &like.value);
        like.ours = find_value(ours, like.key);
        like.value = find_value(theirs, like.key);
        if (!are_equal(like.ours, like.value) && !has_key(entries, like.key))
            note_entry(entries, &like, rank);
    }
}

static void collect_differences(struct entries *entries)
{
    const struct rank_status *const statuses = entries->statuses;
    for (uint32_t rank = 1; rank < entries->rank_count && statuses[0].facts != NULL; rank++)
        if (statuses[rank].code == 0 && statuses[rank].facts != NULL &&
            strcmp(statuses[rank].facts, statuses[0].facts) != 0) {
            compare_keys(entries, rank, statuses[0].facts);
            compare_keys(entries, rank, statuses[rank].facts);
        }
}

static bool begins_with(struct piece key, const char *word)
{
    return key.bytes > strlen(word) && strncmp(key.text, word, strlen(word)) == 0;
}

struct value_text { char text[VALUE_SHOWN + 4]; };
static struct value_text value_text(struct piece value, const char *none)
{
    const bool is_cut = value.bytes > VALUE_SHOWN;
    struct value_text shown;
    snprintf(shown.text, sizeof(shown.text), "%.*s%s", is_cut ? VALUE_SHOWN : (int)value.bytes,
             value.bytes > 0 ? value.text : "", is_cut ? "..." : value.bytes == 0 ? none : "");
    return shown;
}

static void print_difference(const struct entries *entries, const struct entry *entry)
{
    const bool is_note = begins_with(entry->key, "note "), is_data = begins_with(entry->key, "data ");
    const size_t skipped = is_note || is_data ? 5 : 0;
    const char *const none = is_data ? "missing" : "not set";
    char line[RANKS_TEXT_BYTES];
    log_message(is_note ? LOG_RUN : LOG_ERROR, "%.*s is %s on %s, but %s on %s%s", (int)(entry->key.bytes - skipped),
                entry->key.text + skipped, value_text(entry->ours, none).text, entries->statuses[0].name,
                value_text(entry->value, none).text, ranks_text(entries, entry, line),
                is_note ? "" : ": all ranks need the same");
}

/* A hash of all data also differs if a part of the data differs, but then a difference of the part is printed
 * instead. */
static bool is_implied(const struct entries *entries, struct piece key)
{
    if (!begins_with(key, "data hash "))
        return false;
    for (size_t i = 0; i < entries->count; i++)
        if (begins_with(entries->entry[i].key, "data ") && !begins_with(entries->entry[i].key, "data hash "))
            return true;
    return false;
}

/* Print all differences. Returns the exit code for them; 0: there are only notes. */
static int print_differences(const struct entries *entries)
{
    int code = 0;
    size_t count = 0;
    for (size_t i = 0; i < entries->count; i++) {
        const struct piece key = entries->entry[i].key;
        if (is_implied(entries, key))
            continue;
        if (count++ < DIFFERENCES_MAX)
            print_difference(entries, &entries->entry[i]);
        if (begins_with(key, "data ") && code == 0)
            code = EXIT_CODE_DATA;
        else if (!begins_with(key, "data ") && !begins_with(key, "note "))
            code = EXIT_CODE_USAGE;
    }
    if (count > DIFFERENCES_MAX)
        log_message(LOG_ERROR, "%zu more differences between ranks", count - DIFFERENCES_MAX);
    return code;
}

/* ---- all together ---- */

int startup_report(const struct rank_status *statuses, uint32_t count)
{
    struct entries messages = { .statuses = statuses, .rank_count = count };
    struct entries differences = { .statuses = statuses, .rank_count = count };
    int code = 0;
    for (uint32_t rank = count; rank-- > 0;)
        code = statuses[rank].code != 0 ? statuses[rank].code : code;
    collect_messages(&messages);
    print_messages(&messages);
    if (statuses[0].code == 0)
        collect_differences(&differences);
    const int different = print_differences(&differences);
    if (code == 0)
        code = different;
    if (messages.is_short || differences.is_short) {
        log_message(LOG_ERROR, "out of memory for the messages of all ranks");
        code = code != 0 ? code : EXIT_CODE_MEMORY;
    }
    release_entries(&messages);
    release_entries(&differences);
    return code;
}
