//! The pool's numbers arrive at a recorder.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};

use fairlane::WorkerPool;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

/// All values that a metric was given, by name and labels.
type Values = BTreeMap<String, Vec<f64>>;

static VALUES: Mutex<Values> = Mutex::new(BTreeMap::new());
static UNITS: Mutex<BTreeMap<String, Option<Unit>>> = Mutex::new(BTreeMap::new());
static INSTALLED: LazyLock<()> = LazyLock::new(|| metrics::set_global_recorder(Memory).unwrap());

/// A recorder that remembers everything, and panics at the histograms of one pool.
struct Memory;

struct Metric(String);

impl Metric {
    fn of(key: &Key) -> Arc<Metric> {
        let mut labels: Vec<_> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        labels.sort();
        Arc::new(Metric(format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn push(&self, value: f64) {
        let mut values = VALUES.lock().unwrap();
        values.entry(self.0.clone()).or_default().push(value);
    }
}

impl CounterFn for Metric {
    fn increment(&self, _: u64) {
        unreachable!("counters are set to what stats say");
    }
    fn absolute(&self, value: u64) {
        self.push(value as f64);
    }
}

impl GaugeFn for Metric {
    fn increment(&self, _: f64) {
        unreachable!("gauges are set to what stats say");
    }
    fn decrement(&self, _: f64) {
        unreachable!("gauges are set to what stats say");
    }
    fn set(&self, value: f64) {
        self.push(value);
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        if self.0.contains("pool=cursed") {
            std::panic::resume_unwind(Box::new("no"));
        }
        self.push(value);
    }
}

fn describe(name: KeyName, unit: Option<Unit>) {
    UNITS.lock().unwrap().insert(name.as_str().to_owned(), unit);
}

impl Recorder for Memory {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        describe(key, unit);
    }
    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        describe(key, unit);
    }
    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        describe(key, unit);
    }
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Metric::of(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Metric::of(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Metric::of(key))
    }
}

fn values(metric: &str) -> Vec<f64> {
    let values = VALUES.lock().unwrap();
    values.get(metric).cloned().unwrap_or_default()
}

fn last(metric: &str) -> Option<f64> {
    values(metric).last().copied()
}

#[test]
fn counters_gauges_and_histograms() {
    LazyLock::force(&INSTALLED);
    let builder = WorkerPool::builder().workers(1).fair().timings(true);
    let pool = builder.name("thumbs").build().unwrap();
    let tenant = pool.tenant("acme");
    for n in 0..3 {
        let job = tenant.submit(move || assert!(n < 2, "one panics")).unwrap();
        assert_eq!(job.join().is_ok(), n < 2);
    }
    pool.wait_idle();
    pool.publish_metrics();
    let one = |metric: &str, label: &str| last(&format!("fairlane_{metric}{{{label}pool=thumbs}}"));
    assert_eq!(one("jobs_submitted_total", ""), Some(3.0));
    assert_eq!(one("jobs_settled_total", "outcome=completed,"), Some(2.0));
    assert_eq!(one("jobs_settled_total", "outcome=panicked,"), Some(1.0));
    assert_eq!(one("jobs_running", ""), Some(0.0));
    assert_eq!(one("workers", ""), Some(1.0));
    let of_slot = |metric: &str| last(&format!("fairlane_slot_{metric}{{pool=thumbs,slot=w0}}"));
    assert_eq!(of_slot("jobs_completed_total"), Some(2.0));
    assert_eq!(of_slot("restarts_total"), Some(0.0));
    assert!(of_slot("busy_seconds").unwrap() > 0.0);
    for metric in ["fairlane_job_wait_seconds", "fairlane_job_run_seconds"] {
        let recorded = values(&format!("{metric}{{pool=thumbs,tenant=acme}}"));
        assert_eq!(recorded.len(), 3, "{metric}");
        assert_eq!(UNITS.lock().unwrap()[metric], Some(Unit::Seconds));
    }
}

#[test]
fn a_forgotten_tenants_gauges_go_to_zero() {
    LazyLock::force(&INSTALLED);
    let builder = WorkerPool::builder().workers(1).fair();
    let pool = builder.name("forgets").build().unwrap();
    let (sender, waits) = std::sync::mpsc::channel::<()>();
    let (begins, begun) = std::sync::mpsc::channel();
    let tenant = pool.tenant("once");
    let first = move || {
        begins.send(()).unwrap();
        waits.recv().unwrap();
    };
    tenant.execute(first).unwrap();
    begun.recv().unwrap();
    tenant.execute(|| ()).unwrap();
    drop(tenant);
    let gauges = || {
        let gauge = |name: &str| {
            last(&format!(
                "fairlane_tenant_jobs_{name}{{pool=forgets,tenant=once}}"
            ))
        };
        (gauge("queued"), gauge("running"))
    };
    pool.publish_metrics();
    assert_eq!(gauges(), (Some(1.0), Some(1.0)));
    sender.send(()).unwrap();
    pool.wait_idle();
    pool.publish_metrics();
    assert_eq!(gauges(), (Some(0.0), Some(0.0)));
    let count = values("fairlane_tenant_jobs_queued{pool=forgets,tenant=once}").len();
    pool.publish_metrics();
    let again = values("fairlane_tenant_jobs_queued{pool=forgets,tenant=once}").len();
    assert_eq!(count, again, "zero once is enough");
}

#[test]
fn a_recorder_that_panics_kills_no_worker() {
    LazyLock::force(&INSTALLED);
    let builder = WorkerPool::builder().workers(1).timings(true);
    let pool = builder.name("cursed").build().unwrap();
    for n in 0..10 {
        assert_eq!(pool.submit(move || n).unwrap().join().unwrap(), n);
    }
    assert_eq!(pool.stats().completed, 10);
}
