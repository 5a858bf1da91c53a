//! What happens when user code panics: it stops here.
//!
//! User code (closures, hooks, destructors of captures, results and payloads) enters through two
//! doors only: [`run`] calls it, [`discard`] drops it. Neither lets a panic out, so no worker can be
//! killed and no protocol step after the call can be skipped. With `panic = "abort"` there is
//! nothing to catch: the process ends where the closure panicked, as it was asked to.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a panic carries.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Calls `f` and returns what it returned or the payload of its panic.
///
/// `AssertUnwindSafe`: the closure is consumed, and what it shares with others is the user's to keep
/// consistent, exactly as with `std::thread::spawn`.
pub(crate) fn run<T>(f: impl FnOnce() -> T) -> Result<T, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Calls `f`; `None` if it panicked, which is nobody's business.
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub(crate) fn attempt<T>(f: impl FnOnce() -> T) -> Option<T> {
    run(f).map_err(discard).ok()
}

/// Drops `value`, whatever its destructor does.
///
/// A payload may itself panic when dropped, and so may the payload of that panic. After the second
/// one the value is leaked: somebody who builds an endless chain of them gets a leak, not a loop.
pub(crate) fn discard<T>(value: T) {
    let Err(payload) = run(|| drop(value)) else {
        return;
    };
    if let Err(again) = run(|| drop(payload)) {
        mem::forget(again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb(u32);
    impl Drop for Bomb {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(Bomb(self.0 - 1));
            }
        }
    }

    #[test]
    fn run_returns_or_hands_over_the_payload() {
        assert_eq!(run(|| 7).unwrap(), 7);
        let payload = run(|| std::panic::panic_any(5u8)).unwrap_err();
        assert_eq!(*payload.downcast::<u8>().unwrap(), 5);
    }

    #[test]
    fn discard_survives_payloads_that_panic_when_dropped() {
        for depth in 0..4 {
            discard(Bomb(depth));
        }
    }
}
