//! How much CPU time the current thread has used.
//!
//! The systems named here have had the clock for long, and `libc` its number; on any other, wall time does.
//! `libc` is a dependency of this crate already, and of parking_lot and num_cpus; a crate around this
//! one call (rustix, cpu-time) would be one more for every user to build, for one `unsafe` block less.
//! The call is a system call on most systems, some hundred nanoseconds.

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
pub(crate) fn thread_time() -> u64 {
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
pub(crate) fn thread_time() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_while_the_thread_does() {
        let start = thread_time();
        while thread_time() == start {
            std::hint::spin_loop();
        }
        assert!(thread_time() > start);
    }
}
