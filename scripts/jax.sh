#!/bin/sh
# The tests of JAX, which is installed in a folder of its own for its size.
# Usage: sh scripts/jax.sh [OPTIONS OF PYTEST]; needs uv.
set -eu
BIN=${BIN:-.venv/bin}
place=${JAX:-build/jax}
[ -d "$place/jax" ] || "$BIN/uv" pip install --quiet --python "$BIN/python" --no-deps \
    --target "$place" --requirement requirements-jax.txt
PYTHONPATH=$place exec "$BIN/python" -m pytest -p no:cacheprovider "$@" \
    "tests/cases/test_cases.py::test_a_loss_of_jax" \
    "tests/docs/test_code_blocks.py::test_every_block_of_a_page_works[jax]"
