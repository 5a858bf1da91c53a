//! Models of tokens on their way home, of the inbox, and of hands: no job is left without a token.

use super::gate::Gate;
use super::lanes::{Admitted, Request, Who};
use super::pace::{Pace, ROUND};
use crate::fair::{FairQueue, Priority};
use crate::job::Job;
use crate::sync::Arc;
use crate::sync::model::{Bound, check, join, spawn};

const PLAIN: Request<'static> = Request {
    who: Who::Nameless,
    weight: None,
    priority: Priority::NORMAL,
};

/// A gate whose tokens are all on their way to a slot, each for a job.
fn gate(tokens: usize) -> Arc<Gate> {
    let gate = Gate::new(FairQueue::new(), tokens, tokens, None);
    for _ in 0..tokens {
        assert!(push(&gate), "there is a token for it");
    }
    Arc::new(gate)
}

fn push(gate: &Gate) -> bool {
    gate.push(PLAIN, None, Job::new(|| ()))
}

fn run(admitted: Admitted) -> crate::fair::Id {
    let Admitted { job, tenant } = admitted;
    drop(job);
    tenant
}

/// The thread of `slot` runs what its token gets it, until that goes home or is left at the slot.
/// Returns how many jobs it ran, and whether the token is still out.
fn serve(gate: &Gate, slot: usize) -> (usize, bool) {
    let (pace, mut ran) = (Pace::default(), 0);
    let mut step = gate.first(slot);
    while let Some(admitted) = step.admitted {
        ran += 1;
        step = gate.next(slot, &pace, run(admitted));
    }
    (ran, step.passes_on)
}

#[test]
fn a_push_and_a_token_that_goes_home() {
    check("push, a token goes home", Bound::Exhaustive, || {
        let gate = gate(1);
        let theirs = Arc::clone(&gate);
        let worker = spawn(move || serve(&theirs, 0));
        let is_sent = push(&gate);
        let (ran, is_out) = join(worker);
        assert!(
            ran == 2 || is_sent || is_out,
            "a job is left without a token"
        );
        assert_eq!(gate.is_at_rest(), !is_sent && !is_out);
    });
}

#[test]
fn two_pushes_and_a_token_that_goes_home() {
    check(
        "two pushes, a token goes home",
        Bound::Preemptions(3),
        || {
            let gate = gate(1);
            let (theirs, others) = (Arc::clone(&gate), Arc::clone(&gate));
            let worker = spawn(move || serve(&theirs, 0));
            let submitter = spawn(move || push(&others));
            let is_sent = push(&gate) | join(submitter);
            let (ran, is_out) = join(worker);
            assert!(
                ran == 3 || is_sent || is_out,
                "a job is left without a token"
            );
        },
    );
}

#[test]
fn a_hand_and_a_token_that_goes_home() {
    check(
        "a round, another token goes home",
        Bound::Exhaustive,
        || {
            let gate = gate(2);
            assert!(!push(&gate), "both tokens are out");
            let theirs = Arc::clone(&gate);
            // Takes a round and does not come back: its job takes for ever.
            let stuck = spawn(move || {
                let step = theirs.visit(0, ROUND, None);
                usize::from(step.admitted.map(run).is_some())
            });
            let (ran, is_out) = serve(&gate, 1);
            let all = ran + join(stuck) == 3;
            assert!(
                all || is_out,
                "a job is left in the hand, and a token at home"
            );
        },
    );
}

#[test]
fn a_hand_and_a_sweep() {
    check("a round, a sweep", Bound::Exhaustive, || {
        let gate = gate(2);
        assert!(!push(&gate), "both tokens are out");
        let theirs = Arc::clone(&gate);
        let worker = spawn(move || {
            let Some(first) = theirs.visit(0, ROUND, None).admitted else {
                return 0;
            };
            let next = theirs.play_on(0, run(first));
            1 + usize::from(next.map(run).is_some())
        });
        let swept = gate.drain().len();
        let ran = join(worker);
        let left = gate.drain().len();
        assert_eq!(swept + ran + left, 3);
        assert_eq!(left, 0, "what was there before the sweep is swept or begun");
    });
}
