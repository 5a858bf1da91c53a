//! A pool in a program whose panics abort.

use fairlane::{CancelToken, JobError, WorkerPool};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("works") => works(),
        Some("panics") => panics(),
        other => panic!("{other:?} is no case"),
    }
}

fn works() {
    for fair in [false, true] {
        let builder = WorkerPool::builder().workers(2);
        let builder = if fair { builder.fair() } else { builder };
        let pool = builder.build().unwrap();
        let jobs: Vec<_> = (0..100).map(|i| pool.submit(move || i).unwrap()).collect();
        assert!(jobs.into_iter().map(|job| job.join().unwrap()).eq(0..100));

        let doubled: Vec<_> = pool.map(0..100, |i| 2 * i).map(Result::unwrap).collect();
        assert!(doubled.into_iter().eq((0..100).map(|i| 2 * i)));

        let mut parts = [0; 8];
        pool.scope(|scope| {
            for (i, part) in parts.iter_mut().enumerate() {
                scope.execute(move || *part = i).unwrap();
            }
        });
        assert!(parts.into_iter().eq(0..8));

        let token = CancelToken::new();
        token.cancel();
        let job = pool.job().cancel_token(&token).submit(|| 1).unwrap();
        assert!(matches!(job.join(), Err(JobError::Cancelled)));
        pool.shutdown();
    }
    println!("all is well");
}

fn panics() {
    let pool = WorkerPool::new(2).unwrap();
    let job = pool.submit(|| panic!("as it was told to")).unwrap();
    let outcome: Result<(), _> = job.join();
    println!("unreachable: {outcome:?}");
}
