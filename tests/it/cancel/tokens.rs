//! Cancel tokens: who hears a cancel, when, and what a token keeps alive (nothing).

use std::sync::Arc;
use std::thread;

use fairlane::{CancelToken, JobError};

use crate::common::*;
use crate::counts::memory::{alone_in_a_process, grown_by_less_than};

#[test]
fn a_cancel_reaches_clones_and_descendants_only() {
    let root = CancelToken::new();
    let (clone, child) = (root.clone(), root.child());
    let (grandchild, sibling) = (child.child(), root.child());
    child.cancel();
    child.cancel();
    assert!(child.is_cancelled() && grandchild.is_cancelled());
    assert!(!root.is_cancelled() && !clone.is_cancelled() && !sibling.is_cancelled());
    assert!(
        child.child().is_cancelled(),
        "a child of a cancelled token is born cancelled"
    );
    clone.cancel();
    assert!(root.is_cancelled() && sibling.is_cancelled() && root.child().is_cancelled());
}

#[test]
fn dropping_a_token_cancels_nothing_and_breaks_no_line() {
    let root = CancelToken::new();
    let child = root.child();
    let grandchild = child.child();
    drop(child);
    assert!(!grandchild.is_cancelled());
    drop(root.clone());
    assert!(!grandchild.is_cancelled());
    root.cancel();
    assert!(
        grandchild.is_cancelled(),
        "whoever stood between is gone, the line holds"
    );

    let orphan = CancelToken::new().child();
    assert!(!orphan.is_cancelled());
    orphan.cancel();
    assert!(orphan.is_cancelled());
}

const DEEP: usize = 100_000;

fn chain() -> Vec<CancelToken> {
    let mut chain = vec![CancelToken::new()];
    for i in 0..DEEP {
        chain.push(chain[i].child());
    }
    chain
}

#[test]
fn deep_chains_overflow_no_stack() {
    // Dropped from either end, cancelled at the root, in the middle, or never.
    for reversed in [false, true] {
        for cancelled_at in [None, Some(0), Some(DEEP / 2)] {
            let mut chain = chain();
            if let Some(at) = cancelled_at {
                chain[at].cancel();
                assert!(chain[at..].iter().all(CancelToken::is_cancelled));
                assert!(!chain[..at].iter().any(CancelToken::is_cancelled));
            } else {
                assert!(!chain[DEEP].is_cancelled());
            }
            if reversed {
                chain.reverse();
            }
            for token in chain {
                drop(token);
            }
        }
    }
    // Only the ends are kept: whatever holds the line between them goes in one piece.
    let mut last = CancelToken::new();
    let root = last.clone();
    for _ in 0..DEEP {
        last = last.child();
    }
    root.cancel();
    assert!(last.is_cancelled());
    drop(root);
    drop(last);
    let mut last = CancelToken::new();
    for _ in 0..DEEP {
        last = last.child();
    }
    drop(last);
}

scenario!(a_deep_chain_reaches_a_queued_job, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let chain = chain();
    let probe = Probe::new();
    let job = pool
        .job()
        .cancel_token(&chain[DEEP])
        .submit(probe.job())
        .unwrap();
    chain[0].cancel();
    assert!(job.is_finished());
    probe.assert_all_dropped(0);
    assert_matches!(job.join(), Err(JobError::Cancelled));
    held.release();
    finish(pool);
});

scenario!(cancelled_before_during_and_after, |flavour| {
    let pool = flavour.pool(1);
    let probe = Probe::new();

    let before = CancelToken::new();
    before.cancel();
    let job = pool
        .job()
        .cancel_token(&before)
        .submit(probe.job())
        .unwrap();
    assert_eq!(probe.dropped(), 1, "nothing to wait for");
    assert!(job.is_finished() && job.cancel());
    assert_matches!(job.join(), Err(JobError::Cancelled));
    pool.job()
        .cancel_token(&before)
        .execute(probe.job())
        .unwrap();
    probe.assert_all_dropped(0);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.cancelled, stats.queued), (2, 2, 0));

    // While it runs: the job is told, if it asks, and settles as it likes.
    let during = CancelToken::new();
    let (sees, begun) = (during.clone(), Gate::new());
    let begins = begun.clone();
    let job = pool.job().cancel_token(&during).submit(move || {
        begins.open();
        while !sees.is_cancelled() {
            thread::yield_now();
        }
        "noticed"
    });
    let job = job.unwrap();
    begun.wait();
    during.cancel();
    assert_eq!(job.join().unwrap(), "noticed");

    let after = CancelToken::new();
    let job = pool.job().cancel_token(&after).submit(|| 3).unwrap();
    pool.wait_idle();
    after.cancel();
    assert!(!job.cancel());
    assert_eq!(job.join().unwrap(), 3);
    assert_eq!(pool.stats().cancelled, 2);
    finish(pool);
});

scenario!(one_token_over_a_hundred_thousand_queued_jobs, |flavour| {
    const N: usize = 100_000;
    let pool = flavour.pool(2);
    for use_children in [false, true] {
        let held = hold_workers(&pool, 2);
        let (token, probe) = (CancelToken::new(), Probe::new());
        for _ in 0..N {
            let child = use_children.then(|| token.child());
            let job = pool.job().cancel_token(child.as_ref().unwrap_or(&token));
            job.execute(probe.job()).unwrap();
        }
        let bystander = pool.submit(|| ()).unwrap();
        assert_eq!(pool.stats().queued, N + 1);
        token.cancel();
        assert_eq!(probe.dropped(), N, "freed before any worker was free");
        assert_eq!((pool.stats().queued, pool.stats().running), (1, 2));
        held.release();
        bystander.join().unwrap();
        probe.assert_all_dropped(0);
    }
    assert_eq!(pool.stats().cancelled, 2 * N as u64);
    finish(pool);
});

scenario!(tokens_dropped_while_their_jobs_wait, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let probe = Probe::new();
    let token = CancelToken::new();
    for _ in 0..100 {
        let child = token.child();
        pool.job()
            .cancel_token(&child)
            .execute(probe.job())
            .unwrap();
        pool.job()
            .cancel_token(&CancelToken::new())
            .execute(probe.job())
            .unwrap();
    }
    drop(token);
    held.release();
    pool.wait_idle();
    probe.assert_all_dropped(200);

    // The middle of a line goes; the root still reaches the job.
    let held = hold_workers(&pool, 1);
    let root = CancelToken::new();
    let job = pool
        .job()
        .cancel_token(&root.child().child())
        .submit(probe.job())
        .unwrap();
    root.cancel();
    assert_matches!(job.join(), Err(JobError::Cancelled));
    held.release();
    probe.assert_all_dropped(200);
    finish(pool);
});

scenario!(one_token_over_two_pools, |flavour| {
    let pools = [flavour.pool(1), flavour.pool(1)];
    let held = pools.each_ref().map(|pool| hold_workers(pool, 1));
    let (token, probe) = (CancelToken::new(), Probe::new());
    for pool in &pools {
        pool.job()
            .cancel_token(&token)
            .execute(probe.job())
            .unwrap();
    }
    token.cancel();
    assert_eq!(probe.dropped(), 2);
    held.into_iter().for_each(Held::release);
    probe.assert_all_dropped(0);
    pools.into_iter().for_each(finish);
});

scenario!(a_token_may_be_used_for_a_pool_that_is_gone, |flavour| {
    let token = CancelToken::new();
    let pool = flavour.pool(1);
    let job = pool.job().cancel_token(&token).submit(|| 1).unwrap();
    finish(pool);
    token.cancel();
    assert_eq!(job.join().unwrap(), 1);
});

scenario!(a_job_cancels_its_own_token, |flavour| {
    let pool = flavour.pool(1);
    let held = hold_workers(&pool, 1);
    let (token, probe) = (CancelToken::new(), Probe::new());
    let own = token.clone();
    let first = pool
        .job()
        .cancel_token(&token)
        .submit(move || own.cancel())
        .unwrap();
    pool.job()
        .cancel_token(&token)
        .execute(probe.job())
        .unwrap();
    held.release();
    first.join().unwrap();
    pool.wait_idle();
    probe.assert_all_dropped(0);
    finish(pool);
});

scenario!(cancel_races_submit, |flavour| {
    let pool = flavour.pool(2);
    for _ in 0..rounds(5_000) {
        let (token, probe) = (CancelToken::new(), Probe::new());
        let ran = thread::scope(|scope| {
            scope.spawn(|| token.cancel());
            let submit = |i| {
                let token = if i % 2 == 0 {
                    token.clone()
                } else {
                    token.child()
                };
                pool.job().cancel_token(&token).submit(probe.job()).unwrap()
            };
            let jobs: Vec<_> = (0..10).map(submit).collect();
            let outcomes = jobs.into_iter().map(|job| match job.join() {
                Ok(()) => 1,
                Err(error) => {
                    assert!(error.is_cancelled(), "{error}");
                    0
                }
            });
            outcomes.sum()
        });
        probe.assert_all_dropped(ran);
    }
    finish(pool);
});

scenario!(many_cancel_one_token_at_once, |flavour| {
    let pool = flavour.pool(1);
    for _ in 0..rounds(1_000) {
        let held = hold_workers(&pool, 1);
        let (token, probe) = (CancelToken::new(), Probe::new());
        let submit = |_| pool.job().cancel_token(&token).submit(probe.job()).unwrap();
        let jobs: Vec<_> = (0..20).map(submit).collect();
        thread::scope(|scope| {
            scope.spawn(|| token.cancel());
            scope.spawn(|| token.clone().cancel());
            for job in &jobs {
                assert!(job.cancel());
            }
        });
        held.release();
        probe.assert_all_dropped(0);
    }
    finish(pool);
});

scenario!(a_long_lived_token_keeps_nothing, |flavour| {
    let pool = flavour.pool(2);
    let token = CancelToken::new();
    let marker = Arc::new(());
    for _ in 0..rounds(20_000) {
        let captured = Arc::clone(&marker);
        let job = pool.job().cancel_token(&token.child());
        job.execute(move || drop(captured)).unwrap();
        let captured = Arc::clone(&marker);
        let job = pool.job().cancel_token(&token).submit(move || captured);
        drop(job.unwrap().join());
    }
    pool.wait_idle();
    assert_eq!(Arc::strong_count(&marker), 1);
    finish(pool);
});

scenario!(a_million_jobs_leave_no_memory_in_their_token, |flavour| {
    alone_in_a_process(flavour.test(), || {
        let pool = flavour.pool(2);
        let token = CancelToken::new();
        let use_token = |times: usize| {
            for i in 0..times {
                let job = pool.job().cancel_token(&token);
                match i % 4 {
                    0 => drop(
                        pool.job()
                            .cancel_token(&token.child())
                            .submit(|| ())
                            .unwrap(),
                    ),
                    1 => drop(job.submit(|| ()).unwrap()),
                    2 => drop(job.submit(|| ()).unwrap().cancel()),
                    _ => job.execute(|| ()).unwrap(),
                }
                if i % 1_000 == 0 {
                    pool.wait_idle();
                }
            }
            pool.wait_idle();
        };
        use_token(20_000);
        grown_by_less_than(256 << 10, || use_token(rounds(1_000_000)));
        let child = |_| token.child().is_cancelled();
        grown_by_less_than(64 << 10, || assert!(!(0..rounds(1_000_000)).any(child)));
        finish(pool);
    });
});
