/* The exchange of host names at the start, in the communication thread. A rank passes on the name of each rank below it as
 * it comes, so that rank 0 knows whose is missing. */
#include "sync/ranks/rank_hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sync/ranks/rank_tree.h"

struct name { uint32_t rank; char host[RANK_HOST_BYTES]; };

/* The names of all hosts, as they are sent: host_of of each rank, and then the names. */
struct table { uint32_t host_count, host_of[]; };

struct child {
    uint32_t rank, left;                /* names that are still to come from it */
    struct name arriving;
    struct mpi_request request;         /* of `arriving`; then of the table that is sent to it */
};

/* Names come up, the table goes down. */
enum stage { STAGE_NEW, STAGE_NAMES, STAGE_TABLE, STAGE_PASSING, STAGE_DONE };

struct rank_hosts {
    struct ranks *ranks;
    uint32_t size, own;
    enum stage stage;
    uint32_t child_count;
    struct child children[RANK_TREE_CHILDREN];
    /* Names of this rank and those below it, in the order in which they came; of rank 0 all. Freed when they were sent. */
    struct name *names;
    struct mpi_request *sends;          /* of the names to the parent */
    uint32_t name_count, sent_count;
    struct table *table;
    struct mpi_request table_request;
    uint32_t *near;                     /* the ranks of this host */
    uint32_t near_count;
    uint32_t *places;                   /* [rank] */
};

static uint32_t parent_of(uint32_t rank)
{
    return (rank - 1) / RANK_TREE_CHILDREN;
}

/* The rank and all ranks below it. */
static uint32_t count_below(uint32_t rank, uint32_t size)
{
    uint64_t first = rank, last = rank, count = 0;
    while (first < size) {
        count += (last < size ? last : size - 1) - first + 1;
        first = first * RANK_TREE_CHILDREN + 1;
        last = (last + 1) * RANK_TREE_CHILDREN;
    }
    return (uint32_t)count;
}

static size_t table_bytes(uint32_t size, uint32_t host_count)
{
    return sizeof(struct table) + size * sizeof(uint32_t) + (size_t)host_count * RANK_HOST_BYTES;
}

static char *host_at(const struct rank_hosts *hosts, uint32_t host)
{
    return (char *)(hosts->table->host_of + hosts->size) + (size_t)host * RANK_HOST_BYTES;
}

int rank_hosts_open(struct rank_hosts **hosts_out, struct ranks *ranks)
{
    struct rank_hosts *const hosts = calloc(1, sizeof(*hosts));
    if (hosts == NULL)
        return -ENOMEM;
    hosts->ranks = ranks;
    hosts->size = ranks_size(ranks);
    hosts->own = ranks_rank(ranks);
    const uint32_t first = hosts->own * RANK_TREE_CHILDREN + 1, below = count_below(hosts->own, hosts->size);
    while (hosts->child_count < RANK_TREE_CHILDREN && first + hosts->child_count < hosts->size) {
        const uint32_t rank = first + hosts->child_count;
        hosts->children[hosts->child_count++] = (struct child){ .rank = rank, .left = count_below(rank, hosts->size) };
    }
    hosts->names = calloc(below, sizeof(*hosts->names));
    hosts->sends = calloc(below, sizeof(*hosts->sends));
    hosts->table = calloc(1, table_bytes(hosts->size, hosts->size));
    hosts->near = calloc(hosts->size, sizeof(*hosts->near));
    hosts->places = calloc(hosts->size, sizeof(*hosts->places));
    if (hosts->names == NULL || hosts->sends == NULL || hosts->table == NULL || hosts->near == NULL ||
        hosts->places == NULL) {
        rank_hosts_close(hosts);
        return -ENOMEM;
    }
    *hosts_out = hosts;
    return 0;
}

void rank_hosts_close(struct rank_hosts *hosts)
{
    if (hosts == NULL)
        return;
    free(hosts->names);
    free(hosts->sends);
    free(hosts->table);
    free(hosts->near);
    free(hosts->places);
    free(hosts);
}

/* ---- names to rank 0 ---- */

/* Keep a name, and send it to the parent. 0 or an error of the MPI library. */
static int add_name(struct rank_hosts *hosts, const struct name *name, int tag)
{
    struct name *const added = &hosts->names[hosts->name_count];
    *added = *name;
    added->host[sizeof(added->host) - 1] = '\0';
    hosts->name_count++;
    return hosts->own == 0 ? 0
                           : ranks_module(hosts->ranks)->send(added, sizeof(*added), parent_of(hosts->own), tag,
                                                              &hosts->sends[hosts->name_count - 1]);
}

static int begin_names(struct rank_hosts *hosts, int tag)
{
    const struct mpi_module *const module = ranks_module(hosts->ranks);
    struct name own = { .rank = hosts->own };
    memcpy(own.host, ranks_host(hosts->ranks, hosts->own), sizeof(own.host));
    int rc = add_name(hosts, &own, tag);
    for (uint32_t i = 0; i < hosts->child_count && rc == 0; i++) {
        struct child *const child = &hosts->children[i];
        rc = module->receive(&child->arriving, sizeof(child->arriving), child->rank, tag, &child->request);
    }
    if (rc == 0 && hosts->own > 0)
        rc = module->receive(hosts->table, table_bytes(hosts->size, hosts->size), parent_of(hosts->own), tag + 1,
                             &hosts->table_request);
    hosts->stage = STAGE_NAMES;
    return rc;
}

/* Receive what has come from a child. 0 or an error of the MPI library. */
static int take_names(struct rank_hosts *hosts, struct child *child, int tag)
{
    const struct mpi_module *const module = ranks_module(hosts->ranks);
    bool has_arrived = true;
    int rc = 0;
    while (rc == 0 && child->left > 0 && has_arrived) {
        rc = module->test(&child->request, &has_arrived);
        if (rc != 0 || !has_arrived)
            continue;
        child->left--;
        rc = add_name(hosts, &child->arriving, tag);
        if (rc == 0 && child->left > 0)
            rc = module->receive(&child->arriving, sizeof(child->arriving), child->rank, tag, &child->request);
    }
    return rc;
}

/* Test sends in their order. */
static int test_names(struct rank_hosts *hosts)
{
    bool has_passed = true;
    int rc = 0;
    while (rc == 0 && has_passed && hosts->own > 0 && hosts->sent_count < hosts->name_count) {
        rc = ranks_module(hosts->ranks)->test(&hosts->sends[hosts->sent_count], &has_passed);
        hosts->sent_count += rc == 0 && has_passed;
    }
    return rc;
}

/* The lowest rank whose name is missing. */
static uint32_t find_missing(const struct rank_hosts *hosts)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; i < hosts->name_count; i++)
        hosts->near[hosts->names[i].rank % hosts->size] = 1;        /* not in use yet */
    while (missing < hosts->size - 1 && hosts->near[missing] == 1)
        missing++;
    memset(hosts->near, 0, hosts->size * sizeof(*hosts->near));
    return missing;
}

/* ---- the table ---- */

static int compare_names(const void *left, const void *right)
{
    const struct name *const a = left, *const b = right;
    const int hosts = strcmp(a->host, b->host);
    return hosts != 0 ? hosts : (a->rank > b->rank) - (a->rank < b->rank);
}

static void make_table(struct rank_hosts *hosts)
{
    struct table *const table = hosts->table;
    qsort(hosts->names, hosts->name_count, sizeof(*hosts->names), compare_names);
    for (uint32_t i = 0; i < hosts->name_count; i++) {
        const struct name *const name = &hosts->names[i];
        if (i == 0 || strcmp(name[-1].host, name->host) != 0)
            memcpy(host_at(hosts, table->host_count++), name->host, sizeof(name->host));
        table->host_of[name->rank % hosts->size] = table->host_count - 1;
    }
}

/* Make the data of another version of the program safe to read. */
static void bound_table(struct rank_hosts *hosts)
{
    struct table *const table = hosts->table;
    table->host_count = table->host_count < hosts->size ? table->host_count : hosts->size;
    for (uint32_t host = 0; host < hosts->size; host++)
        host_at(hosts, host)[RANK_HOST_BYTES - 1] = '\0';
    for (uint32_t rank = 0; rank < hosts->size; rank++)
        table->host_of[rank] %= hosts->size;
}

static int pass_table(struct rank_hosts *hosts, int tag)
{
    int rc = 0;
    for (uint32_t i = 0; i < hosts->child_count && rc == 0; i++)
        rc = ranks_module(hosts->ranks)->send(hosts->table, table_bytes(hosts->size, hosts->table->host_count),
                                              hosts->children[i].rank, tag + 1, &hosts->children[i].request);
    return rc;
}

static void find_near(struct rank_hosts *hosts)
{
    const uint32_t *const host_of = hosts->table->host_of;
    for (uint32_t rank = 0; rank < hosts->size; rank++) {
        const bool is_near = host_of[rank] == host_of[hosts->own];
        hosts->places[rank] = is_near ? hosts->near_count : RANK_ELSEWHERE;
        if (is_near)
            hosts->near[hosts->near_count++] = rank;
    }
}

/* Release what only the exchange needs. */
static void end_exchange(struct rank_hosts *hosts)
{
    free(hosts->names);
    free(hosts->sends);
    hosts->names = NULL;
    hosts->sends = NULL;
    void *const shrunk = realloc(hosts->table, table_bytes(hosts->size, hosts->table->host_count));
    hosts->table = shrunk != NULL ? shrunk : hosts->table;
    find_near(hosts);
    hosts->stage = STAGE_DONE;
}

/* ---- all together: each function returns 1 when its stage is complete, 0 before, or negative an error of MPI ---- */

static int advance_names(struct rank_hosts *hosts, int tag, struct rank_wait *wait_out)
{
    int rc = 0;
    for (uint32_t i = 0; i < hosts->child_count && rc == 0; i++)
        rc = take_names(hosts, &hosts->children[i], tag);
    if (rc == 0)
        rc = test_names(hosts);
    if (rc != 0)
        return -rc;
    const bool has_all = hosts->name_count == count_below(hosts->own, hosts->size);
    if (!has_all && hosts->own == 0)
        *wait_out = (struct rank_wait){ find_missing(hosts), false };
    return has_all && (hosts->own == 0 || hosts->sent_count == hosts->name_count);
}

static int advance_table(struct rank_hosts *hosts, int tag)
{
    bool has_arrived = true;
    int rc = 0;
    if (hosts->own == 0)
        make_table(hosts);
    else
        rc = ranks_module(hosts->ranks)->test(&hosts->table_request, &has_arrived);
    if (rc != 0 || !has_arrived)
        return -rc;
    bound_table(hosts);
    rc = pass_table(hosts, tag);
    return rc == 0 ? 1 : -rc;
}

static int advance_passing(struct rank_hosts *hosts)
{
    bool have_passed = true;
    for (uint32_t i = 0; i < hosts->child_count; i++) {
        bool has_passed = false;        /* a request that has passed passes again */
        const int rc = ranks_module(hosts->ranks)->test(&hosts->children[i].request, &has_passed);
        if (rc != 0)
            return -rc;
        have_passed = have_passed && has_passed;
    }
    return have_passed;
}

int rank_hosts_exchange(struct rank_hosts *hosts, int tag, struct rank_wait *wait_out)
{
    *wait_out = (struct rank_wait){ 0, true };
    int rc = hosts->stage == STAGE_NEW ? -begin_names(hosts, tag) : 0;
    if (rc == 0 && hosts->stage == STAGE_NAMES && (rc = advance_names(hosts, tag, wait_out)) == 1)
        hosts->stage = STAGE_TABLE;
    if (rc >= 0 && hosts->stage == STAGE_TABLE && (rc = advance_table(hosts, tag)) == 1)
        hosts->stage = STAGE_PASSING;
    if (rc >= 0 && hosts->stage == STAGE_PASSING && (rc = advance_passing(hosts)) == 1)
        end_exchange(hosts);
    return rc < 0 ? rc : hosts->stage == STAGE_DONE;
}

/* ---- the result ---- */

const char *rank_hosts_name(const struct rank_hosts *hosts, uint32_t rank)
{
    return host_at(hosts, hosts->table->host_of[rank]);
}

uint32_t rank_hosts_near_count(const struct rank_hosts *hosts)
{
    return hosts->near_count;
}

uint32_t rank_hosts_near(const struct rank_hosts *hosts, uint32_t place)
{
    return hosts->near[place];
}

uint32_t rank_hosts_place(const struct rank_hosts *hosts, uint32_t rank)
{
    return hosts->places[rank];
}
