#!/usr/bin/env python3
"""mnist_cnn under PyTorch DistributedDataParallel over gloo: what a second process gives.

One process of one thread alone, then two processes of one thread each with the same batch per
process; the two are repeated in turns and the median of the ratios is the scaling. No launcher
is needed. Prints one JSON line.
"""

import os
import socket
import statistics

import torch
import torch.distributed
import torch.multiprocessing

import peer_common
import peer_torch


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wrapped(model):
    """What PyTorch documents as fastest: gradients live in the buckets, the graph is declared static."""
    return torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)


def work(rank, processes, port, arguments, results):
    if not arguments.return_memory:
        peer_common.keep_freed_memory()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(rank)
    model = peer_torch.build()
    if processes > 1:
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                                             world_size=processes)
        model = wrapped(model)
    optimizer = peer_torch.optimizer_for(model)
    data = peer_torch.batches(arguments.mnist, arguments.batch, 16)
    peer_torch.train(model, optimizer, data, arguments.warmup)
    if processes > 1:
        torch.distributed.barrier()
    seconds = peer_torch.train(model, optimizer, data, arguments.steps)
    if rank == 0:
        results.put(statistics.mean(seconds))
    if processes > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


def step_seconds(processes, arguments):
    results = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(work, (processes, free_port(), arguments, results), processes)
    return results.get()


def main():
    parser = peer_common.argument_parser(__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3,
                        help="turns of one process and of several; 0: only several, once (default %(default)s)")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

    processes = arguments.processes
    alone, together = [], []
    for _ in range(arguments.repeats):
        alone.append(step_seconds(1, arguments))
        together.append(step_seconds(processes, arguments))
    if arguments.repeats == 0:
        together.append(step_seconds(processes, arguments))
    ratios = [processes * one / many for one, many in zip(alone, together)]
    fields = {"images_per_second": round(processes * arguments.batch / statistics.median(together), 1),
              "step_ms": round(statistics.median(together) * 1e3, 3)}
    if alone:
        fields["one_process_images_per_second"] = round(arguments.batch / statistics.median(alone), 1)
        fields["scaling"] = round(statistics.median(ratios), 3)
        fields["scaling_least"], fields["scaling_most"] = round(min(ratios), 3), round(max(ratios), 3)
    peer_common.print_report(peer="ddp gloo", version=torch.__version__, batch=arguments.batch, processes=processes,
                             **fields)


if __name__ == "__main__":
    main()
