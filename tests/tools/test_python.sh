#!/bin/sh
# The Python package on the library of this build: a short part of its tests, with the first Python 3 that has NumPy.
# All of them: make check-python.
build=${PIPETRAIN_BUILD:-$PWD}
tests=$(cd "$(dirname "$0")/../../tools/python/tests" && pwd)
[ "${PIPETRAIN_SANITIZER:-no}" = no ] || { echo "skipped: Python itself is not built with a sanitizer"; exit 77; }
for python in "${PYTHON:-python3}" python3 /usr/bin/python3; do
    if "$python" -c 'import numpy, sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
        PIPETRAIN_FEED_LIBRARY=$build PYTHONDONTWRITEBYTECODE=1 exec "$python" "$tests/quick.py"
    fi
done
echo "skipped: no Python 3.9 or newer with NumPy"
exit 77
