//! Stats serialise.

use fairlane::{Weight, WorkerPool};
use serde_json::json;

#[test]
fn stats_as_json() {
    let builder = WorkerPool::builder().workers(2).fair().timings(true);
    let pool = builder.build().unwrap();
    let tenant = pool.tenant("acme").with_weight(Weight::new(3));
    tenant.submit(|| ()).unwrap().join().unwrap();
    pool.wait_idle();
    let stats = pool.stats();
    let value = serde_json::to_value(&stats).unwrap();
    assert_eq!(value["submitted"], json!(1));
    assert_eq!(value["slots"][1]["name"], json!("w1"));
    assert_eq!(value["tenants"][0]["weight"], json!(3));
    let max = stats.run.unwrap().max;
    let wanted = json!({ "secs": max.as_secs(), "nanos": max.subsec_nanos() });
    assert_eq!(value["run"]["max"], wanted);
}

#[test]
fn without_timings() {
    let pool = WorkerPool::new(1).unwrap();
    let value = serde_json::to_value(pool.stats()).unwrap();
    assert_eq!(value["wait"], json!(null));
    assert_eq!(value["slots"][0]["busy"], json!(null));
}
