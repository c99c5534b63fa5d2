"""What the comparisons with other frameworks share: running the programs of the build, and counting what differs.

$PIPETRAIN_BUILD is the folder of the build ('.').
"""
import os
import subprocess
import sys

BUILD = os.environ.get("PIPETRAIN_BUILD", ".")
IMAGENET_MEAN, IMAGENET_DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
failures = 0


def expect(is_so, what):
    global failures
    failures += not is_so
    print("ok    " if is_so else "FAILED", what, flush=True)


def end():
    """Exit with 1 if anything was not as expected."""
    sys.exit(1 if failures else 0)


def pipetrain(*words):
    """The standard output of a command that succeeds."""
    words = [os.path.join(BUILD, "pipetrain"), *words]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def settings(**keys):
    """--set for each key, in which __ stands for the dot."""
    return [word for key, value in keys.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
