//! Each job runs in a span.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

use fairlane::{Priority, WorkerPool};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

type Fields = BTreeMap<String, String>;

/// What happened to a span, and what it was told.
#[derive(Clone, Default)]
struct Seen {
    fields: Fields,
    log: Vec<&'static str>,
}

static SPANS: Mutex<BTreeMap<u64, Seen>> = Mutex::new(BTreeMap::new());
static INSTALLED: LazyLock<()> =
    LazyLock::new(|| tracing::subscriber::set_global_default(Memory).unwrap());

thread_local! {
    static CURRENT: std::cell::RefCell<Vec<u64>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// A subscriber that remembers all spans, and panics at those of one pool.
struct Memory;

struct Read<'a>(&'a mut Fields);

impl Visit for Read<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}").trim_matches('"').to_owned();
        self.0.insert(field.name().to_owned(), text);
    }
}

fn with_span(id: u64, f: impl FnOnce(&mut Seen)) {
    f(SPANS.lock().unwrap().get_mut(&id).expect("a span"));
}

impl Subscriber for Memory {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut seen = Seen::default();
        attributes.record(&mut Read(&mut seen.fields));
        SPANS.lock().unwrap().insert(id, seen);
        Id::from_u64(id)
    }
    fn record(&self, id: &Id, values: &Record<'_>) {
        with_span(id.into_u64(), |seen| {
            values.record(&mut Read(&mut seen.fields))
        });
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        if let Some(id) = CURRENT.with_borrow(|spans| spans.last().copied()) {
            with_span(id, |seen| seen.log.push("event"));
        }
    }
    fn enter(&self, id: &Id) {
        CURRENT.with_borrow_mut(|spans| spans.push(id.into_u64()));
        let mut is_cursed = false;
        with_span(id.into_u64(), |seen| {
            seen.log.push("enter");
            is_cursed = seen.fields.get("pool").is_some_and(|pool| pool == "cursed");
        });
        if is_cursed {
            std::panic::resume_unwind(Box::new("no"));
        }
    }
    fn exit(&self, id: &Id) {
        CURRENT.with_borrow_mut(|spans| _ = spans.pop());
        with_span(id.into_u64(), |seen| seen.log.push("exit"));
    }
    fn try_close(&self, id: Id) -> bool {
        with_span(id.into_u64(), |seen| seen.log.push("close"));
        true
    }
}

fn spans_of(pool: &str) -> Vec<Seen> {
    let spans = SPANS.lock().unwrap();
    let spans = spans
        .values()
        .filter(|seen| seen.fields.get("pool").is_some_and(|p| p == pool));
    spans.cloned().collect()
}

#[test]
fn a_job_runs_in_a_span() {
    LazyLock::force(&INSTALLED);
    let builder = WorkerPool::builder().workers(1).fair();
    let pool = builder.name("traced").build().unwrap();
    let job = pool.job().tenant("acme").priority(Priority(7));
    job.submit(|| tracing::info!("inside"))
        .unwrap()
        .join()
        .unwrap();
    let panics = || -> () { std::panic::resume_unwind(Box::new("one")) };
    let panicked = pool.submit(panics).unwrap().join();
    assert!(panicked.unwrap_err().is_panic());
    pool.scope(|scope| scope.execute(|| tracing::info!("in a scope")).unwrap());
    let [first, second, third] = spans_of("traced").try_into().ok().expect("three spans");
    assert_eq!(first.log, ["enter", "event", "exit", "close"]);
    assert_eq!(
        (&*first.fields["tenant"], &*first.fields["priority"]),
        ("acme", "7")
    );
    first.fields["wait_us"].parse::<u64>().unwrap();
    assert_eq!(second.log, ["enter", "exit", "close"]);
    assert_eq!(second.fields["tenant"], "");
    assert_eq!(third.log, ["enter", "event", "exit", "close"]);
}

#[test]
fn the_span_of_a_job_that_never_runs_is_closed_too() {
    LazyLock::force(&INSTALLED);
    let pool = WorkerPool::builder()
        .workers(1)
        .name("cancels")
        .build()
        .unwrap();
    let (sender, waits) = std::sync::mpsc::channel::<()>();
    let (begins, begun) = std::sync::mpsc::channel();
    let first = move || {
        begins.send(()).unwrap();
        waits.recv().unwrap();
    };
    pool.execute(first).unwrap();
    begun.recv().unwrap();
    let job = pool.submit(|| ()).unwrap();
    assert!(job.cancel());
    drop(job);
    sender.send(()).unwrap();
    pool.shutdown();
    let [_, second] = spans_of("cancels").try_into().ok().expect("two spans");
    assert_eq!(second.log, ["close"]);
    assert!(!second.fields.contains_key("wait_us"));
}

#[test]
fn a_subscriber_that_panics_kills_no_worker() {
    LazyLock::force(&INSTALLED);
    let pool = WorkerPool::builder()
        .workers(1)
        .name("cursed")
        .build()
        .unwrap();
    for n in 0..10 {
        assert_eq!(pool.submit(move || n).unwrap().join().unwrap(), n);
    }
    assert_eq!(pool.stats().completed, 10);
}
