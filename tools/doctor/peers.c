/* The matrix of copies, a row a finding. */
#include "tools/doctor/peers.h"

#include <stdio.h>
#include <string.h>

#define TOPIC "gpu"
#define ROW_BYTES 1024
#define SLOWEST 0.5             /* of the fastest pair: beyond, some pairs have another way than others */

static void put_pair(const struct copy_speeds *speeds, uint32_t from, uint32_t to, char *row)
{
    const size_t bytes = strlen(row);
    const char *const comma = bytes > 0 ? ", " : "", *const way = speeds->reaches[to][from] ? "" : " by the host";
    if (speeds->between[from][to] > 0)
        snprintf(row + bytes, ROW_BYTES - bytes, "%s%u %.1f%s", comma, to, speeds->between[from][to] / 1e9, way);
    else
        snprintf(row + bytes, ROW_BYTES - bytes, "%s%u not measured", comma, to);
}

static double fastest(const struct copy_speeds *speeds)
{
    double most = 0;
    for (uint32_t i = 0; i < speeds->count; i++)
        for (uint32_t j = 0; j < speeds->count; j++)
            most = speeds->between[i][j] > most ? speeds->between[i][j] : most;
    return most;
}

static void add_row(struct findings *findings, const struct copy_speeds *speeds, uint32_t from)
{
    char row[ROW_BYTES] = "";
    uint32_t apart = 0, slow = 0;
    const double most = fastest(speeds);
    for (uint32_t to = 0; to < speeds->count; to++) {
        if (to == from)
            continue;
        put_pair(speeds, from, to, row);
        apart += !speeds->reaches[to][from];
        slow += speeds->between[from][to] > 0 && speeds->between[from][to] < SLOWEST * most;
    }
    findings_add(findings, TOPIC, "peers", "GB/s from %u to: %s", from, row);
    if (apart > 0)
        findings_judge(findings, JUDGEMENT_WARN, "these copies go through the host's memory, and sync.reduce = peer is "
                       "refused: PCI access control (ACS) or an IOMMU may be in the way and can be turned off (BIOS, "
                       "kernel); some GPUs have no peer access at all");
    else if (slow > 0)
        findings_judge(findings, JUDGEMENT_NOTE, "some pairs are less than half as fast as the fastest, and sums over "
                       "all take the time of the slowest: towers on GPUs that are near each other (devices.list) sum "
                       "faster");
}

void peers_add(struct findings *findings, const struct copy_speeds *speeds)
{
    for (uint32_t from = 0; from < speeds->count && speeds->count > 1; from++)
        add_row(findings, speeds, from);
}
