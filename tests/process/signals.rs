//! Signals that end the process.

use std::process::Command;
use std::sync::mpsc;

use fairlane::WorkerPool;

use crate::rerun::{Running, can_run, say};

const SIGINT: i32 = 2;
const SIGABRT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGSEGV: i32 = 11;

pub(crate) fn interrupt(running: &Running) {
    // A shell's own `kill`, since the program may be missing.
    let command = format!("kill -INT {}", running.id());
    let status = Command::new("sh").args(["-c", &command]).status();
    assert!(status.expect("there is a shell").success());
}

/// Drains a pool whose only worker never ends its job, and says so once the pool is closed.
fn drain_for_ever(fair: bool) {
    let builder = WorkerPool::builder().workers(1);
    let builder = if fair { builder.fair() } else { builder };
    let pool = builder.build().unwrap();
    let (begun, begins) = mpsc::channel();
    pool.execute(move || {
        begun.send(()).unwrap();
        loop {
            std::thread::park();
        }
    })
    .unwrap();
    begins.recv().unwrap();
    pool.execute(|| ()).unwrap();
    let tenant = pool.tenant("observer");
    std::thread::spawn(move || {
        while tenant.try_submit(|| ()).is_ok() {
            std::thread::yield_now();
        }
        say("draining");
    });
    pool.shutdown();
    unreachable!("its job never ends");
}

/// The default action of the signal, whatever this process was started with.
pub(crate) const DEFAULT_ACTION: [&str; 2] = ["env", "--default-signal=INT"];

process_test!(an_interrupt_ends_a_draining_process,
    child {
        drain_for_ever(false);
    }
    parent |rerun| {
        if !can_run("env", rerun.test()) {
            return;
        }
        let mut running = rerun.start(&DEFAULT_ACTION);
        running.wait_for_line("draining");
        interrupt(&running);
        running.end().assert_signal(&[SIGINT]);
    }
);

process_test!(an_interrupt_ends_a_draining_process_with_lanes,
    child {
        drain_for_ever(true);
    }
    parent |rerun| {
        if !can_run("env", rerun.test()) {
            return;
        }
        let mut running = rerun.start(&DEFAULT_ACTION);
        running.wait_for_line("draining");
        interrupt(&running);
        running.end().assert_signal(&[SIGINT]);
    }
);

/// Needs more stack than any thread has.
fn overflow(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 64]);
    if frame[0] == usize::MAX {
        return 0;
    }
    overflow(depth + 1) + frame[depth % 64]
}

process_test!(a_stack_overflow_in_a_job_kills_the_process,
    child {
        let pool = WorkerPool::builder().workers(2).stack_size(256 << 10).build().unwrap();
        let others: Vec<_> = (0..10).map(|i| pool.submit(move || i).unwrap()).collect();
        assert_eq!(others.into_iter().map(|job| job.join().unwrap()).sum::<i32>(), 45);
        say("overflowing");
        let job = pool.submit(|| overflow(0)).unwrap();
        drop(job.join());
        unreachable!("nobody recovers from that");
    }
    parent |rerun| {
        let ended = rerun.run(&[]);
        assert!(ended.printed.contains("overflowing"), "{ended:#?}");
        ended.assert_signal(&[SIGABRT, SIGSEGV, SIGBUS]);
        // The standard library names the thread, which has the name of its slot.
        assert!(ended.complaints.contains("-w"), "{ended:#?}");
    }
);
