//! What must not compile, beside a twin that does, so that each one fails for the reason it names.
//! Included for doctests only.
//!
//! # A job is sent to another thread: no `Rc` in it
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let shared = std::rc::Rc::new(1);
//! pool.submit(move || *shared + 1).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let shared = std::sync::Arc::new(1);
//! assert_eq!(pool.submit(move || *shared + 1).unwrap().join().unwrap(), 2);
//! ```
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let shared = std::rc::Rc::new(1);
//! pool.execute(move || assert_eq!(*shared, 1)).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let shared = std::sync::Arc::new(1);
//! pool.execute(move || assert_eq!(*shared, 1)).unwrap();
//! ```
//!
//! # ... not even with a token or a deadline
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let token = fairlane::CancelToken::new();
//! let shared = std::rc::Rc::new(1);
//! pool.job().cancel_token(&token).submit(move || *shared).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let token = fairlane::CancelToken::new();
//! let shared = std::sync::Arc::new(1);
//! pool.job().cancel_token(&token).submit(move || *shared).unwrap();
//! ```
//!
//! # A `Cell` may be moved into a job, but not borrowed by one
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let cell: &'static std::cell::Cell<i32> = Box::leak(Box::new(std::cell::Cell::new(1)));
//! pool.submit(move || cell.get()).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let cell: std::cell::Cell<i32> = std::cell::Cell::new(1);
//! pool.submit(move || cell.get()).unwrap();
//! ```
//!
//! # A job may outlive the caller's frame: it borrows nothing from it
//!
//! ```compile_fail,E0597
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let text = String::from("on this stack");
//! let borrowed = &text;
//! pool.submit(move || borrowed.len()).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let text = String::from("moved");
//! pool.submit(move || text.len()).unwrap();
//! ```
//!
//! # The result comes back from another thread
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! pool.submit(|| std::rc::Rc::new(1)).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! pool.submit(|| std::sync::Arc::new(1)).unwrap();
//! ```
//!
//! # A handle is as sendable as its result
//!
//! ```compile_fail,E0277
//! fn sent<T: Send>() {}
//! sent::<fairlane::JobHandle<std::rc::Rc<i32>>>();
//! ```
//! ```
//! fn sent<T: Send>() {}
//! sent::<fairlane::JobHandle<std::sync::Arc<i32>>>();
//! ```
//!
//! # A refused job is as sendable as its closure
//!
//! ```compile_fail,E0277
//! fn sent<T: Send>() {}
//! sent::<fairlane::SubmitError<std::rc::Rc<i32>>>();
//! ```
//! ```
//! fn sent<T: Send + Sync>() {}
//! sent::<fairlane::SubmitError<std::cell::Cell<i32>>>();
//! ```
//!
//! # Joining consumes the handle
//!
//! ```compile_fail,E0382
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let job = pool.submit(|| 1).unwrap();
//! job.join().unwrap();
//! job.join().unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let job = pool.submit(|| 1).unwrap();
//! job.is_finished();
//! job.join().unwrap();
//! ```
//!
//! # `map` shares its closure among threads and sends the items
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let count = std::cell::Cell::new(0);
//! pool.map(0..3, move |i| count.set(count.get() + i)).count();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let count = std::sync::atomic::AtomicI32::new(0);
//! pool.map(0..3, move |i| count.fetch_add(i, std::sync::atomic::Ordering::Relaxed)).count();
//! ```
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! pool.map_unordered([std::rc::Rc::new(1)], |i| *i).count();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! pool.map_unordered([std::sync::Arc::new(1)], |i| *i).count();
//! ```
//!
//! # A map does not outlive the pool it borrows
//!
//! ```compile_fail,E0505
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mapped = pool.map(0..3, |i| i);
//! drop(pool);
//! mapped.count();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mapped = pool.map(0..3, |i| i);
//! mapped.count();
//! drop(pool);
//! ```
//!
//! # A set's members borrow nothing, and their results are sent
//!
//! ```compile_fail,E0597
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut set = fairlane::JobSet::new();
//! let text = String::from("on this stack");
//! let borrowed = &text;
//! set.submit(&pool, move || borrowed.len()).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut set = fairlane::JobSet::new();
//! let text = String::from("moved");
//! set.submit(&pool, move || text.len()).unwrap();
//! ```
//!
//! ```compile_fail,E0277
//! fn sent<T: Send>() {}
//! sent::<fairlane::JobSet<std::rc::Rc<i32>>>();
//! ```
//! ```
//! fn sent<T: Send + Sync>() {}
//! sent::<fairlane::JobSet<std::sync::Arc<i32>>>();
//! ```
//!
//! # `try_map` borrows nothing either
//!
//! ```compile_fail,E0373
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let limit = 2;
//! let _ = pool.try_map(0..3, |i| if i < limit { Ok(i) } else { Err(i) });
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let limit = 2;
//! let _ = pool.try_map(0..3, move |i| if i < limit { Ok(i) } else { Err(i) });
//! ```
//!
//! # A worker's value stays with its worker, and is made anywhere
//!
//! ```compile_fail
//! let local = fairlane::WorkerLocal::new(|| vec![1]);
//! let escaped: &Vec<i32> = local.with(|value| value);
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let local = fairlane::WorkerLocal::new(|| std::rc::Rc::new(1));
//! let job = pool.submit(move || local.with(|value| **value)).unwrap();
//! assert_eq!(job.join().unwrap(), 1);
//! ```
//!
//! ```compile_fail,E0277
//! let shared = std::rc::Rc::new(1);
//! fairlane::WorkerLocal::new(move || shared.clone());
//! ```
//! ```
//! let shared = std::sync::Arc::new(1);
//! fairlane::WorkerLocal::new(move || shared.clone());
//! ```
//!
//! # A broadcast shares its closure among threads
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(2).unwrap();
//! let cell = std::cell::Cell::new(1);
//! pool.broadcast(move |_| cell.set(2)).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(2).unwrap();
//! let cell = std::sync::Mutex::new(1);
//! pool.broadcast(move |_| *cell.lock().unwrap() = 2).unwrap();
//! ```
//!
//! ```compile_fail,E0373
//! let pool = fairlane::WorkerPool::new(2).unwrap();
//! let text = String::from("on this stack");
//! pool.broadcast(|_| text.len()).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(2).unwrap();
//! let text = String::from("moved");
//! pool.broadcast(move |_| text.len()).unwrap();
//! ```
//!
//! # A scope's job borrows what outlives the scope, and nothing that does not
//!
//! ```compile_fail,E0597
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! pool.scope(|scope| {
//!     let short = String::from("gone before the job");
//!     let borrowed = &short;
//!     scope.execute(move || assert!(!borrowed.is_empty())).unwrap();
//! });
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let long = String::from("there until the end");
//! let borrowed = &long;
//! pool.scope(|scope| {
//!     scope.execute(move || assert!(!borrowed.is_empty())).unwrap();
//! });
//! ```
//!
//! # Two jobs of a scope do not write to one place
//!
//! ```compile_fail,E0499
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut n = 0;
//! pool.scope(|scope| {
//!     scope.execute(|| n += 1).unwrap();
//!     scope.execute(|| n += 2).unwrap();
//! });
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let (mut n, mut m) = (0, 0);
//! pool.scope(|scope| {
//!     scope.execute(|| n += 1).unwrap();
//!     scope.execute(|| m += 2).unwrap();
//! });
//! assert_eq!((n, m), (1, 2));
//! ```
//!
//! # A scope's jobs are sent as well
//!
//! ```compile_fail,E0277
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let shared = std::rc::Rc::new(1);
//! pool.scope(|scope| {
//!     scope.execute(|| assert_eq!(*shared, 1)).unwrap();
//! });
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let shared = std::sync::Arc::new(1);
//! pool.scope(|scope| {
//!     scope.execute(|| assert_eq!(*shared, 1)).unwrap();
//! });
//! ```
//!
//! # Neither a scope's handle nor the scope leaves it
//!
//! ```compile_fail
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let escaped = pool.scope(|scope| scope.submit(|| 1).unwrap());
//! escaped.join().unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let joined = pool.scope(|scope| scope.submit(|| 1).unwrap().join());
//! assert_eq!(joined.unwrap(), 1);
//! ```
//!
//! ```compile_fail
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut escaped = None;
//! pool.scope(|scope| escaped = Some(scope));
//! escaped.unwrap().execute(|| ()).unwrap();
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut inside = None;
//! pool.scope(|scope| inside = Some(scope.submit(|| 1).unwrap().join()));
//! assert_eq!(inside.unwrap().unwrap(), 1);
//! ```
//!
//! # A mutable borrow lent to a job is back only when the scope is over
//!
//! ```compile_fail,E0503
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut n = 0;
//! pool.scope(|scope| {
//!     scope.execute(|| n += 1).unwrap();
//!     if n == 1 {}
//! });
//! ```
//! ```
//! let pool = fairlane::WorkerPool::new(1).unwrap();
//! let mut n = 0;
//! pool.scope(|scope| {
//!     scope.execute(|| n += 1).unwrap();
//! });
//! assert_eq!(n, 1);
//! ```
//!
//! # `Submit` is for generic code, not for `dyn`
//!
//! ```compile_fail,E0038
//! fn run(pool: &dyn fairlane::Submit) {}
//! ```
//! ```
//! fn run(pool: &impl fairlane::Submit) {}
//! ```
//!
//! # Errors and strategies may grow
//!
//! ```compile_fail,E0004
//! fn name(error: &fairlane::Rejected) -> &str {
//!     match error {
//!         fairlane::Rejected::Full => "full",
//!         fairlane::Rejected::ShutDown => "shut down",
//!         fairlane::Rejected::RestartExhausted => "exhausted",
//!         fairlane::Rejected::Forked => "forked",
//!     }
//! }
//! ```
//! ```
//! fn name(error: &fairlane::Rejected) -> &str {
//!     match error {
//!         fairlane::Rejected::Full => "full",
//!         fairlane::Rejected::ShutDown => "shut down",
//!         fairlane::Rejected::RestartExhausted => "exhausted",
//!         fairlane::Rejected::Forked => "forked",
//!         _ => "something new",
//!     }
//! }
//! ```
