#!/usr/bin/env python3
"""What Nsight Compute measured of each kernel, as a table: time, bytes of device memory, their rate, hits in L2.

    kernel_table.py FILE.csv

FILE is what `ncu --csv --print-units base --metrics gpu__time_duration.sum,dram__bytes.sum,lts__t_sector_hit_rate.pct`
writes: a row for each metric of each launch, behind lines of its own. A line of the table is a kernel with all its
launches, and below it every grid that it was launched with, the longest first. The last line is a JSON object with the
sums.
"""

import collections
import csv
import json
import sys

TIME, BYTES, HITS = "gpu__time_duration.sum", "dram__bytes.sum", "lts__t_sector_hit_rate.pct"


class Group:
    """Launches that make one line."""

    def __init__(self):
        self.count = 0
        self.ns = self.bytes = self.hits = 0.0

    def add(self, metrics):
        self.count += 1
        self.ns += metrics[TIME]
        self.bytes += metrics[BYTES]
        self.hits += metrics[HITS]

    def line(self, name):
        return (f"{name:44} {self.count:6} {self.ns / 1e3:10.1f} us {self.bytes / 1e6:10.1f} MB "
                f"{self.bytes / max(self.ns, 1) / 1e3:6.2f} TB/s {self.hits / self.count:6.1f} % hits in L2")


def launches(path):
    """Kernel, grid and metrics of each launch whose metrics are all there."""
    with open(path, encoding="utf-8", errors="replace") as file:
        rows = csv.DictReader(line for line in file if line.startswith('"'))
        found = collections.defaultdict(dict)
        for row in rows:
            launch = row["ID"], row["Kernel Name"].split("(")[0], row["Grid Size"]
            found[launch][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return [(kernel, grid, metrics) for (_, kernel, grid), metrics in found.items()
            if all(name in metrics for name in (TIME, BYTES, HITS))]


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    kernels, grids, whole = collections.defaultdict(Group), collections.defaultdict(Group), Group()
    for kernel, grid, metrics in launches(sys.argv[1]):
        for group in kernels[kernel], grids[kernel, grid], whole:
            group.add(metrics)
    if whole.count == 0:
        raise SystemExit(f"FAILED: {sys.argv[1]} has no launch with {TIME}, {BYTES} and {HITS}")
    for kernel, group in sorted(kernels.items(), key=lambda entry: -entry[1].ns):
        print(group.line(kernel))
        for (of, grid), part in sorted(grids.items(), key=lambda entry: -entry[1].ns):
            if of == kernel:
                print(part.line(f"    grid {grid}"))
    print(json.dumps({"launches": whole.count, "us": whole.ns / 1e3, "bytes": whole.bytes,
                      "bytes_per_second": whole.bytes / max(whole.ns, 1) * 1e9}))


if __name__ == "__main__":
    main()
