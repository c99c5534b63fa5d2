#!/usr/bin/env python3
"""The formula of bench/hosts.md as tables: what a step costs on many hosts, and how many messages it takes.

    bench/hosts.py              the tables of RESULTS.md
    bench/hosts.py --checked    the formula with the processor's cost beside the measured steps of hosts.md
"""
import argparse
import math

MESSAGE = 256 * 1024            # bytes at most (sync/ranks/exchange_messages.c)
WIRE = 1448 / 1514              # of TCP over Ethernet
BYTE_NS = 1.0                   # processor time of a byte that a rank sends, and one that it receives
MESSAGE_NS = 2000.0             # processor time to begin and complete a message

KIB, MIB = 1024, 1024 * 1024
RESNET50 = [int(m * MIB) for m in (4.1, 9.0, 4.0, 13.0, 16.0, 16.3, 16.0, 11.3)]
# name, bytes of the buckets, ms of a step on one host, Gb/s, ms of a round of small messages, communication threads
HOSTS = [
    ('`mnist_cnn`, 128', [int(2.3 * MIB), int(37.9 * KIB)], 33.5, 1, 0.2, 2),
    ('`mnist_cnn`, 128', [int(2.3 * MIB), int(37.9 * KIB)], 33.5, 10, 0.2, 2),
    ('`cifar10_cnn`, 128', [int(4.5 * MIB), int(258.1 * KIB)], 109, 1, 0.2, 2),
    ('`cifar10_cnn`, 128', [int(4.5 * MIB), int(258.1 * KIB)], 109, 10, 0.2, 2),
    ('`resnet50_v1`, 16', RESNET50, 1432, 1, 0.2, 2),
    ('`resnet50_v1`, 16', RESNET50, 1432, 10, 0.2, 2),
    ('`resnet50_v1` on a GPU, 256, `sync.wire = bf16`', [b // 2 for b in RESNET50], 35.6, 100, 0.05, 4),
]
# From hosts.md: network, hosts, compute ms, ms on the wire, formula with nothing hidden, measured (two MPIs)
CHECKED = [
    ('`mnist_cnn`', 2, (18, 18), 2.4e6, (39, 39), (47, 43)),
    ('`cifar10_cnn`', 2, (56, 58), 5.0e6, (99, 101), (106, 105)),
    ('`mnist_cnn`', 4, (19, 18), 2.4e6, (51, 50), (74, 72)),
    ('`cifar10_cnn`', 4, (57, 57), 5.0e6, (121, 121), (172, 176)),
]
EMULATED_NS, EMULATED_CORES = 8.0, 2


def messages_of(buckets, ranks):
    """That a rank sends in a step; it receives as many."""
    return sum(2 * (ranks - 1) * math.ceil(b / ranks / MESSAGE) for b in buckets)


def sum_ms(buckets, ranks, gigabits, latency_ms, threads):
    sent = 2 * (ranks - 1) / ranks * sum(buckets)
    wire = sent / (gigabits * 1e9 / 8 * WIRE) * 1e3
    processor = (BYTE_NS * sent + MESSAGE_NS * 2 * messages_of(buckets, ranks)) / threads / 1e6
    return max(wire, processor) + 2 * len(buckets) * latency_ms, wire, processor


def print_steps():
    sizes = (8, 64, 512)
    print('| network, images on each host | link, Gb/s | sum, ms: ' + ', '.join(map(str, sizes)) + ' hosts | of it the '
          'processor at least | speed of a host, nothing hidden | messages sent by a rank in a step |')
    print('|---|---:|---:|---:|---:|---:|')
    for name, buckets, compute, gigabits, latency, threads in HOSTS:
        sums = [sum_ms(buckets, ranks, gigabits, latency, threads) for ranks in sizes]
        row = [', '.join(f'{s[0]:,.0f}' for s in sums), ', '.join(f'{s[2]:,.0f}' for s in sums),
               ', '.join(f'{100 * compute / (compute + s[0]):.0f}' for s in sums) + ' %',
               ', '.join(f'{messages_of(buckets, ranks):,}' for ranks in sizes)]
        print(f'| {name} | {gigabits} | ' + ' | '.join(row) + ' |')


def print_checked():
    print('| network | hosts | processor | formula | measured | |')
    print('|---|---:|---:|---:|---:|---:|')
    for name, hosts, compute, gradients, formula, measured in CHECKED:
        sent = 2 * (hosts - 1) / hosts * gradients
        processor = hosts * sent * EMULATED_NS / EMULATED_CORES / 1e6
        found = [max(f, c + processor) for f, c in zip(formula, compute)]
        ratios = ', '.join(f'{100 * (f / m - 1):+.0f}' for f, m in zip(found, measured))
        print(f'| {name} | {hosts} | {processor:.0f} | {", ".join(f"{f:.0f}" for f in found)} | '
              f'{", ".join(map(str, measured))} | {ratios} % |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--checked', action='store_true')
    if parser.parse_args().checked:
        print_checked()
    else:
        print_steps()


if __name__ == '__main__':
    main()
