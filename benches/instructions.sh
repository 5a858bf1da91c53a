#!/usr/bin/env bash
# Counts instructions of the hot paths, for the submitting thread. Unlike times they hardly depend on
# the machine or on what else it does, so that two versions can be told apart by a handful of them.
#
#     benches/instructions.sh [CALLS]
#
# Needs valgrind and a Rust toolchain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/instructions"

calls=${1:-10000}

die() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

command -v valgrind >/dev/null || die 'valgrind is missing'

# The executable's path, wherever the target directory is.
build() {
    cargo build --quiet --release --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# Instructions executed below the function `measured`, in case $1.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --fair-sched=yes \
        --collect-atstart=no --toggle-collect='instructions::measured*' \
        "$binary" "$1" "$calls" 2>&1 | sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

binary=$(build)
[ -x "$binary" ] || die 'the build gave no executable'
baseline=$(count empty)
[ "${baseline:-0}" -ge "$calls" ] || die "the empty loop was not counted: '$baseline'"

printf '| case | instructions a call |\n|---|---:|\n'
for case in $("$binary" list); do
    [ "$case" = empty ] && continue
    total=$(count "$case")
    [ -n "$total" ] || die "nothing was counted for $case"
    awk -v case="$case" -v total="$total" -v base="$baseline" -v calls="$calls" \
        'BEGIN { printf "| %s | %.1f |\n", case, (total - base) / calls }'
done
