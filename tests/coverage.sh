#!/usr/bin/env bash
# Which lines of the library the tests run. Needs llvm-profdata and llvm-cov of a version that reads
# the compiler's profiles: those of the toolchain (rustup component add llvm-tools), or the system's.
#
#   tests/coverage.sh [--missing]      the second form also lists the lines that nothing runs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=$PWD/target/coverage
profiles=$target/profiles

die() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

# The newest of the tools called $1.
tool() {
    local sysroot host found
    sysroot=$(rustc --print sysroot)
    host=$(rustc -vV | sed -n 's/^host: //p')
    found=$sysroot/lib/rustlib/$host/bin/$1
    [ -x "$found" ] && echo "$found" && return
    compgen -c "$1-" | grep -E "^$1-[0-9]+$" | sort -t- -k3 -n | tail -n1 | grep . ||
        die "there is no $1 here (rustup component add llvm-tools, or apt-get install llvm-19)"
}

profdata=$(tool llvm-profdata)
cov=$(tool llvm-cov)

# Children of tests that are killed, or that exec, write profiles of their own: %p keeps them apart,
# and a profile cut short is left out.
rm -rf "$profiles"
export CARGO_TARGET_DIR=$target RUSTFLAGS='-C instrument-coverage'
export LLVM_PROFILE_FILE="$profiles/%p-%m.profraw"
binaries=$(cargo test --lib --tests --no-run --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | sort -u)
cargo test --lib --tests

find "$profiles" -name '*.profraw' -size +0 >"$target/profiles.list"
"$profdata" merge --sparse --failure-mode=all --input-files="$target/profiles.list" -o "$target/merged.profdata"

objects=()
for binary in $binaries; do
    objects+=(--object "$binary")
done
report=("${objects[@]:1}" --instr-profile="$target/merged.profdata"
    --ignore-filename-regex='/(registry|rustc|tests|examples|benches)/')
"$cov" report --show-region-summary=false --show-branch-summary=false "${report[@]}"
if [ "${1:-}" = --missing ]; then
    # A line belongs to several instances of a generic; one that ran is enough.
    "$cov" show --show-instantiations=false "${report[@]}" | grep -E '^ *[0-9]+\| +0\||^/.*:$'
fi
