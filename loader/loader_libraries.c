/* Versions of the libraries that read shards. ISA-L, libjpeg-turbo and old versions of jansson have no function for the
 * version, so it is the one at compile time. */
#include <isa-l.h>
#include <jansson.h>
#include <jpeglib.h>
#include <lz4.h>
#include <spng.h>
#include <stdio.h>
#include <xxhash.h>
#include <zlib.h>

#include "loader/loader.h"

static void put_isal(char *text, size_t text_size)
{
    snprintf(text, text_size, "%d.%d.%d", ISAL_MAJOR_VERSION, ISAL_MINOR_VERSION, ISAL_PATCH_VERSION);
}

static void put_zlib(char *text, size_t text_size)
{
    snprintf(text, text_size, "%s", zlibVersion());
}

static void put_lz4(char *text, size_t text_size)
{
    snprintf(text, text_size, "%s", LZ4_versionString());
}

static void put_xxhash(char *text, size_t text_size)
{
    const unsigned number = XXH_versionNumber();
    snprintf(text, text_size, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
}

static void put_jansson(char *text, size_t text_size)
{
    snprintf(text, text_size, "%s", JANSSON_VERSION);
}

static void put_spng(char *text, size_t text_size)
{
    snprintf(text, text_size, "%s", spng_version_string());
}

static void put_jpeg(char *text, size_t text_size)
{
    snprintf(text, text_size, "%d.%d.%d", LIBJPEG_TURBO_VERSION_NUMBER / 1000000,
             LIBJPEG_TURBO_VERSION_NUMBER / 1000 % 1000, LIBJPEG_TURBO_VERSION_NUMBER % 1000);
}

const struct library loader_libraries[] = { { "ISA-L", put_isal, "libisal.so" },
                                            { "zlib", put_zlib, "libz.so" },
                                            { "LZ4", put_lz4, "liblz4.so" },
                                            { "xxHash", put_xxhash, "libxxhash.so" },
                                            { "jansson", put_jansson, "libjansson.so" },
                                            { "libjpeg-turbo", put_jpeg, "libjpeg.so" },
                                            { "libspng", put_spng, "libspng.so" },
                                            { NULL, NULL, NULL } };
