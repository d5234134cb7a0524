#!/bin/sh
# The quick tests with the oldest and the newest versions that pyproject.toml promises, in environments
# of their own. Usage: sh scripts/matrix.sh oldest:3.11 newest:3.13:torch,privacy ...; after the version of
# Python the extras, images and optuna if none are named. TESTS= names folders of tests.
# Needs uv, and interpreters of these versions: those that are not there are said and left out. Those of pyenv
# are there if they are switched on: PYENV_VERSION=3.11:3.12:3.13:3.14 make matrix
set -u
BIN=${BIN:-.venv/bin}
HOME_OF_ALL=${MATRIX:-build/matrix}
TESTS=${TESTS:-tests}
failed=0
# Without the extra torch: PyTorch alone takes gigabytes
torchless=$(grep -rlE '^(import|from) torch' tests --include='*.py' | sed 's/^/--ignore=/')

install() {
  UV_PYTHON_DOWNLOADS=never "$BIN/uv" pip install --quiet --python "$place/bin/python" "$@"
}

for entry in "$@"; do
  which=${entry%%:*} rest=${entry#*:}
  python=${rest%%:*} extras=images,optuna
  case $rest in *:*) extras=${rest#*:} ;; esac
  case ,$extras, in *,torch,*) without= ;; *) without=$torchless ;; esac
  place=$HOME_OF_ALL/$(echo "$entry" | tr :, --)
  case $which in
    oldest) how=lowest-direct ;;
    newest) how=highest ;;
    *) echo "matrix: found $entry; give oldest:3.11 or newest:3.13" >&2; exit 2 ;;
  esac
  if ! UV_PYTHON_DOWNLOADS=never "$BIN/uv" venv --quiet --clear --python "$python" "$place"; then
    echo "$entry: left out, there is no such Python here"
    continue
  fi
  install --resolution "$how" --editable ".[$extras]" \
    && install pytest pytest-xdist hypothesis nbformat nbclient myst-parser httpx2 \
    && "$place/bin/python" -m pytest --quick -q -n "${JOBS:-2}" -p no:cacheprovider \
      $without $TESTS \
    || { failed=1; echo "$entry: failed"; continue; }
  echo "$entry: passed"
done
exit $failed
