//! What the queue keeps, by a counting allocator.
#![allow(unsafe_code)]

use fairlane::{FairQueue, Priority, Weight};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::rc::Rc;

thread_local! {
    /// Bytes this thread has allocated less what it has freed: tests run beside each other.
    static LIVE: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: usize, sign: isize) {
    // A thread that is ending has no counter any more.
    let _ = LIVE.try_with(|live| live.set(live.get() + sign * bytes as isize));
}

struct Counting;

// SAFETY: every call goes to the system allocator unchanged; the counter neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: as promised by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: as promised by the caller.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn live() -> isize {
    LIVE.get()
}

/// What a queue that has emptied may keep: a page each for jobs, lanes, runs and the agenda, and
/// the least size of a few tables.
const IDLE: isize = 48 * 1024;

fn name(n: u64) -> u64 {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn an_unused_queue_has_no_memory() {
    let before = live();
    let queue = FairQueue::<String, String>::new();
    assert_eq!(live(), before);
    drop(queue);
}

/// The limits leave some room for the page tables, which grow by doubling.
#[test]
fn lanes_and_jobs_are_small() {
    for kinds in [1, 3, 1000] {
        // Past the last growth of the table of names, whose old half is still there for a while.
        let lanes = 120_000;
        let before = live();
        let mut queue = FairQueue::new();
        for n in 0..lanes {
            let weight = Weight::new((n % kinds) as u32 + 1);
            queue.push_weighted(name(n), weight, Priority::NORMAL, n);
        }
        let one_each = live() - before;
        for n in (0..lanes).chain(0..lanes).chain(0..lanes) {
            queue.push(name(n), Priority::NORMAL, n);
        }
        let four_each = live() - before;
        let job = (four_each - one_each) / (3 * lanes as isize);
        let lane = one_each / lanes as isize - job;
        assert!(job <= 36 + 8, "{job} bytes a job of 8");
        assert!(lane <= 120, "{lane} bytes a lane of 8, {kinds} weights");
    }
}

#[test]
fn memory_goes_back_when_the_queue_drains() {
    let before = live();
    let mut queue = FairQueue::new();
    for round in 0..3 {
        for n in 0..30_000 {
            let weight = Weight::new(n as u32 % 500 + 1);
            queue.push_weighted(name(n % 3000), weight, Priority(n as i32 % 50), n);
        }
        while queue.pop().is_some() {}
        let kept = live() - before;
        assert!(kept <= IDLE, "{kept} bytes after round {round}");
    }
    assert_eq!(queue.lanes(), 0);
    drop(queue);
    assert_eq!(live(), before);
}

/// Whichever job it is that stays: pages in the middle go back too.
#[test]
fn one_job_left_keeps_little() {
    let jobs = 100_000;
    for stays in [0, jobs / 2, jobs - 1] {
        for lanes in [1, 1000, jobs as u64] {
            let before = live();
            let mut queue = FairQueue::new();
            let mut tickets: Vec<_> = (0..jobs as u64)
                .map(|n| queue.push(n % lanes, Priority(0), n))
                .collect();
            tickets.swap_remove(stays);
            for ticket in tickets {
                queue.remove(ticket);
            }
            // The page tables: 40 bytes for 64 slots, up to twice that.
            let tables = 2 * 2 * 48 * jobs as isize / 64;
            let kept = live() - before;
            assert!(
                kept <= IDLE + tables,
                "{kept} bytes, {lanes} lanes, job {stays} stays"
            );
            assert_eq!(queue.pop().map(|(_, n)| n), Some(stays as u64));
        }
    }
}

#[test]
#[ignore = "ten million jobs"]
fn one_job_left_of_ten_million() {
    let before = live();
    let mut queue = FairQueue::new();
    let first = queue.push(0, Priority(0), 0_u64);
    for n in 1..10_000_000 {
        queue.push(0, Priority(0), n);
    }
    for _ in 0..9_999_999 {
        queue.pop();
    }
    assert!(queue.remove(first).is_none());
    assert!(live() - before <= 11 << 20);
}

#[test]
fn names_used_once_leave_nothing() {
    let before = live();
    let mut queue = FairQueue::new();
    for n in 0..5 {
        queue.push(format!("stays {n}"), Priority(0), ());
    }
    let mut most = 0;
    for n in 0..100_000_u32 {
        queue.push(n.to_string(), Priority(0), ());
        queue.pop();
        most = most.max(live() - before);
    }
    assert_eq!(queue.lanes(), 5);
    assert!(most <= IDLE, "{most} bytes");
    while queue.pop().is_some() {}
    assert_eq!((queue.len(), queue.lanes()), (0, 0));
}

#[test]
fn removed_jobs_leave_no_tombstones() {
    let before = live();
    let mut queue = FairQueue::new();
    queue.push(0, Priority(0), 0);
    for n in 0..100_000 {
        let ticket = queue.push(n % 3, Priority(n % 5), n);
        queue.remove(ticket);
        assert_eq!(queue.len(), 1);
    }
    assert!(live() - before <= IDLE);
}

/// Runs of their own, one for each lane re-weighted in debt, go with the lane's next turn.
#[test]
fn weight_changes_leave_nothing() {
    let before = live();
    let mut queue = FairQueue::new();
    for n in 0..100_u32 {
        queue.push(n, Priority(0), ());
        queue.push(n, Priority(0), ());
    }
    for n in 0..20_000_u32 {
        let (tenant, ()) = queue.pop().expect("a backlog");
        queue.push(tenant, Priority(0), ());
        queue.set_weight(&(n % 100), Weight::new(n % 977 + 1));
    }
    assert!(live() - before <= 2 * IDLE);
    while queue.pop().is_some() {}
    assert!(live() - before <= IDLE);
}

/// A page of large items is not 64 of them.
#[test]
fn large_items_come_in_small_pages() {
    let before = live();
    let mut queue = FairQueue::new();
    queue.push(0, Priority(0), [0_u8; 10_000]);
    assert!(live() - before <= 10_000 + IDLE);
}

/// Once nothing is queued or runs, nobody owes anything, but no single step has to forget them all: each
/// forgets a few, and more than can have come since.
#[test]
fn debts_are_forgotten_a_few_at_a_time() {
    const TENANTS: usize = 2_000;
    let tenants: Vec<_> = (0..TENANTS).map(Rc::new).collect();
    let known = || {
        let others = tenants.iter().map(|tenant| Rc::strong_count(tenant) - 1);
        others.sum::<usize>()
    };
    let mut queue = FairQueue::by_cost();
    let before = live();
    for _ in 0..3 {
        for tenant in tenants.iter().cycle().take(20 * TENANTS) {
            queue.push(Rc::clone(tenant), Priority::NORMAL, ());
        }
        while let Some((tenant, ())) = queue.pop() {
            queue.settle(&tenant, 1_000);
        }
        assert!(known() > TENANTS / 2, "the last step was as short as any");
    }
    let mut left = known();
    while left > 1 {
        queue.push(Rc::clone(&tenants[0]), Priority::NORMAL, ());
        let (tenant, ()) = queue.pop().expect("it was queued");
        queue.settle(&tenant, 1);
        drop(tenant);
        let now = known();
        // Two steps, and the tenant itself comes and goes.
        assert!((1..=5).contains(&(left - now)), "{left}, {now}");
        left = now;
    }
    // Here bills and debts have a page each, too.
    assert!(live() - before < 2 * IDLE, "{}", live() - before);
}
