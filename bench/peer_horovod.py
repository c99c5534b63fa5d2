#!/usr/bin/env python3
"""mnist_cnn under Horovod's DistributedOptimizer, one thread a process, started by mpirun. Rank 0 prints one JSON line.

Horovod refuses gradients that are channels_last, so the network is in PyTorch's own layout here.
"""

import os
import statistics

import torch

import peer_common
import peer_torch


def main():
    parser = peer_common.argument_parser(__doc__)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    import horovod.torch as hvd
    hvd.init()
    if not arguments.return_memory:
        peer_common.keep_freed_memory()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(hvd.rank())
    model = peer_torch.build().to(memory_format=torch.contiguous_format)
    optimizer = hvd.DistributedOptimizer(peer_torch.optimizer_for(model), named_parameters=model.named_parameters())
    zero = optimizer.zero_grad
    optimizer.zero_grad = lambda **_: zero()        # Horovod's has no set_to_none; since PyTorch 2.0 that is the default
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    data = [(images.contiguous(), labels) for images, labels in
            peer_torch.batches(arguments.mnist, arguments.batch, 16)]
    peer_torch.train(model, optimizer, data, arguments.warmup)
    seconds = statistics.mean(peer_torch.train(model, optimizer, data, arguments.steps))
    if hvd.rank() == 0:
        peer_common.print_report(peer="horovod", version=torch.__version__, batch=arguments.batch,
                                 processes=hvd.size(), images_per_second=round(hvd.size() * arguments.batch / seconds, 1),
                                 step_ms=round(seconds * 1e3, 3))


if __name__ == "__main__":
    main()
