#!/bin/sh
# The tests of Flower apps in an environment of their own, since flwr and requirements.txt exclude each other.
# Usage: sh scripts/flower.sh [OPTIONS OF PYTEST]; needs uv.
set -eu
BIN=${BIN:-.venv/bin}
place=${FLOWER:-build/flower}
[ -x "$place/bin/python" ] || "$BIN/uv" venv --quiet --python "$BIN/python" "$place"
"$BIN/uv" pip install --quiet --python "$place/bin/python" --requirement requirements-flower.txt --editable .
exec "$place/bin/python" -m pytest -p no:cacheprovider "$@" tests/problems/flower \
    tests/cases/test_cases.py::test_the_same_as_a_flower_app
