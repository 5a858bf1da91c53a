//! How much CPU time the current thread has used.
//!
//! The systems named here have had the clock for long, and `libc` its number; on any other, wall time does.
//! `libc` is a dependency of this crate already, and of parking_lot and num_cpus; a crate around this
//! one call (rustix, cpu-time) would be one more for every user to build, for one `unsafe` block less.
//! The call is a system call on most systems, some hundred nanoseconds.

#[cfg(not(all(test, not(any(loom, shuttle)))))]
pub(crate) use self::clock as thread_time;
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) use self::stand_in::thread_time;

/// Nanoseconds of CPU time since some moment in the life of this thread. Where the system keeps no such
/// clock for threads, of time.
#[cfg(all(
    any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "illumos",
    ),
    not(any(loom, shuttle))
))]
#[allow(unsafe_code)]
pub(crate) fn clock() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes to `time`, which is there for it, and keeps no pointer.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    debug_assert_eq!(status, 0, "the clock exists on these systems");
    (time.tv_sec as u64).wrapping_mul(1_000_000_000) + time.tv_nsec as u64
}

#[cfg(not(all(
    any(
        target_os = "linux",
        target_os = "android",
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "illumos",
    ),
    not(any(loom, shuttle))
)))]
pub(crate) fn clock() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// In unit tests a thread has used what its code says, so that charges are known to the nanosecond, and
/// somebody counts how often it is asked.
#[cfg(all(test, not(any(loom, shuttle))))]
pub(crate) mod stand_in {
    use std::cell::Cell;

    thread_local! {
        static USED: Cell<u64> = const { Cell::new(0) };
        static READINGS: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn thread_time() -> u64 {
        READINGS.set(READINGS.get() + 1);
        USED.get()
    }

    /// This thread uses so much.
    pub(crate) fn spend(nanos: u64) {
        USED.set(USED.get() + nanos);
    }

    /// How often this thread was asked for its time.
    pub(crate) fn readings() -> u64 {
        READINGS.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_while_the_thread_does() {
        let start = clock();
        while clock() == start {
            std::hint::spin_loop();
        }
        assert!(clock() > start);
    }
}
