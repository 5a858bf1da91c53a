//! Which jobs are running on this thread, innermost last.
//!
//! A job can run another one in place by joining it, so there may be several. Waiting for any of
//! them would be waiting for oneself.

use std::cell::RefCell;

use crate::sync::thread_local;

thread_local! {
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks the job at `address` as running here until the guard is dropped.
#[must_use]
pub(super) fn enter(address: usize) -> Guard {
    // During a thread's last breath its thread-locals may be gone. Without the list a job that joins
    // itself from there waits for ever instead of getting an error; nothing else depends on it.
    let listed = RUNNING.try_with(|list| list.borrow_mut().push(address));
    Guard(listed.is_ok())
}

/// Whether the job at `address` is running on this thread.
pub(super) fn contains(address: usize) -> bool {
    RUNNING
        .try_with(|list| list.borrow().contains(&address))
        .unwrap_or(false)
}

pub(super) struct Guard(bool);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0 {
            let _ = RUNNING.try_with(|list| list.borrow_mut().pop());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_nest() {
        let _outer = enter(8);
        {
            let _inner = enter(16);
            assert!(contains(8) && contains(16));
        }
        assert!(contains(8) && !contains(16));
    }
}
