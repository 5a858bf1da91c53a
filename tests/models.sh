#!/usr/bin/env bash
# Checks the crate's own code under two model checkers, by the primitives that src/sync puts in place
# of the real ones:
#
# - loom takes each protocol for itself, through every interleaving up to a bound, and through every
#   value that the memory model lets a load see (src/*/models.rs);
# - shuttle takes the whole pool, through random schedules (tests/schedules).
#
# Then the positive controls: a step of a protocol is left out, and the tool has to fail. A tool that
# checks nothing is noticed by that.
#
#   tests/models.sh                             everything, as in .ci/run
#   FAIRLANE_SCHEDULES=1000000 tests/models.sh  more schedules a scenario (100,000 by default)
#   LOOM_MAX_PREEMPTIONS=4 tests/models.sh      more pre-emptions, in all of loom's models
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export FAIRLANE_SCHEDULES=${FAIRLANE_SCHEDULES:-100000}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

die() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# Each tool builds into its own directory, so that the steps around it need not build anew.
loom() {
    RUSTFLAGS='--cfg loom' CARGO_TARGET_DIR=target/loom \
        cargo test --quiet --release --lib -- "$@"
}

shuttle() {
    RUSTFLAGS='--cfg shuttle' CARGO_TARGET_DIR=target/shuttle \
        cargo test --quiet --release --test schedules -- "$@"
}

# Runs the tool $1 over what matches $2, and adds up what it counted; there are $3 lines at least.
check() {
    local tool=$1
    "$tool" "$2" >"$log" 2>&1 || { cat "$log" >&2 && die "$tool found something"; }
    grep -o "$tool: .*" "$log"
    awk -v tool="$tool" -v least="$3" '
        match($0, tool ": .*") {
            line = substr($0, RSTART)
            match(line, /[0-9]+ (executions|schedules)/)
            split(substr(line, RSTART, RLENGTH), count, " ")
            total += count[1]
            unit = count[2]
            models += 1
        }
        END {
            if (models < least) { print "error: only " models " models ran"; exit 1 }
            print "total of " tool ": " models " models, " total " " unit
        }' "$log"
}

# Without the step $3, the tool $1 must fail in the test $2.
control() {
    if FAIRLANE_BROKEN=$3 "$1" --exact "$2" >"$log" 2>&1; then
        cat "$log" >&2
        die "$1 does not notice that the step \"$3\" is left out of $2"
    fi
    # It may end in an abort: what loom finds, it also finds in the destructors that follow.
    grep -q 'running 1 test' "$log" || { cat "$log" >&2 && die "$1 did not run $2"; }
    echo "control: $1 notices the lack of \"$3\""
}

check loom models:: 30
control loom slot::models::a_submitter_and_a_slot_that_goes_to_sleep 'sleep P2'
control loom slot::models::a_submitter_and_a_slot_that_goes_to_sleep 'sleep S7'
control loom slot::models::a_sweep_and_a_slot_that_refills_its_deque 'sweep C4'
control loom job::models::a_finish_and_a_join 'job settle'
control loom job::models::the_last_line_of_a_slab 'slab count'
control loom ledger::models::a_waiter_and_the_last_finish 'idle W3'
control loom ledger::models::room_is_not_given_to_who_has_gone 'room claim'
control loom pool::models::closing_and_a_submit 'pool close'
control loom admission::models::a_push_and_a_token_that_goes_home 'gate home'

check shuttle scenarios:: 10
control shuttle scenarios::submitters_and_cancels 'sleep S7'
control shuttle scenarios::submitters_and_the_end 'pool close'
control shuttle scenarios::waiting_submitters_and_a_token 'room claim'
