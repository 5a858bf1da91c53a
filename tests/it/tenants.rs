//! Handles of tenants: what they share, how long what they set is kept, and what is told of them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fairlane::{
    CancelToken, Inline, IntoTenant, JobError, JobHandle, Rejected, Submit, Tenant, TenantStats,
    Weight, WorkerPool,
};

use crate::common::{
    Counter, Flavour, Gate, Probe, assert_matches, hold_workers, refused, rounds, workers,
};
use crate::fairness::{Order, by_strategy, finish_gated};

fn fair(flavour: &Flavour, workers: usize) -> Arc<WorkerPool> {
    flavour.build(flavour.builder().workers(workers).fair())
}

/// What the pool tells of the tenant called `name`.
fn told(pool: &WorkerPool, name: &str) -> Option<TenantStats> {
    let tenants = pool.stats().tenants;
    tenants.into_iter().find(|tenant| tenant.name == name)
}

fn names(pool: &WorkerPool) -> Vec<String> {
    let tenants = pool.stats().tenants;
    tenants.into_iter().map(|tenant| tenant.name).collect()
}

const fn weight(w: u32) -> Weight {
    Weight::new(w)
}

#[test]
fn handles_are_clone_send_and_sync() {
    fn check<T: Clone + Send + Sync + std::fmt::Debug + 'static>() {}
    check::<Tenant>();
}

by_strategy!(handles_of_one_name_are_one_tenant, |flavour| {
    let pool = fair(flavour, 1);
    let (one, two) = (pool.tenant("a"), pool.tenant("a"));
    let clone = one.clone();
    assert_eq!([one.name(), two.name(), clone.name()], ["a"; 3]);
    one.set_weight(weight(7));
    assert_eq!([two.weight(), clone.weight()], [weight(7); 2]);
    let three = two.with_weight(weight(9));
    assert_eq!([one.weight(), three.weight()], [weight(9); 2]);
    assert_eq!(names(&pool), ["a"]);

    // One lane, one limit, whoever submits and however the tenant is named.
    let held = hold_workers(&pool, 1);
    drop(three.with_queue_limit(7));
    let order = Order::new();
    let string = "a".to_owned();
    one.execute(order.note(0)).unwrap();
    clone.job().execute(order.note(1)).unwrap();
    pool.job().tenant("a").execute(order.note(2)).unwrap();
    pool.job().tenant(&string).execute(order.note(3)).unwrap();
    pool.job().tenant(string).execute(order.note(4)).unwrap();
    pool.job().tenant(&one).execute(order.note(5)).unwrap();
    pool.job()
        .tenant(one.clone())
        .execute(order.note(6))
        .unwrap();
    assert_matches!(
        refused(pool.tenant("a").try_submit(|| ())).0,
        Rejected::Full
    );
    assert_eq!(told(&pool, "a").unwrap().queued, 7);
    // Another name is another tenant, and the last one named counts.
    let other = pool
        .job()
        .tenant(&one)
        .tenant("A")
        .try_submit(|| ())
        .unwrap();
    assert_eq!(names(&pool), ["", "A", "a"]);
    held.release();
    other.join().unwrap();
    pool.wait_idle();
    assert_eq!(order.take(), [0, 1, 2, 3, 4, 5, 6]);
    drop((one, clone));
    finish_gated(pool);
});

by_strategy!(any_text_is_a_name, |flavour| {
    let pool = fair(flavour, 1);
    let long = "long ".repeat(10_000);
    let odd = ["", " ", "\0", "ä", "a\nb", "w0", &long];
    let handles: Vec<_> = odd.iter().map(|name| pool.tenant(name)).collect();
    let mut wanted = odd.map(str::to_owned);
    wanted.sort();
    assert_eq!(names(&pool), wanted, "by name");
    for (handle, name) in handles.iter().zip(odd) {
        assert_eq!(handle.name(), name);
        handle.set_weight(weight(3));
        handle.submit(|| ()).unwrap().join().unwrap();
        assert_eq!(told(&pool, name).unwrap().completed, 1);
    }
    drop(handles);
    assert_eq!(names(&pool), [""; 0]);
    finish_gated(pool);
});

by_strategy!(jobs_without_a_tenant_belong_to_the_empty_name, |flavour| {
    let pool = fair(flavour, 1);
    let held = hold_workers(&pool, 1);
    let nameless = pool.tenant("").with_queue_limit(2).with_weight(weight(5));
    let first = pool.try_submit(|| ()).unwrap();
    let second = nameless.try_submit(|| ()).unwrap();
    assert_matches!(refused(pool.try_submit(|| ())).0, Rejected::Full);
    assert_matches!(
        refused(pool.job().tenant("").try_submit(|| ())).0,
        Rejected::Full
    );
    let wanted = (String::new(), weight(5), 2, 1);
    let told = told(&pool, "").unwrap();
    assert_eq!((told.name, told.weight, told.queued, told.running), wanted);
    held.release();
    first.join().unwrap();
    second.join().unwrap();
    drop(nameless);
    assert_eq!(pool.stats().tenants, [], "forgotten like any other");
    let held = hold_workers(&pool, 1);
    let jobs: Vec<_> = (0..5).map(|_| pool.try_submit(|| ()).unwrap()).collect();
    assert_eq!(names(&pool), [""]);
    held.release();
    jobs.into_iter().for_each(|job| job.join().unwrap());
    finish_gated(pool);
});

by_strategy!(a_handle_keeps_what_was_set, |flavour| {
    let pool = fair(flavour, 2);
    let kept = pool
        .tenant("a")
        .with_weight(weight(4))
        .with_max_running(1)
        .with_queue_limit(2);
    for _ in 0..3 {
        kept.submit(|| ()).unwrap().join().unwrap();
        pool.wait_idle();
        let again = pool.tenant("a");
        assert_eq!(again.weight(), weight(4));
        // At most one of them runs, and two more wait.
        let (gate, begun) = (Gate::new(), Counter::new());
        let job = || {
            let (gate, begun) = (gate.clone(), begun.clone());
            move || {
                begun.bump();
                gate.wait();
            }
        };
        let first = again.try_submit(job()).unwrap();
        begun.wait_for(1);
        let more = [
            again.try_submit(job()).unwrap(),
            again.try_submit(job()).unwrap(),
        ];
        assert_matches!(refused(again.try_submit(|| ())).0, Rejected::Full);
        let told = told(&pool, "a").unwrap();
        assert_eq!((told.running, told.queued), (1, 2));
        gate.open();
        first.join().unwrap();
        more.into_iter().for_each(|job| job.join().unwrap());
    }
    assert_eq!(told(&pool, "a").unwrap().completed, 3 * 4);
    drop(kept);
    finish_gated(pool);
});

by_strategy!(a_job_keeps_what_was_set_and_no_longer, |flavour| {
    let pool = fair(flavour, 1);
    let held = hold_workers(&pool, 1);
    let (begun, gate) = (Gate::new(), Gate::new());
    let (begins, waits) = (begun.clone(), gate.clone());
    let tenant = pool.tenant("a").with_weight(weight(4)).with_queue_limit(1);
    let job = tenant.submit(move || {
        begins.open();
        waits.wait();
    });
    // The handle goes; a job is queued, and then it runs.
    drop(tenant);
    assert_eq!(told(&pool, "a").unwrap().weight, weight(4));
    assert_matches!(
        refused(pool.job().tenant("a").try_submit(|| ())).0,
        Rejected::Full
    );
    held.release();
    begun.wait();
    assert_eq!(told(&pool, "a").unwrap().weight, weight(4));
    let next = pool.job().tenant("a").try_submit(|| ()).unwrap();
    assert_matches!(
        refused(pool.job().tenant("a").try_submit(|| ())).0,
        Rejected::Full
    );
    assert_eq!(pool.tenant("a").weight(), weight(4));
    gate.open();
    job.unwrap().join().unwrap();
    next.join().unwrap();
    pool.wait_idle();
    assert_eq!(told(&pool, "a"), None);
    // A fresh start.
    let fresh = pool.tenant("a");
    assert_eq!(fresh.weight(), Weight::default());
    let held = hold_workers(&pool, 1);
    let jobs: Vec<_> = (0..10).map(|_| fresh.try_submit(|| ()).unwrap()).collect();
    assert_eq!(told(&pool, "a").unwrap().completed, 0);
    held.release();
    jobs.into_iter().for_each(|job| job.join().unwrap());
    drop(fresh);
    finish_gated(pool);
});

by_strategy!(
    a_tenant_is_forgotten_with_its_last_job_however_that_ends,
    |flavour| {
        let pool = fair(flavour, 1);
        let token = CancelToken::new();
        for round in 0..4 {
            let held = hold_workers(&pool, 1);
            let late = std::time::Instant::now() + Duration::from_millis(1);
            let job = pool.job().tenant("a").weight(weight(8));
            let job = match round {
                1 => job.cancel_token(&token),
                2 => job.deadline(late),
                _ => job,
            };
            let job = job.submit(|| ()).unwrap();
            if round != 2 {
                assert_eq!(names(&pool), ["", "a"]);
            }
            match round {
                0 => assert!(job.cancel()),
                1 => token.cancel(),
                2 => crate::common::eventually("it expires", || job.is_finished()),
                _ => assert_eq!(pool.cancel_queued(), 1),
            }
            assert_eq!(names(&pool), [""]);
            assert_eq!(pool.tenant("a").weight(), Weight::default());
            held.release();
            assert!(job.join().is_err());
        }
        finish_gated(pool);
    }
);

by_strategy!(the_last_weight_wins, |flavour| {
    let pool = fair(flavour, 1);
    let tenant = pool.tenant("a").with_weight(weight(2));
    let held = hold_workers(&pool, 1);
    let submit = |w| {
        pool.job()
            .tenant("a")
            .weight(weight(w))
            .submit(|| ())
            .unwrap()
    };
    let first = submit(3);
    assert_eq!(tenant.weight(), weight(3));
    tenant.set_weight(weight(4));
    assert_eq!(told(&pool, "a").unwrap().weight, weight(4));
    let second = submit(5);
    assert_eq!(tenant.weight(), weight(5));
    // One without a weight changes nothing, nor does the end of one that had brought it.
    let third = tenant.submit(|| ()).unwrap();
    assert!(second.cancel());
    assert_eq!(tenant.weight(), weight(5));
    held.release();
    first.join().unwrap();
    third.join().unwrap();
    assert_eq!(tenant.weight(), weight(5));
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(a_foreign_pools_tenant_counts_by_its_name, |flavour| {
    let (pool, other) = (fair(flavour, 1), fair(flavour, 1));
    let plain = flavour.build(flavour.builder().workers(1));
    // Not the weight and limits that it has there.
    let foreign = other.tenant("a").with_weight(weight(9)).with_queue_limit(1);
    let unlimited = plain.tenant("a");
    let held = hold_workers(&pool, 1);
    let jobs: Vec<_> = (0..4)
        .map(|i| match i % 2 {
            0 => pool.job().tenant(&foreign).try_submit(|| ()).unwrap(),
            _ => pool
                .job()
                .tenant(unlimited.clone())
                .try_submit(|| ())
                .unwrap(),
        })
        .collect();
    let here = told(&pool, "a").unwrap();
    assert_eq!((here.weight, here.queued), (weight(1), 4));
    assert_eq!(told(&other, "a").unwrap().queued, 0);
    let own = pool.tenant("a").with_queue_limit(4);
    assert_matches!(
        refused(pool.job().tenant(&foreign).try_submit(|| ())).0,
        Rejected::Full
    );
    // To a pool without a limit it is a name that means nothing.
    plain
        .job()
        .tenant(&foreign)
        .submit(|| ())
        .unwrap()
        .join()
        .unwrap();
    held.release();
    jobs.into_iter().for_each(|job| job.join().unwrap());
    drop((own, foreign, unlimited));
    finish_gated(pool);
    finish_gated(other);
    finish_gated(plain);
});

by_strategy!(a_handle_outlives_its_pool, |flavour| {
    for is_fair in [false, true] {
        let builder = flavour.builder().workers(2);
        let pool = flavour.build(if is_fair { builder.fair() } else { builder });
        let tenant = pool.tenant("a").with_weight(weight(3));
        let running = tenant.submit(|| 5).unwrap();
        Arc::into_inner(pool).unwrap().shutdown();
        assert_eq!(running.join().unwrap(), 5);
        assert_eq!((tenant.name(), tenant.weight()), ("a", weight(3)));
        tenant.set_weight(weight(4));
        assert_eq!(tenant.weight(), weight(4));
        let tenant = tenant.with_max_running(2).with_queue_limit(2);
        let (reason, job) = refused(tenant.submit(|| 6));
        assert_matches!(reason, Rejected::ShutDown);
        assert_eq!(job(), 6);
        let soon = Duration::from_millis(1);
        assert_matches!(refused(tenant.try_submit(|| ())).0, Rejected::ShutDown);
        assert_matches!(
            refused(tenant.submit_timeout(soon, || ())).0,
            Rejected::ShutDown
        );
        assert_matches!(refused(tenant.execute(|| ())).0, Rejected::ShutDown);
        assert_matches!(
            refused(tenant.job().priority(1).submit(|| ())).0,
            Rejected::ShutDown
        );
        let results: Vec<_> = tenant.map(0..3, |i| i).collect();
        assert_eq!(results.len(), 3);
        assert!(
            results
                .iter()
                .all(|result| matches!(result, Err(JobError::Discarded)))
        );
        drop(tenant.clone());
        drop(tenant);
    }
});

by_strategy!(handles_may_be_dropped_anywhere, |flavour| {
    // In jobs, in captures of jobs that never run, on other threads, during the pool's end.
    let pool = fair(flavour, workers());
    thread::scope(|scope| {
        for seed in 0..3 {
            let pool = &pool;
            scope.spawn(move || {
                for i in 0..rounds(3_000) {
                    let tenant = pool.tenant(["a", "b"][(i + seed) % 2]);
                    tenant.set_weight(weight(1 + i as u32 % 3));
                    let captured = tenant.clone();
                    let job = tenant.submit(move || drop(captured)).unwrap();
                    if i % 4 == 0 {
                        job.cancel();
                    }
                }
            });
        }
    });
    let last = pool.tenant("last");
    let inner = last.clone();
    last.execute(move || drop(inner.submit(|| ()))).unwrap();
    drop(last);
    pool.wait_idle();
    finish_gated(pool);
});

/// What somebody would write who does not care what the jobs run on.
fn sums(queue: &impl Submit) -> [u64; 6] {
    let done = Counter::new();
    let bumps = done.clone();
    queue.execute(move || bumps.bump()).unwrap();
    done.wait_for(1);
    assert!(queue.parallelism() > 0);
    let join = |job: JobHandle<u64>| job.join().unwrap();
    [
        join(queue.submit(|| 1).unwrap()),
        join(queue.try_submit(|| 2).unwrap()),
        join(queue.submit_timeout(Duration::from_secs(1), || 3).unwrap()),
        queue.map(0..10, |i| i).map(Result::unwrap).sum(),
        queue.map_unordered(0..10, |i| i).map(Result::unwrap).sum(),
        done.get() as u64,
    ]
}

by_strategy!(code_over_submit_runs_on_a_tenant, |flavour| {
    for is_fair in [false, true] {
        let builder = flavour.builder().workers(3);
        let pool = flavour.build(if is_fair { builder.fair() } else { builder });
        let tenant = pool.tenant("a").with_max_running(1);
        let wanted = sums(&Inline);
        assert_eq!(wanted, [1, 2, 3, 45, 45, 1]);
        assert_eq!(sums(&tenant), wanted);
        assert_eq!(sums(&&tenant), wanted);
        assert_eq!(sums(&Arc::new(tenant.clone())), wanted);
        assert_eq!(sums(&*pool), wanted);
        assert_eq!(tenant.parallelism(), 3);
        if is_fair {
            assert_eq!(told(&pool, "a").unwrap().completed, 3 * (4 + 20));
        }
        drop(tenant);
        finish_gated(pool);
    }
});

by_strategy!(a_map_owns_its_tenant, |flavour| {
    let pool = fair(flavour, 2);
    let mut squares = pool
        .tenant("a")
        .with_weight(weight(3))
        .map(0..100_u64, |i| i * i);
    let mut any = pool.tenant("b").map_unordered(0..100_u64, |i| i * i);
    assert_eq!(names(&pool), ["a", "b"], "as long as the map lives");
    assert_eq!(squares.next().unwrap().unwrap(), 0);
    any.next().unwrap().unwrap();
    assert_eq!(told(&pool, "a").unwrap().weight, weight(3));
    assert_eq!(squares.by_ref().map(Result::unwrap).sum::<u64>(), 328_350);
    assert_eq!(any.by_ref().count(), 99);
    assert_eq!(told(&pool, "a").unwrap().completed, 100);
    drop((squares, any));
    assert_eq!(names(&pool), [""; 0]);
    // One that is dropped half way leaves nothing behind either.
    let probe = Probe::new();
    let half = {
        let probe = probe.clone();
        let mut map = pool.tenant("c").map(0..100, move |_| drop(probe.capture()));
        map.next().unwrap().unwrap();
        map
    };
    drop(half);
    pool.wait_idle();
    assert_eq!(names(&pool), [""; 0]);
    finish_gated(pool);
});

by_strategy!(what_is_told_of_a_tenant, |flavour| {
    let pool = fair(flavour, 2);
    let tenant = pool.tenant("a").with_weight(weight(3)).with_max_running(1);
    let nothing = told(&pool, "a").unwrap();
    assert_eq!(
        (nothing.queued, nothing.running, nothing.completed),
        (0, 0, 0)
    );
    let (gate, begun) = (Gate::new(), Counter::new());
    let job = |panics: bool| {
        let (gate, begun) = (gate.clone(), begun.clone());
        move || {
            begun.bump();
            gate.wait();
            if panics {
                std::panic::resume_unwind(Box::new(()));
            }
        }
    };
    let mut jobs: Vec<JobHandle<()>> = (0..5)
        .map(|i| tenant.submit(job(i % 2 == 1)).unwrap())
        .collect();
    begun.wait_for(1);
    let told_of = |pool: &WorkerPool| {
        let told = told(pool, "a").unwrap();
        (told.weight, told.queued, told.running, told.completed)
    };
    assert_eq!(told_of(&pool), (weight(3), 4, 1, 0));
    assert!(jobs.pop().unwrap().cancel());
    assert_eq!(told_of(&pool), (weight(3), 3, 1, 0));
    let stats = pool.stats();
    let sum: usize = stats.tenants.iter().map(|tenant| tenant.queued).sum();
    assert_eq!(sum, stats.queued);
    gate.open();
    jobs.into_iter().for_each(|job| drop(job.join()));
    pool.wait_idle();
    // Panicked ones have ended as well; cancelled ones never began.
    assert_eq!(told_of(&pool), (weight(3), 0, 0, 4));
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.panicked, stats.cancelled),
        (2, 2, 1)
    );
    assert_eq!(stats.tenants, [told(&pool, "a").unwrap()]);
    drop(tenant);
    finish_gated(pool);
});

by_strategy!(without_a_limit_nothing_is_told_of_tenants, |flavour| {
    let pool = flavour.build(flavour.builder().workers(2));
    let tenant = pool
        .tenant("a")
        .with_weight(weight(3))
        .with_max_running(1)
        .with_queue_limit(1);
    assert_eq!(tenant.weight(), weight(3), "remembered, and that is all");
    let held = hold_workers(&pool, 2);
    let jobs: Vec<_> = (0..10).map(|_| tenant.try_submit(|| ()).unwrap()).collect();
    let named = pool.job().tenant("b").weight(weight(2)).priority(7);
    let named = named.try_submit(|| ()).unwrap();
    assert_eq!(pool.stats().tenants, []);
    assert_eq!(pool.stats().queued, 11);
    held.release();
    jobs.into_iter()
        .chain([named])
        .for_each(|job| job.join().unwrap());
    let squares = pool.tenant("c").map(0..10_u64, |i| i * i);
    assert_eq!(squares.map(Result::unwrap).sum::<u64>(), 285);
    drop(tenant);
    finish_gated(pool);
});

#[test]
fn whatever_names_a_tenant_is_taken() {
    fn submit(pool: &WorkerPool, name: impl IntoTenant) {
        pool.job()
            .tenant(name)
            .submit(|| ())
            .unwrap()
            .join()
            .unwrap();
    }
    let pool = WorkerPool::builder().workers(1).fair().build().unwrap();
    let tenant = pool.tenant("a");
    submit(&pool, "a");
    let name = "a".to_owned();
    submit(&pool, &name);
    submit(&pool, "a".to_owned());
    submit(&pool, &tenant);
    submit(&pool, tenant.clone());
    assert_eq!(told(&pool, "a").unwrap().completed, 5);
}
