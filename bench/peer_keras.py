#!/usr/bin/env python3
"""mnist_cnn in Keras on TensorFlow: training speed with the data in memory. Prints one JSON line.

The same network and optimizer as peer_torch.py. Two loops: `function`, a tf.function that runs
several steps in one graph call (what Keras documents for custom loops), and `fit`, model.fit
with steps_per_execution. XLA is off unless --jit. TensorFlow's oneDNN kernels are asked for: it
turns them on by itself only on some CPUs, and without them convolutions are up to 4 x slower.
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ["KERAS_BACKEND"] = "tensorflow"

begin = time.perf_counter()
import tensorflow  # noqa: E402
import keras  # noqa: E402

import_seconds = time.perf_counter() - begin

import peer_common  # noqa: E402

PARAMETERS = 600_810
BATCHES = 16


def build():
    layers = keras.layers
    model = keras.Sequential([
        keras.Input((28, 28, 1)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25, seed=1),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5, seed=2),
        layers.Dense(10),
    ])
    assert model.count_params() == PARAMETERS
    return model


def make_optimizer():
    return keras.optimizers.Adadelta(learning_rate=1.0, rho=0.95, epsilon=1e-8)


def loss_function():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class ExecutionTimer(keras.callbacks.Callback):
    """Seconds of a step, the mean over each execution of several steps."""

    def __init__(self, steps_per_execution):
        super().__init__()
        self.per_execution = steps_per_execution
        self.seconds = []
        self.last = None

    def on_train_begin(self, logs=None):
        self.last = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        now = time.perf_counter()
        self.seconds.append((now - self.last) / self.per_execution)
        self.last = now


def time_fit(model, images, labels, arguments):
    per_execution = arguments.steps_per_call
    model.compile(optimizer=make_optimizer(), loss=loss_function(), jit_compile=arguments.jit,
                  steps_per_execution=per_execution)
    executions = -(-(arguments.warmup + arguments.steps) // per_execution)
    data = tensorflow.data.Dataset.from_tensors((images, labels)).repeat()
    data = data.flat_map(lambda x, y: tensorflow.data.Dataset.from_tensor_slices((
        tensorflow.reshape(x, (BATCHES, arguments.batch, 28, 28, 1)),
        tensorflow.reshape(y, (BATCHES, arguments.batch))))).prefetch(tensorflow.data.AUTOTUNE)
    timer = ExecutionTimer(per_execution)
    model.fit(data, steps_per_epoch=executions * per_execution, epochs=1, verbose=0, callbacks=[timer])
    return timer.seconds[-(-arguments.warmup // per_execution):]


def step_graph(model, images, labels, arguments):
    """A graph of `count` steps that begins at batch `first`."""
    optimizer, loss = make_optimizer(), loss_function()
    optimizer.build(model.trainable_variables)
    images = tensorflow.reshape(tensorflow.constant(images), (BATCHES, arguments.batch, 28, 28, 1))
    labels = tensorflow.reshape(tensorflow.constant(labels), (BATCHES, arguments.batch))

    @tensorflow.function(jit_compile=arguments.jit, reduce_retracing=True)
    def run(first, count):
        value = tensorflow.constant(0.0)
        for step in tensorflow.range(first, first + count):
            with tensorflow.GradientTape() as tape:
                value = loss(labels[step % BATCHES], model(images[step % BATCHES], training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)
        return value

    return run


def time_function(model, images, labels, arguments):
    run = step_graph(model, images, labels, arguments)
    count = tensorflow.constant(arguments.steps_per_call)
    run(tensorflow.constant(0), count).numpy()
    for first in range(0, arguments.warmup, arguments.steps_per_call):
        run(tensorflow.constant(first), count).numpy()
    seconds = []
    for first in range(0, arguments.steps, arguments.steps_per_call):
        last = time.perf_counter()
        run(tensorflow.constant(first), count).numpy()
        seconds.append((time.perf_counter() - last) / arguments.steps_per_call)
    return seconds


def main():
    parser = peer_common.argument_parser(__doc__)
    parser.add_argument("--loop", choices=("function", "fit"), default="function")
    parser.add_argument("--steps-per-call", type=int, default=4, help="steps in one graph call (default %(default)s)")
    parser.add_argument("--jit", action="store_true", help="with XLA")
    arguments = parser.parse_args()
    if not arguments.return_memory:
        peer_common.keep_freed_memory()

    keras.utils.set_random_seed(1)
    tensorflow.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    images, labels = peer_common.load(arguments.mnist, arguments.batch * BATCHES)
    measure = time_fit if arguments.loop == "fit" else time_function
    seconds = measure(build(), images, labels, arguments)
    peer_common.print_report(
        peer="keras", version=f"{keras.__version__}/tensorflow {tensorflow.__version__}",
        variant=arguments.loop + (" jit" if arguments.jit else ""), batch=arguments.batch, threads=arguments.threads,
        import_seconds=round(import_seconds, 3), **peer_common.step_report(seconds, arguments.batch))


if __name__ == "__main__":
    main()
