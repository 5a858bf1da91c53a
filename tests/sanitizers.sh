#!/usr/bin/env bash
# The workload under ThreadSanitizer, AddressSanitizer and valgrind's memcheck. Each checker first has
# to report a fault committed on purpose, so that one that sees nothing is noticed.
#
#   tests/sanitizers.sh [thread|address|memcheck]...
#
# FAIRLANE_SANITIZED_POOLS says how many pools the workload lives through (200; valgrind a tenth).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

pools=${FAIRLANE_SANITIZED_POOLS:-200}
target=$(rustc -vV | sed -n 's/^host: //p')
here=$PWD

say() {
    printf -- '-- %s\n' "$1"
}

die() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# The standard library has to be checked too, or what its locks and counts order looks like a race:
# that takes its source.
have_std_source() {
    [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ] && return
    command -v rustup >/dev/null && rustup component add rust-src >/dev/null 2>&1
}

# What is used after it was freed is seen in a cell that is allocated by itself, and not in one that lies in
# a slab with others that are still in use.
alone='--cfg fairlane_cells_alone'

# Builds the workload for sanitizer $1, with the flags $2, and prints where it lies.
build_sanitized() {
    # Sanitizers are an unstable flag of a compiler that has them all the same.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=$1 $2" CARGO_TARGET_DIR="$here/target/sanitize-$1" \
        cargo build --quiet -Zbuild-std --target "$target" \
        --manifest-path tests/workload/Cargo.toml >&2 || die "the workload does not build for $1"
    echo "$here/target/sanitize-$1/$target/debug/workload"
}

# Fault $1 has to be reported with the words $2 by the command that follows.
expect_report() {
    local fault=$1 words=$2 output
    shift 2
    if output=$("$@" control "$fault" 2>&1); then
        die "the fault '$fault' went unnoticed"
    fi
    grep -q "$words" <<<"$output" || die "the fault '$fault' was not reported as '$words': $output"
    say "the fault '$fault' is reported"
}

expect_silence() {
    local output
    output=$("$@" 2>&1) || die "$*: $output"
    grep -E 'pools$|jobs accepted|closures begun' <<<"$output" || true
}

check_thread() {
    local workload
    workload=$(build_sanitized thread '')
    # Nothing is suppressed. This checker does not know fences, but only crossbeam-deque orders data
    # by them, and it does without when it is built for this checker, as do the counts of an `Arc`.
    export TSAN_OPTIONS='halt_on_error=1 second_deadlock_stack=1'
    expect_report race 'data race' "$workload"
    expect_silence "$workload" control race-in-order
    expect_silence "$workload" "$pools"
}

check_address() {
    local workload
    workload=$(build_sanitized address "$alone")
    export ASAN_OPTIONS='detect_leaks=1 detect_stack_use_after_return=1'
    expect_report use-after-free 'heap-use-after-free' "$workload"
    expect_report leak 'LeakSanitizer' "$workload"
    expect_silence "$workload" "$pools"
}

have_valgrind() {
    command -v valgrind >/dev/null && return
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return
    say 'installing valgrind'
    { apt-get update && apt-get install -y --no-install-recommends valgrind; } >/dev/null 2>&1
}

check_memcheck() {
    local memcheck workload
    if ! have_valgrind; then
        say 'skipped: there is no valgrind here, and it could not be installed'
        return
    fi
    RUSTFLAGS=$alone CARGO_TARGET_DIR="$here/target/workload" cargo build --quiet --manifest-path tests/workload/Cargo.toml
    workload=$here/target/workload/debug/workload
    # Its scheduler would otherwise let one spinning thread starve the others. The fault that leaks
    # is looked for at the end; what static data still reaches then is not lost.
    memcheck=(valgrind --quiet --fair-sched=yes --error-exitcode=9 --leak-check=full
        --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect)
    expect_report use-after-free 'Invalid read' "${memcheck[@]}" "$workload"
    expect_report leak 'definitely lost' "${memcheck[@]}" "$workload"
    expect_silence "${memcheck[@]}" "$workload" "$((pools / 10))"
}

[ $# -gt 0 ] || set -- thread address memcheck
for checker in "$@"; do
    say "$checker"
    case $checker in
    thread | address)
        if have_std_source; then
            "check_$checker"
        else
            say 'skipped: the source of the standard library is missing (rustup component add rust-src)'
        fi
        ;;
    memcheck) check_memcheck ;;
    *) die "there is no checker $checker" ;;
    esac
done
