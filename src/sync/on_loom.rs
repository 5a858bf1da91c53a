//! loom's primitives: every interleaving, and every value that the memory model lets a load see.

pub(crate) use loom::sync::atomic::fence;

use super::Ordering;
pub(crate) use super::stand_in::{
    Condvar, Deque, Injector, Mutex, MutexGuard, Stealer, channel, is_broken,
};

pub(super) mod raw {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
}

pub(crate) use loom::alloc;
pub(crate) use loom::hint;

/// One core: with more, threads would spin before they sleep, which adds interleavings and no
/// behaviour.
pub(crate) fn cores() -> usize {
    1
}

/// Calls `access`, and restores what `SeqCst` asks for.
///
/// loom takes it for acquire and release. What is missing is the one order of all such accesses, and
/// a fence between any two of a thread restores it. It comes right after the first, where x86 has one
/// too, and not before the second: that would order what lies between, such as a push, with the second,
/// and hide the lack of a fence there. What it hides is a `SeqCst` store that a weaker load follows.
#[track_caller]
fn in_order<R>(order: Ordering, access: impl FnOnce() -> R) -> R {
    let result = access();
    if order == Ordering::SeqCst {
        fence(Ordering::SeqCst);
    }
    result
}

macro_rules! atomics {
    ($($name:ident: $value:ty { $($rest:item)* })+) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code)] // not every type needs every access
        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                $name(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                in_order(order, || self.0.load(order))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                in_order(order, || self.0.store(value, order))
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                in_order(order, || self.0.swap(value, order))
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                before: $value,
                after: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                in_order(success, || self.0.compare_exchange(before, after, success, failure))
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                in_order(success, || self.0.fetch_update(success, failure, f))
            }

            $($rest)*
        }
    )+};
}

macro_rules! integers {
    ($($name:ident: $value:ty),+) => {
        atomics! {$($name: $value {
            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                in_order(order, || self.0.fetch_add(value, order))
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                in_order(order, || self.0.fetch_sub(value, order))
            }

            #[track_caller]
            pub(crate) fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                in_order(order, || self.0.fetch_or(value, order))
            }

            #[track_caller]
            pub(crate) fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                in_order(order, || self.0.fetch_and(value, order))
            }

            #[track_caller]
            pub(crate) fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                in_order(order, || self.0.fetch_max(value, order))
            }
        })+}
    };
}

atomics! { AtomicBool: bool {} }
integers! { AtomicU8: u8, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize }

/// loom's macro knows no `const`.
macro_rules! local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident: $type:ty = const { $init:expr };)+) => {
        loom::thread_local! { $($(#[$meta])* $vis static $name: $type = $init;)+ }
    };
}
pub(crate) use local as thread_local;

/// Bytes that one thread at a time may touch, each after the last one's release of them.
pub(crate) struct Access(loom::cell::UnsafeCell<()>);

impl Access {
    pub(crate) fn new() -> Access {
        Access(loom::cell::UnsafeCell::new(()))
    }

    #[track_caller]
    pub(crate) fn exclusive(&self) {
        self.0.with_mut(|_| {});
    }
}

/// Threads with a handle of their own. loom's `unpark` also wakes a thread that waits for a lock, and
/// its `join` prints a line each time.
pub(crate) mod thread {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    pub(crate) use loom::thread::yield_now;

    use super::{Condvar, Mutex};

    /// A flag to wait for.
    #[derive(Default)]
    struct Flag {
        is_set: Mutex<bool>,
        changed: Condvar,
    }

    impl Flag {
        fn set(&self) {
            *self.is_set.lock() = true;
            self.changed.notify_all();
        }

        /// Waits until it is set, and unsets it.
        fn take(&self) {
            let mut is_set = self.is_set.lock();
            while !*is_set {
                self.changed.wait(&mut is_set);
            }
            *is_set = false;
        }
    }

    #[derive(Clone)]
    pub(crate) struct Thread {
        id: loom::thread::ThreadId,
        token: Arc<Flag>,
    }

    loom::thread_local! {
        static TOKEN: Arc<Flag> = Arc::default();
    }

    impl Thread {
        pub(crate) fn id(&self) -> loom::thread::ThreadId {
            self.id
        }

        pub(crate) fn unpark(&self) {
            self.token.set();
        }
    }

    pub(crate) fn current() -> Thread {
        Thread {
            id: loom::thread::current().id(),
            token: TOKEN.with(Arc::clone),
        }
    }

    pub(crate) fn park() {
        TOKEN.with(Arc::clone).take();
    }

    /// In a model no time passes.
    pub(crate) fn park_timeout(left: Duration) {
        if !left.is_zero() {
            park();
        }
    }

    pub(crate) struct JoinHandle<T> {
        spawned: loom::thread::JoinHandle<()>,
        result: Arc<Mutex<Option<T>>>,
        end: Arc<Flag>,
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn thread(&self) -> &loom::thread::Thread {
            self.spawned.thread()
        }

        /// A panic ends the model, so there is always a result.
        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.end.take();
            Ok(self.result.lock().take().expect("a thread that has ended"))
        }
    }

    pub(crate) struct Builder;

    impl Builder {
        pub(crate) fn new() -> Builder {
            Builder
        }

        pub(crate) fn name(self, _name: String) -> Builder {
            self
        }

        pub(crate) fn stack_size(self, _bytes: usize) -> Builder {
            self
        }

        pub(crate) fn spawn<T: 'static>(
            self,
            main: impl FnOnce() -> T + 'static,
        ) -> io::Result<JoinHandle<T>> {
            let (result, end) = (Arc::new(Mutex::new(None)), Arc::<Flag>::default());
            let (its_result, its_end) = (Arc::clone(&result), Arc::clone(&end));
            let spawned = loom::thread::spawn(move || {
                let value = main();
                *its_result.lock() = Some(value);
                its_end.set();
            });
            Ok(JoinHandle {
                spawned,
                result,
                end,
            })
        }
    }
}
