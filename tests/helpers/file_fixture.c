/* Folders and files for tests. */
#include "tests/helpers/file_fixture.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/helpers/test.h"

char folder[256];

int fixture_folder_make(void **state)
{
    (void)state;
    const char *const parent = getenv("TMPDIR");
    snprintf(folder, sizeof(folder), "%s/pipetrain-test-XXXXXX", parent != NULL && *parent ? parent : "/tmp");
    assert_non_null(mkdtemp(folder));
    return setenv("XDG_CACHE_HOME", fixture_path(folder, "cache"), 1);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void fixture_folder_clear(const char *path)
{
    assert_int_equal(nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int fixture_folder_remove(void **state)
{
    (void)state;
    fixture_folder_clear(folder);
    return 0;
}

int fixture_folder_enter(void **state)
{
    return fixture_folder_make(state) == 0 ? chdir(folder) : -1;
}

int fixture_folder_leave(void **state)
{
    return chdir("/") == 0 ? fixture_folder_remove(state) : -1;
}

const char *fixture_path(const char *place, const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", place, name);
    return path;
}

const char *fixture_subfolder(char *path_out, size_t path_size, const char *name)
{
    snprintf(path_out, path_size, "%s", fixture_path(folder, name));
    assert_int_equal(mkdir(path_out, 0700), 0);
    return path_out;
}

int fixture_each_file(const char *place, int (*use)(const char *path))
{
    DIR *const entries = opendir(place);
    int count = 0;
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] == '.')
            continue;
        assert_int_equal(use != NULL ? use(fixture_path(place, entry->d_name)) : 0, 0);
        count++;
    }
    closedir(entries);
    return count;
}

bool fixture_exists(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

void fixture_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

void fixture_write_text(const char *path, const char *text)
{
    fixture_write(path, text, strlen(text));
}

void fixture_write_tensors(const char *path, const char *header, size_t header_bytes, uint64_t data_bytes)
{
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    for (int i = 0; i < 8; i++)
        fputc((int)(header_bytes >> (8 * i) & 255), file);
    assert_int_equal(fwrite(header, 1, header_bytes, file), header_bytes);
    fclose(file);
    assert_int_equal(truncate(path, (off_t)(8 + header_bytes + data_bytes)), 0);
}

uint8_t *fixture_read(const char *path, size_t *bytes_out)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *bytes_out = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*bytes_out + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes_out, file), *bytes_out);
    fclose(file);
    return data;
}
