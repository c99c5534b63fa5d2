"""The models of pipetrain in PyTorch, written from where they are published, not from its sources.

    network = torch_zoo.Network("densenet40_k12", classes=10)
    logits = network(images)            # uint8, N x C x H x W

A model is a function that takes images through its layers, and a row of MODELS. A layer is made when it is
first reached, so that nobody has to say how many channels come in, and found by its name afterwards.
network.tensors() has all numbers by the names pipetrain gives them. Padding is TensorFlow's: SAME puts the
odd pixel behind.

    torch_zoo.py [CLASSES [MODEL ...]]

prints parameters, statistics and multiply-accumulates: of all models, with their own number of classes.
"""
import math
import sys

import torch
import torch.nn.functional as F

# Of batch normalisation: decay of the running values, epsilon, gamma.
CONV_NORM = (0.9, 1e-5, True)           # tf_cnn_benchmarks, behind convolutions; PyTorch
BARE_NORM = (0.999, 1e-3, False)        # tf_cnn_benchmarks, Inception and pre-activation
KERAS_NORM = (0.99, 1e-3, True)


# ---- padding: (pixels before, behind) of an axis ----

def same(size, kernel, stride):
    size = int(size)                    # also where a trace makes it a tensor
    total = max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def valid(_size, _kernel, _stride):
    return 0, 0


def centred(size, kernel, stride):
    """Of residual networks for ImageNet: the same on both sides, whatever the stride."""
    return same(size, kernel, stride) if stride == 1 else ((kernel - 1) // 2, (kernel - 1) // 2)


# ---- layers without numbers ----

def relu(x):
    return F.relu(x, inplace=True)


def max_pool(x, kernel, stride, pad=valid):
    """Only SAME whose odd pixel lies behind, or as much on both sides."""
    before, behind = pad(x.shape[2], kernel, stride)
    assert before in (0, behind) and x.shape[2] == x.shape[3]
    return F.max_pool2d(x, kernel, stride, before, ceil_mode=behind > before)


def average_pool(x, kernel, stride, pad=valid):
    """The mean of the window's pixels that lie in the image."""
    before, behind = pad(x.shape[2], kernel, stride)
    assert before == behind and x.shape[2] == x.shape[3]
    return F.avg_pool2d(x, kernel, stride, before, count_include_pad=False)


def spatial_mean(x):
    return x.mean((2, 3))


class Norm(torch.nn.BatchNorm2d):
    def __init__(self, channels, decay, epsilon, with_gamma):
        super().__init__(channels, eps=epsilon, momentum=1 - decay)
        self.num_batches_tracked = None
        if not with_gamma:
            self.weight = None


class Network(torch.nn.Module):
    """`dropout` false leaves dropout out. With `auxiliary`, training gives two logits: (the net's, those of
    its auxiliary head). `size`: of square images; 0: the model's own."""

    def __init__(self, name, classes=None, dropout=True, auxiliary=False, size=0):
        super().__init__()
        function, shape, own_classes, self.transform = MODELS[name]
        shape = (shape[0], size or shape[1], size or shape[2])
        self.function, self.shape, self.classes = function, shape, classes or own_classes
        self.with_dropout, self.with_auxiliary = dropout, auxiliary
        self.layers = {}
        with torch.no_grad():
            self(torch.zeros((2, *shape), dtype=torch.uint8))
        for layer in self.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.running_mean.zero_()
                layer.running_var.fill_(1)

    def forward(self, images):
        number = next((parameter.dtype for parameter in self.parameters()), torch.float32)
        return self.function(self, self.transform(images.to(number)))

    def tensors(self):
        """All numbers, trained or not, by name."""
        return {f"{name}.{kind}".lstrip("."): tensor for name, layer in self.layers.items()
                for kind, tensor in layer.state_dict(keep_vars=True).items() if "num_batches" not in kind}

    def layer(self, name, make):
        if name not in self.layers:
            self.layers[name] = make()
            self.add_module(name.replace(".", "/") or "all", self.layers[name])
        return self.layers[name]

    # ---- layers with numbers ----

    def conv(self, x, name, filters, kernel, stride=1, pad=same, bias=True, groups=1):
        """`kernel`: a number, or (height, width)."""
        height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        layer = self.layer(name, lambda: torch.nn.Conv2d(x.shape[1], filters, (height, width), stride, bias=bias,
                                                         groups=groups))
        top, bottom = pad(x.shape[2], height, stride)
        left, right = pad(x.shape[3], width, stride)
        if (top, left) != (bottom, right):
            x, top, left = F.pad(x, (left, right, top, bottom)), 0, 0
        return F.conv2d(x, layer.weight, layer.bias, stride, (top, left), groups=groups)

    def dense(self, x, name, units):
        x = x.flatten(1)
        return self.layer(name, lambda: torch.nn.Linear(x.shape[1], units))(x)

    def norm(self, x, name, profile=CONV_NORM):
        return self.layer(name, lambda: Norm(x.shape[1], *profile))(x)

    def conv_relu(self, x, *arguments, **options):
        return relu(self.conv(x, *arguments, **options))

    def dense_relu(self, x, name, units):
        return relu(self.dense(x, name, units))

    def dropout(self, x, rate):
        return F.dropout(x, rate, self.training and self.with_dropout)

    def class_layer(self, x, name):
        return self.dense(x, name, self.classes)


# ---- MNIST, and small nets for CIFAR-10: Keras' examples and what others made of them ----

def mnist_cnn(filters):
    def logits(n, x):
        x = n.conv_relu(x, "conv1", 32, 3, pad=valid)
        x = n.conv_relu(x, "conv2", filters, 3, pad=valid)
        x = n.dropout(max_pool(x, 2, 2), 0.25)
        x = n.dropout(n.dense_relu(x, "fc1", 128), 0.5)
        return n.class_layer(x, "fc2")
    return logits


def multigpu_mnist(n, x):
    x = n.conv_relu(x, "conv1", 32, 3, pad=valid)
    x = n.norm(n.conv_relu(x, "conv2", 256, 3, pad=valid), "bn2", KERAS_NORM)
    x = n.conv_relu(x, "conv3", 128, 3, pad=valid)
    x = n.dropout(max_pool(x, 2, 2), 0.25)
    x = n.dropout(n.dense_relu(x, "fc1", 128), 0.5)
    return n.class_layer(x, "fc2")


def cifar10_cnn(n, x):
    for i, filters in enumerate((32, 64)):
        x = n.conv_relu(x, f"conv{2 * i + 1}", filters, 3)
        x = n.conv_relu(x, f"conv{2 * i + 2}", filters, 3, pad=valid)
        x = n.dropout(max_pool(x, 2, 2), 0.25)
    x = n.dropout(n.dense_relu(x, "fc1", 512), 0.5)
    return n.class_layer(x, "fc2")


def small_cifar(n, x):
    return n.class_layer(n.conv_relu(x, "conv1", 32, 3), "fc")


# ---- CIFAR-10: tf_cnn_benchmarks ----

def cifar_alexnet(n, x):
    def response(x):
        return F.local_response_norm(x, 9, alpha=0.001, beta=0.75, k=1)
    x = response(max_pool(n.conv_relu(x, "conv1", 64, 5), 3, 2, same))
    x = max_pool(response(n.conv_relu(x, "conv2", 64, 5)), 3, 2, same)
    x = n.dense_relu(n.dense_relu(x, "fc1", 384), "fc2", 192)
    return n.class_layer(x, "fc3")


def trivial(n, x):
    return n.class_layer(n.dense_relu(n.dense_relu(x, "fc1", 1), "fc2", 4096), "fc3")


def padded_shortcut(x, channels, stride):
    side = (channels - x.shape[1]) // 2
    return x if side == 0 else F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, side, side))


def cifar_resnet_v1(blocks):
    def block(n, x, name, channels, stride):
        y = relu(n.norm(n.conv(x, name + ".conv1", channels, 3, stride, bias=False), name + ".bn1"))
        y = n.norm(n.conv(y, name + ".conv2", channels, 3, bias=False), name + ".bn2")
        return relu(y + padded_shortcut(x, channels, stride))

    def logits(n, x):
        x = n.norm(n.conv(x, "conv1", 16, 3, bias=False), "bn1")
        for stage, channels in enumerate((16, 32, 64)):
            for i in range(blocks):
                x = block(n, x, f"layer{stage + 1}.{i}", channels, 2 if stage > 0 and i == 0 else 1)
        return n.class_layer(spatial_mean(x), "fc")
    return logits


def cifar_resnet_v2(blocks):
    def block(n, x, name, channels, stride):
        y = relu(n.norm(x, name + ".bn1", BARE_NORM))
        y = relu(n.norm(n.conv(y, name + ".conv1", channels, 3, stride, bias=False), name + ".bn2"))
        return n.conv(y, name + ".conv2", channels, 3, bias=False) + padded_shortcut(x, channels, stride)

    def logits(n, x):
        x = relu(n.norm(n.conv(x, "conv1", 16, 3, bias=False), "bn1"))
        for stage, channels in enumerate((16, 32, 64)):
            for i in range(blocks):
                x = block(n, x, f"layer{stage + 1}.{i}", channels, 2 if stage > 0 and i == 0 else 1)
        return n.class_layer(spatial_mean(relu(n.norm(x, "bn2", BARE_NORM))), "fc")
    return logits


def densenet(layers, growth):
    def logits(n, x):
        x = n.conv(x, "features.conv", 16, 3)
        for block in range(1, 4):
            for i in range(layers):
                name = f"features.denseblock{block}.denselayer{i + 1}"
                y = relu(n.norm(x, name + ".norm"))
                x = torch.cat((x, n.conv(y, name + ".conv", growth, 3)), 1)
            if block < 3:
                name = f"features.transition{block}"
                x = n.conv_relu(relu(n.norm(x, name + ".norm")), name + ".conv", 2 * growth, 1)
                x = average_pool(x, 2, 2)
        return n.class_layer(spatial_mean(relu(n.norm(x, "features.norm"))), "classifier")
    return logits


# ---- ImageNet: tf_cnn_benchmarks ----

def features(n, x, steps, with_norm=False):
    """Convolutions (filters, kernel[, stride, pad]) and pools, called by their places."""
    place = 0
    for step in steps:
        if isinstance(step, int):
            x, place = max_pool(x, step, 2), place + 1
        else:
            x = n.conv(x, f"features.{place}", *step)
            x = relu(n.norm(x, f"features.{place + 1}") if with_norm else x)
            place += 3 if with_norm else 2
    return x


def plain(steps, *widths):
    def logits(n, x):
        x = features(n, x, steps)
        for i, width in enumerate(widths):
            x = n.dropout(n.dense_relu(x, f"classifier.{3 * i}", width), 0.5)
        return n.class_layer(x, f"classifier.{3 * len(widths)}")
    return logits


def vgg_steps(*groups):
    return [step for convs, filters in zip(groups, (64, 128, 256, 512, 512))
            for step in [(filters, 3)] * convs + [2]]


ALEXNET = ((64, 11, 4, valid), 3, (192, 5), 3, (384, 3), (384, 3), (256, 3), 3)
OVERFEAT = ((96, 11, 4, valid), 2, (256, 5, 1, valid), 2, (512, 3), (1024, 3), (1024, 3), 2)


def lenet(n, x):
    x = max_pool(n.conv_relu(x, "conv1", 32, 5), 2, 2)
    x = max_pool(n.conv_relu(x, "conv2", 64, 5), 2, 2)
    return n.class_layer(n.dense_relu(x, "fc1", 512), "fc2")


def bottleneck(n, x, name, filters, strides):
    """1x1, 3x3, 1x1 with the first two strides; the last one without ReLU."""
    y = n.conv(x, name + ".conv1", filters // 4, 1, strides[0], bias=False)
    y = n.conv(relu(n.norm(y, name + ".bn1")), name + ".conv2", filters // 4, 3, strides[1], centred, bias=False)
    y = n.conv(relu(n.norm(y, name + ".bn2")), name + ".conv3", filters, 1, bias=False)
    return n.norm(y, name + ".bn3")


def block_v1(n, x, name, filters, stride, strides):
    y = bottleneck(n, x, name, filters, strides)
    if x.shape[1] != filters:
        x = n.norm(n.conv(x, name + ".downsample.0", filters, 1, stride, bias=False), name + ".downsample.1")
    return relu(y + x)


def resnet_stages(n, x, blocks, block):
    x = relu(n.norm(n.conv(x, "conv1", 64, 7, 2, centred, bias=False), "bn1"))
    x = max_pool(x, 3, 2, same)
    for stage, count in enumerate(blocks):
        for i in range(count):
            x = block(n, x, f"layer{stage + 1}.{i}", 256 << stage, 2 if stage > 0 and i == 0 else 1)
    return x


def resnet_v1(*blocks):
    def logits(n, x):
        x = resnet_stages(n, x, blocks, lambda n, x, name, filters, s: block_v1(n, x, name, filters, s, (s, 1)))
        return n.class_layer(spatial_mean(x), "fc")
    return logits


def resnet_v15(*blocks):
    def logits(n, x):
        x = resnet_stages(n, x, blocks, lambda n, x, name, filters, s: block_v1(n, x, name, filters, s, (1, s)))
        return n.class_layer(spatial_mean(x), "fc")
    return logits


def block_v2(n, x, name, filters, stride):
    pre = relu(n.norm(x, name + ".bn1", BARE_NORM))
    y = n.conv(pre, name + ".conv1", filters // 4, 1, stride, bias=False)
    y = n.conv(relu(n.norm(y, name + ".bn2")), name + ".conv2", filters // 4, 3, 1, centred, bias=False)
    y = n.conv(relu(n.norm(y, name + ".bn3")), name + ".conv3", filters, 1, bias=False)
    if x.shape[1] != filters:
        x = n.conv(pre, name + ".downsample", filters, 1, stride, bias=False)
    return y + x


def resnet_v2(*blocks):
    def logits(n, x):
        x = resnet_stages(n, x, blocks, block_v2)
        return n.class_layer(spatial_mean(relu(n.norm(x, "bn2", BARE_NORM))), "fc")
    return logits


#                   1x1  3x3: reduced, out  5x5: reduced, out  behind the pool
GOOGLENET = {"3a": (64, 96, 128, 16, 32, 32), "3b": (128, 128, 192, 32, 96, 64),
             "4a": (192, 96, 208, 16, 48, 64), "4b": (160, 112, 224, 24, 64, 64),
             "4c": (128, 128, 256, 24, 64, 64), "4d": (112, 144, 288, 32, 64, 64),
             "4e": (256, 160, 320, 32, 128, 128), "5a": (256, 160, 320, 32, 128, 128),
             "5b": (384, 192, 384, 48, 128, 128)}


def googlenet(n, x):
    x = max_pool(n.conv_relu(x, "conv1", 64, 7, 2), 3, 2, same)
    x = n.conv_relu(n.conv_relu(x, "conv2", 64, 1), "conv3", 192, 3)
    x = max_pool(x, 3, 2, same)
    for place, (one, three_in, three, five_in, five, pool) in GOOGLENET.items():
        name = "inception" + place
        if place in ("4a", "5a"):
            x = max_pool(x, 3, 2, same)
        x = torch.cat((n.conv_relu(x, name + ".branch1", one, 1),
                       n.conv_relu(n.conv_relu(x, name + ".branch2.0", three_in, 1), name + ".branch2.1", three, 3),
                       n.conv_relu(n.conv_relu(x, name + ".branch3.0", five_in, 1), name + ".branch3.1", five, 5),
                       n.conv_relu(max_pool(x, 3, 1, same), name + ".branch4.1", pool, 1)), 1)
    return n.class_layer(average_pool(x, 7, 1), "fc")


def inception3(n, x):
    wide, tall = (1, 7), (7, 1)

    def conv(x, name, filters, kernel, stride=1, pad=same):
        x = n.conv(x, name + ".conv", filters, kernel, stride, pad, bias=False)
        return relu(n.norm(x, name + ".bn", BARE_NORM))

    def chain(x, name, *layers):
        """One after the other, (filters, kernel) or with (stride, pad) behind: name_1, name_2."""
        for i, layer in enumerate(layers):
            x = conv(x, f"{name}_{i + 1}", *layer)
        return x

    def pooled(x, name, pool, filters):
        return conv(pool(x, 3, 1, same), name + ".branch_pool", filters, 1)

    def module_a(x, name, filters):
        return torch.cat((conv(x, name + ".branch1x1", 64, 1), chain(x, name + ".branch5x5", (48, 1), (64, 5)),
                          chain(x, name + ".branch3x3dbl", (64, 1), (96, 3), (96, 3)),
                          pooled(x, name, average_pool, filters)), 1)

    def module_b(x, name):
        return torch.cat((conv(x, name + ".branch3x3", 384, 3, 2, valid),
                          chain(x, name + ".branch3x3dbl", (64, 1), (96, 3), (96, 3, 2, valid)),
                          max_pool(x, 3, 2)), 1)

    def module_c(x, name, m):
        return torch.cat((conv(x, name + ".branch1x1", 192, 1),
                          chain(x, name + ".branch7x7", (m, 1), (m, wide), (192, tall)),
                          chain(x, name + ".branch7x7dbl", (m, 1), (m, tall), (m, wide), (m, tall), (192, wide)),
                          pooled(x, name, average_pool, 192)), 1)

    def module_d(x, name):
        return torch.cat((chain(x, name + ".branch3x3", (192, 1), (320, 3, 2, valid)),
                          chain(x, name + ".branch7x7x3", (192, 1), (192, wide), (192, tall), (192, 3, 2, valid)),
                          max_pool(x, 3, 2)), 1)

    def module_e(x, name, pool):
        t = chain(x, name + ".branch3x3", (384, 1))
        u = chain(x, name + ".branch3x3dbl", (448, 1), (384, 3))
        return torch.cat((conv(x, name + ".branch1x1", 320, 1), conv(t, name + ".branch3x3_2a", 384, (1, 3)),
                          conv(t, name + ".branch3x3_2b", 384, (3, 1)), conv(u, name + ".branch3x3dbl_3a", 384, (1, 3)),
                          conv(u, name + ".branch3x3dbl_3b", 384, (3, 1)), pooled(x, name, pool, 192)), 1)

    def auxiliary_head(x):
        x = conv(average_pool(x, 5, 3), "AuxLogits.conv0", 128, 1)
        return n.class_layer(conv(x, "AuxLogits.conv1", 768, 5, 1, valid), "AuxLogits.fc")

    x = conv(conv(x, "Conv2d_1a_3x3", 32, 3, 2, valid), "Conv2d_2a_3x3", 32, 3, 1, valid)
    x = max_pool(conv(x, "Conv2d_2b_3x3", 64, 3), 3, 2)
    x = max_pool(conv(conv(x, "Conv2d_3b_1x1", 80, 1), "Conv2d_4a_3x3", 192, 3, 1, valid), 3, 2)
    x = module_a(module_a(module_a(x, "Mixed_5b", 32), "Mixed_5c", 64), "Mixed_5d", 64)
    x = module_b(x, "Mixed_6a")
    for name, m in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        x = module_c(x, name, m)
    has_auxiliary = n.with_auxiliary and n.training
    auxiliary = auxiliary_head(x) if has_auxiliary else None
    x = module_d(x, "Mixed_7a")
    x = module_e(module_e(x, "Mixed_7b", average_pool), "Mixed_7c", max_pool)
    logits = n.class_layer(average_pool(x, 8, 1), "fc")
    return (logits, auxiliary) if has_auxiliary else logits


# ---- CIFAR-10: pytorch-classification ----

def cifar_vgg19(with_norm):
    def logits(n, x):
        return n.class_layer(features(n, x, vgg_steps(2, 2, 4, 4, 4), with_norm), "classifier")
    return logits


# ---- CIFAR-10: Xie et al. 2017 ----

def resnext29(groups, width):
    def conv_norm(n, x, conv, norm, filters, kernel, stride=1, **options):
        return n.norm(n.conv(x, conv, filters, kernel, stride, centred, bias=False, **options), norm)

    def block(n, x, name, filters, stride):
        y = relu(conv_norm(n, x, name + "conv1", name + "bn1", filters, 1))
        y = relu(conv_norm(n, y, name + "conv2", name + "bn2", filters, 3, stride, groups=groups))
        y = conv_norm(n, y, name + "conv3", name + "bn3", filters * 256 // (groups * width), 1)
        if x.shape[1] != y.shape[1]:
            x = conv_norm(n, x, name + "downsample.0", name + "downsample.1", y.shape[1], 1, stride)
        return relu(x + y)

    def logits(n, x):
        x = relu(conv_norm(n, x, "conv1", "bn1", 64, 3))
        for stage in range(3):
            for i in range(3):
                x = block(n, x, f"layer{stage + 1}.{i}.", groups * width << stage, 2 if stage > 0 and i == 0 else 1)
        return n.class_layer(spatial_mean(x), "fc")
    return logits


# ---- torchvision's own ----

def without_drops(n, whole):
    from torchvision.ops import StochasticDepth
    for layer in whole.modules():
        if isinstance(layer, (torch.nn.Dropout, StochasticDepth)) and not n.with_dropout:
            layer.p = 0
    return whole


def mobilenet_v2_cifar(n, x):
    """torchvision's with stride 1 in the first convolution and in the second row of its table."""
    def make():
        from torchvision.models import MobileNetV2
        rows = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                (6, 320, 1, 1))
        whole = MobileNetV2(num_classes=n.classes, inverted_residual_setting=[list(row) for row in rows])
        whole.features[0][0].stride = (1, 1)
        return whole
    return without_drops(n, n.layer("", make))(x)


def fit_vgg(whole, shape):
    """Images of another size than 224 get a dense layer of their own: torchvision's average pool would repeat pixels."""
    pixels = shape[1] // 32 * (shape[2] // 32)
    if pixels != 49:
        whole.avgpool = torch.nn.Identity()
        whole.classifier[0] = torch.nn.Linear(512 * pixels, 4096)
    return whole


def torchvision(name):
    def logits(n, x):
        import torchvision

        def make():
            whole = getattr(torchvision.models, name)(num_classes=n.classes)
            return fit_vgg(whole, n.shape) if name.startswith("vgg") else whole
        return without_drops(n, n.layer("", make))(x)
    return logits


# ---- the images: (pixel / divisor - mean) / deviation ----

def to_one(x):
    return x / 255


def around_zero(x):
    return x / 127.5 - 1


def normalised(mean, deviation):
    def transform(x):
        return (x / 255 - x.new_tensor(mean).view(-1, 1, 1)) / x.new_tensor(deviation).view(-1, 1, 1)
    return transform


CIFAR = normalised((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010))
CIFAR_IMAGES = normalised((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
IMAGENET = normalised((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

MNIST, SMALL, LARGE = (1, 28, 28), (3, 32, 32), (3, 224, 224)
RESNETS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}

# Name: the function, the image, its classes, what is done to its pixels.
MODELS = {
    "mnist_cnn": (mnist_cnn(32), MNIST, 10, to_one),
    "mnist_cnn2": (mnist_cnn(64), MNIST, 10, to_one),
    "multigpu_mnist": (multigpu_mnist, MNIST, 10, to_one),
    "cifar10_cnn": (cifar10_cnn, SMALL, 10, to_one),
    "small_cifar": (small_cifar, SMALL, 10, to_one),
    "cifar_alexnet": (cifar_alexnet, SMALL, 10, around_zero),
    "cifar_trivial": (trivial, SMALL, 10, around_zero),
    **{f"resnet{6 * n + 2}_v1": (cifar_resnet_v1(n), SMALL, 10, around_zero) for n in (3, 5, 7, 9, 18)},
    **{f"resnet{6 * n + 2}_v2": (cifar_resnet_v2(n), SMALL, 10, around_zero) for n in (3, 5, 7, 9, 18)},
    "densenet40_k12": (densenet(12, 12), SMALL, 10, around_zero),
    "densenet100_k12": (densenet(32, 12), SMALL, 10, around_zero),
    "densenet100_k24": (densenet(32, 24), SMALL, 10, around_zero),
    "cifar_vgg19": (cifar_vgg19(False), SMALL, 10, CIFAR),
    "cifar_vgg19_bn": (cifar_vgg19(True), SMALL, 10, CIFAR),
    "imagenet_alexnet": (plain(ALEXNET, 4096, 4096), (3, 227, 227), 1000, around_zero),
    "vgg11": (plain(vgg_steps(1, 1, 2, 2, 2), 4096, 4096), LARGE, 1000, around_zero),
    "vgg16": (plain(vgg_steps(2, 2, 3, 3, 3), 4096, 4096), LARGE, 1000, around_zero),
    "vgg19": (plain(vgg_steps(2, 2, 4, 4, 4), 4096, 4096), LARGE, 1000, around_zero),
    "lenet": (lenet, (3, 28, 28), 1000, around_zero),
    "googlenet": (googlenet, LARGE, 1000, around_zero),
    "overfeat": (plain(OVERFEAT, 3072, 4096), (3, 231, 231), 1000, around_zero),
    "imagenet_trivial": (trivial, (3, 227, 227), 1000, around_zero),
    "inception3": (inception3, (3, 299, 299), 1000, around_zero),
    **{f"resnet{depth}_v1": (resnet_v1(*blocks), LARGE, 1000, around_zero) for depth, blocks in RESNETS.items()},
    **{f"resnet{depth}_v1.5": (resnet_v15(*blocks), LARGE, 1000, around_zero) for depth, blocks in RESNETS.items()},
    **{f"resnet{depth}_v2": (resnet_v2(*blocks), LARGE, 1000, around_zero) for depth, blocks in RESNETS.items()},
    **{f"torchvision_{name}": (torchvision(name), LARGE, 1000, IMAGENET)
       for name in ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg13", "vgg16", "vgg19",
                    "vgg16_bn", "alexnet")},
    **{name: (torchvision(name), LARGE, 1000, IMAGENET)
       for name in ("wide_resnet50_2", "densenet121", "squeezenet1_1", "resnext50_32x4d", "regnet_y_1_6gf",
                    "mobilenet_v2", "mobilenet_v3_large", "efficientnet_b0", "convnext_tiny")},
    "efficientnet_v2_s": (torchvision("efficientnet_v2_s"), (3, 384, 384), 1000, IMAGENET),
    "resnext29_8x64d": (resnext29(8, 64), SMALL, 10, CIFAR_IMAGES),
    "mobilenet_v2_cifar": (mobilenet_v2_cifar, SMALL, 10, IMAGENET),
}


def counts(name, classes=None, **options):
    """Parameters, statistics, multiply-accumulates of one image."""
    from torch.utils.flop_counter import FlopCounterMode
    with torch.device("meta"):
        network = Network(name, classes, **options)
        with FlopCounterMode(display=False) as counter:
            network.eval()(torch.zeros((1, *network.shape), dtype=torch.uint8))
    trained = sum(tensor.numel() for tensor in network.parameters())
    statistics = sum(tensor.numel() for tensor in network.tensors().values()) - trained
    return trained, statistics, counter.get_total_flops() // 2


def main():
    classes = int(sys.argv[1]) if len(sys.argv) > 1 else None
    for name in sys.argv[2:] or MODELS:
        print(f"{name:24}" + "".join(f"{count:16,}" for count in counts(name, classes)))


if __name__ == "__main__":
    main()
