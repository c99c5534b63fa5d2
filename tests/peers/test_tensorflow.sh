#!/bin/sh
# TensorFlow reads what pipetrain-convert writes and writes what pipetrain reads.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
exec "$python" "$(dirname "$0")/tensorflow_interop.py"
