#!/usr/bin/env python3
"""mnist_cnn in PyTorch: training speed with the data in memory. Prints one JSON line.

conv 3x3 valid 32 relu, the same again, max-pool 2, dropout 0.25, dense 128 relu, dropout 0.5,
dense 10, softmax cross-entropy, Adadelta(1.0, rho 0.95, eps 1e-8): 600,810 parameters.

Settings, from PyTorch's performance tuning guide: channels_last, one intra-op thread per core,
gradients set to None, the foreach optimizer, denormals flushed, no validation of values, no
`.item()` in the loop. --compile adds torch.compile, --flatten=permute drops the one reorder that
channels_last leaves (the weights of the first dense layer are then in another order).
"""

import time

begin = time.perf_counter()
import torch  # noqa: E402

import_seconds = time.perf_counter() - begin

import torch.nn.functional as F  # noqa: E402

import peer_common  # noqa: E402

PARAMETERS = 600_810


class MnistCnn(torch.nn.Module):
    def __init__(self, permute):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(1, 32, 3)
        self.conv2 = torch.nn.Conv2d(32, 32, 3)
        self.dropout1 = torch.nn.Dropout(0.25)
        self.fc1 = torch.nn.Linear(4608, 128)
        self.dropout2 = torch.nn.Dropout(0.5)
        self.fc2 = torch.nn.Linear(128, 10)
        self.permute = permute

    def forward(self, x):
        x = F.relu(self.conv1(x), inplace=True)
        x = F.relu(self.conv2(x), inplace=True)
        x = self.dropout1(F.max_pool2d(x, 2))
        x = x.permute(0, 2, 3, 1).flatten(1) if self.permute else x.flatten(1)
        x = self.dropout2(F.relu(self.fc1(x), inplace=True))
        return self.fc2(x)


def build(permute=True):
    model = MnistCnn(permute).to(memory_format=torch.channels_last)
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    return model.train()


def optimizer_for(model):
    return torch.optim.Adadelta(model.parameters(), lr=1.0, rho=0.95, eps=1e-8, foreach=True)


def batches(folder, batch, count):
    """`count` batches as tensors of their own: images channels_last, labels."""
    images, labels = peer_common.load(folder, batch * count)
    result = []
    for i in range(count):
        part = slice(i * batch, (i + 1) * batch)
        image = torch.from_numpy(images[part]).permute(0, 3, 1, 2)
        result.append((image.contiguous(memory_format=torch.channels_last), torch.from_numpy(labels[part])))
    return result


def train(model, optimizer, data, steps):
    """Seconds of each step."""
    seconds = []
    last = time.perf_counter()
    for step in range(steps):
        images, labels = data[step % len(data)]
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        seconds.append(now - last)
        last = now
    assert torch.isfinite(loss)
    return seconds


def main():
    parser = peer_common.argument_parser(__doc__)
    parser.add_argument("--compile", action="store_true", help="with torch.compile")
    parser.add_argument("--flatten", choices=("permute", "plain"), default="permute")
    arguments = parser.parse_args()
    if not arguments.return_memory:
        peer_common.keep_freed_memory()

    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    torch.set_flush_denormal(True)
    torch.distributions.Distribution.set_default_validate_args(False)
    model = build(arguments.flatten == "permute")
    optimizer = optimizer_for(model)
    data = batches(arguments.mnist, arguments.batch, 16)
    stepped = torch.compile(model) if arguments.compile else model
    train(stepped, optimizer, data, arguments.warmup)
    seconds = train(stepped, optimizer, data, arguments.steps)
    peer_common.print_report(
        peer="torch", version=torch.__version__, variant="compile" if arguments.compile else "eager",
        batch=arguments.batch, threads=arguments.threads, import_seconds=round(import_seconds, 3),
        **peer_common.step_report(seconds, arguments.batch))


if __name__ == "__main__":
    main()
