//! Traces against the oracle for as long as is asked for, different ones each time.
//!
//! ```text
//! FAIRLANE_FUZZ_SECS=600 cargo test --release --test fair fuzz -- --nocapture
//! ```
//!
//! Prints its seed, which `FAIRLANE_FUZZ_SEED` repeats, and how much it did. A trace that fails is
//! made as short as it gets and printed.

use std::cell::Cell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::cost_traces;
use crate::ops::{Op, config, crowd, exact_trace, other_trace};
use crate::traces::{follows_the_oracle, rounding};

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value:?}")))
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_micros() as u64);
    number("FAIRLANE_FUZZ_SEED").unwrap_or(now)
}

/// Equality is exact where the weights divide the unit of time, and near where they do not.
#[derive(Debug, Clone)]
enum Trace {
    Exact(Vec<Op>),
    Near(Vec<Op>),
    ByCost(Vec<cost_traces::Op>),
}

/// Long ones with plain weights, since the oracle's fractions stay small there; short ones with the
/// others; and crowds.
fn any_trace() -> impl Strategy<Value = Trace> {
    prop_oneof![
        4 => exact_trace(80).prop_map(Trace::Exact),
        2 => exact_trace(1_000).prop_map(Trace::Exact),
        4 => other_trace(60).prop_map(Trace::Near),
        1 => crowd(1_000).prop_map(Trace::Exact),
        2 => cost_traces::trace(120).prop_map(Trace::ByCost),
    ]
}

#[test]
fn fuzz() {
    let time = Duration::from_secs(number("FAIRLANE_FUZZ_SECS").unwrap_or(1));
    let (start, seed) = (Instant::now(), seed());
    println!("fuzzing for {time:?}, FAIRLANE_FUZZ_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config(1), rng);
    let any_trace = any_trace();
    let (traces, ops) = (Cell::new(0_u64), Cell::new(0_u64));
    while start.elapsed() < time {
        let trace = any_trace.new_tree(&mut runner).expect("no filter refuses");
        let outcome = runner.run_one(trace, |trace| {
            let (length, outcome) = match &trace {
                Trace::Exact(trace) => (trace.len(), follows_the_oracle(trace, 0)),
                Trace::Near(trace) => (trace.len(), follows_the_oracle(trace, rounding(trace))),
                Trace::ByCost(trace) => (trace.len(), cost_traces::follows_the_oracle(trace)),
            };
            traces.set(traces.get() + 1);
            ops.set(ops.get() + length as u64);
            outcome
        });
        if let Err(error) = outcome {
            panic!("FAIRLANE_FUZZ_SEED={seed}: {error}");
        }
    }
    let (traces, ops) = (traces.get(), ops.get());
    println!("{traces} traces, {ops} operations in {:?}", start.elapsed());
    assert!(ops > 0);
}
