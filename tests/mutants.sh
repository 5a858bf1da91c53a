#!/usr/bin/env bash
# Changes the code in one small way after the other and runs the tests that ought to notice. A change that
# none of them notices, and that tests/mutants.md does not explain, is printed, and the script fails. Needs
# cargo-mutants (cargo install cargo-mutants --locked) and, for a limit on loops, prlimit of util-linux.
#
#   tests/mutants.sh [fair|meter|strategy|state|end]... [-- argument]...    what follows -- goes to cargo-mutants
#
# A few seconds a change, of which fair has a thousand; `-- --shard 0/8` takes every eighth.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

cargo mutants --version >/dev/null 2>&1 || die 'cargo-mutants is missing: cargo install cargo-mutants --locked'

parts=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    parts+=("$1")
    shift
done
[ $# -eq 0 ] || shift
[ ${#parts[@]} -gt 0 ] || parts=(fair meter strategy state end)
more=("$@")

# Line numbers in a panic's trace are of no use here, and take half of the time to build.
export CARGO_PROFILE_DEV_DEBUG=0

# A test that loops for ever is noticed by the processor time it takes, which does not depend on what
# else the machine does. One that sleeps for ever is left to the test's own watchdog, or the time limit.
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
loops_at_most() {
    ! command -v prlimit >/dev/null || export "CARGO_TARGET_${host}_RUNNER=prlimit --cpu=$1"
}

# Runs what is left of part $1 against the tests that follow; what comes before -- is for the build, too.
pass() {
    local part=$1 status=0 build=()
    shift
    while [ "$1" != -- ]; do
        build+=(--cargo-arg "$1")
        shift
    done
    shift
    cargo mutants --iterate --baseline skip --timeout 600 --output "target/mutants/$part" "${from[@]}" \
        "${build[@]}" "${more[@]}" -- "$@" || status=$?
    # 2: some are missed, 3: some hang. Both are for the pass that follows, and for the conclusion.
    [ "$status" -le 3 ] && [ "$status" -ne 1 ] || die "cargo-mutants ended with $status"
}

# The fair queue imports nothing of this crate, so it can be a crate of its own, which is built and tested
# in seconds.
make_fair_crate() {
    rm -rf "$1/src" "$1/tests"
    mkdir -p "$1/src" "$1/tests"
    cp -r src/fair "$1/src"
    cp -r tests/fair "$1/tests"
    cp Cargo.lock "$1"
    {
        printf '[package]\nname = "fairlane"\nedition = "2024"\n\n[workspace]\n\n[dev-dependencies]\n'
        grep -E '^(proptest|num-[a-z]+) = ' Cargo.toml
    } >"$1/Cargo.toml"
    cat >"$1/src/lib.rs" <<-'END'
		#![allow(dead_code, unused_imports, unexpected_cfgs)]
		mod fair;
		pub use fair::{Drain, FairQueue, Priority, Ticket, Weight};
	END
}

# What was missed: the file, the change, and the line that was changed, since its number will not last.
missed() {
    while IFS=: read -r file line _ change; do
        printf '%s:%s: %s\n' "$file" "$change" "$(sed -n "${line}s/^ *//p" "$file")"
    done <"target/mutants/$1/mutants.out/missed.txt"
}

# Fails if something is missed for which there is no reason.
conclude() {
    local explained unexplained
    explained=$(sed -n 's/^    src/src/p' tests/mutants.md)
    unexplained=$(missed "$1" | grep -vxF -e "$explained" || true)
    [ -z "$unexplained" ] || die "no test notices these changes in $1:"$'\n'"$unexplained"
}

for part in "${parts[@]}"; do
    rm -rf "target/mutants/$part"
    mkdir -p "target/mutants/$part"
    from=()
    case $part in
    fair)
        loops_at_most 20
        make_fair_crate target/mutants/crate
        from=(--dir target/mutants/crate --in-place)
        PROPTEST_CASES=16 pass fair --lib --test=fair -- -- --skip hash:: --skip memory:: --skip cost_bounds:: \
            --skip fuzz::
        PROPTEST_CASES=64 pass fair --lib --test=fair -- -- --skip fuzz::
        ;;
    meter)
        loops_at_most 20
        from=(--file src/admission/billing.rs --file src/ledger/meter.rs)
        pass meter --lib -- -- admission::billing:: ledger::meter::
        ;;
    strategy)
        loops_at_most 5
        from=(--file src/strategy.rs)
        pass strategy --lib -- -- strategy::
        ;;
    state)
        loops_at_most 5
        from=(--file src/job/state.rs)
        pass state --lib -- -- job::state::
        ;;
    end)
        loops_at_most 300
        from=(--file 'src/pool/{lifecycle,phase}.rs')
        pass end --lib -- -- pool::phase::
        pass end --test=it -- -- shutdown:: liveness::idle:: environment::fork:: restart::
        ;;
    *) die "there is no part $part" ;;
    esac
    conclude "$part"
done
