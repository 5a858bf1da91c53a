//! Models of tokens on their way home, and of the inbox: no job is left without a token.

use super::gate::Gate;
use super::lanes::{Admitted, Request, Who};
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
    let gate = Gate::new(FairQueue::new(), tokens, None);
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

/// A thread runs what its token gets it, until that goes home or is left at the slot.
/// Returns how many jobs it ran, and whether the token is still out.
fn serve(gate: &Gate) -> (usize, bool) {
    let mut ran = 0;
    let mut step = gate.first();
    while let Some(admitted) = step.admitted {
        ran += 1;
        step = gate.next(run(admitted), 0);
    }
    (ran, step.passes_on)
}

#[test]
fn a_push_and_a_token_that_goes_home() {
    check("push, a token goes home", Bound::Exhaustive, || {
        let gate = gate(1);
        let theirs = Arc::clone(&gate);
        let worker = spawn(move || serve(&theirs));
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
    check("two pushes, a token goes home", Bound::Exhaustive, || {
        let gate = gate(1);
        let (theirs, others) = (Arc::clone(&gate), Arc::clone(&gate));
        let worker = spawn(move || serve(&theirs));
        let submitter = spawn(move || push(&others));
        let is_sent = push(&gate) | join(submitter);
        let (ran, is_out) = join(worker);
        assert!(
            ran == 3 || is_sent || is_out,
            "a job is left without a token"
        );
    });
}

#[test]
fn a_push_and_a_sweep() {
    check("push, a sweep, a token", Bound::Exhaustive, || {
        let gate = gate(1);
        let theirs = Arc::clone(&gate);
        let worker = spawn(move || serve(&theirs));
        let is_sent = push(&gate);
        let swept = gate.drain().len();
        let (ran, is_out) = join(worker);
        assert_eq!(
            ran + swept,
            2,
            "a push comes before the sweep that follows it"
        );
        assert_eq!(gate.is_at_rest(), !is_sent && !is_out);
    });
}

#[test]
fn two_tokens_that_go_home_and_a_push() {
    check("a push, two tokens go home", Bound::Preemptions(3), || {
        let gate = gate(2);
        let (theirs, others) = (Arc::clone(&gate), Arc::clone(&gate));
        let workers = [spawn(move || serve(&theirs)), spawn(move || serve(&others))];
        let is_sent = push(&gate);
        let [(ran, is_out), (also_ran, is_too)] = workers.map(join);
        assert!(
            ran + also_ran == 3 || is_sent || is_out || is_too,
            "a job is left without a token"
        );
    });
}

/// The job in the inbox names an account that nothing else keeps alive: the one that runs ends, and the
/// handle is closed.
#[test]
fn a_job_in_the_inbox_and_the_end_of_its_account() {
    check(
        "a push by a handle, its account ends",
        Bound::Exhaustive,
        || {
            let gate = gate(1);
            let id = gate.open_account("a");
            let theirs = Arc::clone(&gate);
            let worker = spawn(move || serve(&theirs));
            let request = Request {
                who: Who::Known(id),
                ..PLAIN
            };
            let is_sent = gate.push(request, None, Job::new(|| ()));
            gate.close_account(id);
            let (ran, is_out) = join(worker);
            assert!(
                ran == 2 || is_sent || is_out,
                "a job is left without a token"
            );
            let left = gate.tenants();
            assert_eq!(left.len(), 2 - ran, "who has something going on is known");
            assert!(
                left.iter()
                    .all(|tenant| &*tenant.name == "a" && tenant.queued == 1)
            );
        },
    );
}
