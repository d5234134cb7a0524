#!/bin/sh
# Makes sure that Chromium and its driver are there for the tests of the page.
# Ends with 0 in any case: without a browser those tests say that they were skipped.
set -u

found() {
    command -v chromedriver >/dev/null 2>&1 &&
        { command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1; }
}

cannot() {
    echo "browser: $1; the tests of the page in a browser will be skipped" >&2
    exit 0
}

found && exit 0
command -v apt-get >/dev/null 2>&1 || cannot "no Chromium here and no apt-get to install it with"

if [ "$(id -u)" -eq 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    cannot "no Chromium here and no right to install it (needs root or sudo without a password)"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "browser: installing chromium and chromium-driver"
export DEBIAN_FRONTEND=noninteractive
{
    $as_root apt-get update -q &&
        $as_root apt-get install -q -y --no-install-recommends chromium chromium-driver
} >"$log" 2>&1 || cannot "installing Chromium failed ($(tail -n 1 "$log"))"
found || cannot "Chromium was installed but cannot be found"
