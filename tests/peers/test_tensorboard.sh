#!/bin/sh
# TensorBoard reads the events of a run.
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || { echo "no $python here"; exit 77; }
exec "$python" "$(dirname "$0")/tensorboard_events.py"
