/* For the end-to-end scripts: values of a JSON file, read by a parser that is not ours.
 *
 *     json_value FILE PATH...         every value on a line; PATH as in
 *                                     fractions.input_wait or devices.0.name
 *     json_value --lines FILE PATH... one JSON text a line: their values, a line each
 *     json_value --paths FILE         the path of every value, sorted
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

enum { PATHS_MAX = 256, PATH_BYTES = 256 };

static char paths[PATHS_MAX][PATH_BYTES];
static size_t path_count;

static void give_up(const char *what, const char *name)
{
    fprintf(stderr, "json_value: %s: %s\n", what, name);
    exit(1);
}

static const json_t *find(const json_t *value, const char *path)
{
    char copy[PATH_BYTES];
    char *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", path);
    for (const char *key = strtok_r(copy, ".", &rest); key != NULL && value != NULL; key = strtok_r(NULL, ".", &rest))
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10)) : json_object_get(value, key);
    return value;
}

static void print_value(const json_t *value)
{
    if (json_is_string(value))
        printf("%s", json_string_value(value));
    else if (json_is_integer(value))
        printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        printf("%.17g", json_real_value(value));
    else
        printf("%s", value == NULL ? "-" : json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
}

static void print_values(const char *file, char **names, int count)
{
    json_error_t error;
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        give_up(file, error.text);
    for (int i = 0; i < count; i++) {
        const json_t *value = find(root, names[i]);
        if (value == NULL)
            give_up("no such value", names[i]);
        print_value(value);
        printf("\n");
    }
    json_decref(root);
}

static void print_lines(const char *file, char **names, int count)
{
    FILE *in = fopen(file, "r");
    if (in == NULL)
        give_up("cannot be opened", file);
    char *line = NULL;
    size_t room = 0;
    ssize_t bytes;
    while ((bytes = getline(&line, &room, in)) > 0) {
        json_error_t error;
        json_t *root = json_loads(line, JSON_REJECT_DUPLICATES, &error);
        if (root == NULL || line[bytes - 1] != '\n')
            give_up(file, root == NULL ? error.text : "the last line has no end");
        for (int i = 0; i < count; i++) {
            printf("%s", i > 0 ? " " : "");
            print_value(find(root, names[i]));
        }
        printf("\n");
        json_decref(root);
    }
    free(line);
    fclose(in);
}

static void list(json_t *value, const char *prefix)
{
    const char *key;
    json_t *member;
    if (!json_is_object(value)) {
        if (path_count == PATHS_MAX)
            give_up("too many values", prefix);
        snprintf(paths[path_count++], PATH_BYTES, "%s", prefix);
        return;
    }
    json_object_foreach(value, key, member) {
        char path[2 * PATH_BYTES];
        snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix == '\0' ? "" : ".", key);
        list(member, path);
    }
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void print_paths(const char *file)
{
    json_error_t error;
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        give_up(file, error.text);
    list(root, "");
    qsort(paths, path_count, PATH_BYTES, compare_paths);
    for (size_t i = 0; i < path_count; i++)
        printf("%s\n", paths[i]);
    json_decref(root);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--paths") == 0)
        print_paths(argv[2]);
    else if (argc > 3 && strcmp(argv[1], "--lines") == 0)
        print_lines(argv[2], argv + 3, argc - 3);
    else if (argc > 2)
        print_values(argv[1], argv + 2, argc - 2);
    else
        give_up("wrong arguments", "FILE PATH...");
    return 0;
}
