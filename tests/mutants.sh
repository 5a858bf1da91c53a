#!/usr/bin/env bash
# Changes the code in one small way after the other, and runs tests: a change that none of them notices
# is listed as missed, and the script fails. What is known to make no difference is left out by
# .cargo/mutants.toml, with the reasons. Needs cargo-mutants (cargo install cargo-mutants --locked).
#
#   tests/mutants.sh [fair|pool]... [-- argument]...    what follows -- goes to cargo-mutants
#
# The tests that are quick and likely to notice come first, the others see what is left. A change that
# makes a test hang is noticed as well.
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
[ ${#parts[@]} -gt 0 ] || parts=(fair pool)
more=("$@")

# Line numbers in a panic's trace are of no use here, and take half of the time to build.
export CARGO_PROFILE_DEV_DEBUG=0

# Runs the changes of part $1 that are not noticed yet against the tests that follow.
pass() {
    local part=$1 status=0
    shift
    # 2: some are missed, 3: some hang. Both are for the passes that follow, and the last one's sum.
    cargo mutants --iterate --output "target/mutants/$part" "${files[@]}" "${more[@]}" -- "$@" ||
        status=$?
    [ "$status" -le 3 ] && [ "$status" -ne 1 ] || die "cargo-mutants ended with $status"
}

# Fails if something is missed.
conclude() {
    local missed=target/mutants/$1/mutants.out/missed.txt
    [ ! -s "$missed" ] || { cat "$missed" && die "no test notices these changes in $1"; }
}

for part in "${parts[@]}"; do
    rm -rf "target/mutants/$part"
    mkdir -p "target/mutants/$part"
    case $part in
    fair)
        files=(--file 'src/fair/**')
        PROPTEST_CASES=32 pass fair --lib -- fair::
        PROPTEST_CASES=32 pass fair --test fair -- traces orders tickets bounds panics
        pass fair --release --lib --test fair
        ;;
    pool)
        files=(--file src/strategy.rs --file src/job/state.rs --file 'src/pool/{lifecycle,phase}.rs'
            --file 'src/admission/{gate,hand,inbox,pace}.rs')
        pass pool --lib -- strategy:: job:: pool:: admission::
        pass pool --test it -- rounds:: fairness:: limits:: tenants:: shutdown:: cancel::
        pass pool --test it
        ;;
    *) die "there is no part $part" ;;
    esac
    conclude "$part"
done
