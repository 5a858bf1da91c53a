#!/usr/bin/env bash
# Counts instructions of the hot paths, for the submitting thread. Unlike times they hardly depend on
# the machine or on what else it does, so that two versions can be told apart by a handful of them.
#
#     benches/instructions.sh [CALLS]             the table, beside what is on record
#     benches/instructions.sh --record [CALLS]    puts it on record: the diff is for the reviewer
#
# The record is benches/instructions/counts.md. Counts follow the compiler and the C library's
# allocator as well, so it names both: record anew before a change and after it where they differ.
#
# Needs valgrind and a Rust toolchain.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/instructions"

record=counts.md
recording=
if [ "${1:-}" = --record ]; then
    recording=yes
    shift
fi
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

# Instructions a call in case $1, without the loop around it.
count_calls() {
    local total
    total=$(count "$1")
    [ -n "$total" ] || die "nothing was counted for $1"
    awk -v total="$total" -v base="$baseline" -v calls="$calls" \
        'BEGIN { printf "%.1f", (total - base) / calls }'
}

tools() {
    printf '%s, %s, %s.\n' "$(rustc --version)" "$(valgrind --version)" "$(ldd --version | head -n 1)"
}

# What is on record for case $1; a dash if nothing is.
on_record() {
    local known=
    [ -f "$record" ] && known=$(sed -n "s/^| $1 | \([0-9.]*\) |$/\1/p" "$record")
    printf '%s' "${known:-–}"
}

binary=$(build)
[ -x "$binary" ] || die 'the build gave no executable'
baseline=$(count empty)
[ "${baseline:-0}" -ge "$calls" ] || die "the empty loop was not counted: '$baseline'"
cases=$("$binary" list | grep -vx empty)

if [ -n "$recording" ]; then
    new=$(mktemp)
    {
        printf 'By `benches/instructions.sh --record`, with %s\n\n' "$(tools)"
        printf '| case | instructions a call |\n|---|---:|\n'
        for case in $cases; do
            printf '| %s | %s |\n' "$case" "$(count_calls "$case")"
        done
    } >"$new"
    cat "$new" >"$record"
    rm "$new"
    cat "$record"
else
    tools
    printf '\n| case | instructions a call | on record |\n|---|---:|---:|\n'
    for case in $cases; do
        printf '| %s | %s | %s |\n' "$case" "$(count_calls "$case")" "$(on_record "$case")"
    done
fi
