//! Locks, queues and channels for the models, made of the tool's own mutex and condition variable.
//!
//! They promise no more than the real ones do. In particular a queue tells its length by a counter of
//! its own, not under its lock: under the lock a look would order itself with every push, and a
//! protocol that lacks a fence would seem to be sound.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::Instant;

use super::chosen::{AtomicUsize, fence, raw};
use super::{Arc, Ordering, Steal};

/// parking_lot's mutex: not poisoned by a panic.
#[derive(Default)]
pub(crate) struct Mutex<T>(raw::Mutex<T>);

/// `None` only while the thread waits for a condition variable.
pub(crate) struct MutexGuard<'a, T>(Option<raw::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(raw::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let locked = self.0.lock();
        MutexGuard(Some(locked.unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(locked) => Some(MutexGuard(Some(locked))),
            Err(TryLockError::Poisoned(locked)) => Some(MutexGuard(Some(locked.into_inner()))),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        let value = self.0.get_mut();
        value.unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> T {
        let value = self.0.into_inner();
        value.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("locked")
    }
}

/// parking_lot's condition variable, which borrows the guard.
#[derive(Default)]
pub(crate) struct Condvar(raw::Condvar);

pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.0.take().expect("locked");
        let woken = self.0.wait(locked);
        guard.0 = Some(woken.unwrap_or_else(PoisonError::into_inner));
    }

    /// In a model no time passes: what has not come yet never comes.
    pub(crate) fn wait_until<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitTimeoutResult {
        if deadline <= Instant::now() {
            return WaitTimeoutResult(true);
        }
        self.wait(guard);
        WaitTimeoutResult(false)
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A queue and its length.
struct Queue<T> {
    items: Mutex<VecDeque<T>>,
    len: AtomicUsize,
}

impl<T> Queue<T> {
    fn new() -> Queue<T> {
        Queue {
            items: Mutex::new(VecDeque::new()),
            len: AtomicUsize::new(0),
        }
    }

    fn change<R>(&self, change: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        let mut items = self.items.lock();
        let result = change(&mut items);
        self.len.store(items.len(), Ordering::Release);
        result
    }

    fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Like the real one, this looks at the end of the queue after a fence.
    fn steal(&self) -> Steal<T> {
        fence(Ordering::SeqCst);
        if self.len.load(Ordering::Relaxed) == 0 {
            return Steal::Empty;
        }
        match self.change(VecDeque::pop_front) {
            Some(item) => Steal::Success(item),
            None => Steal::Empty,
        }
    }
}

/// crossbeam's injector.
pub(crate) struct Injector<T>(Queue<T>);

impl<T> Injector<T> {
    pub(crate) fn new() -> Injector<T> {
        Injector(Queue::new())
    }

    pub(crate) fn push(&self, item: T) {
        self.0.change(|items| items.push_back(item));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        self.0.steal()
    }

    /// What is taken is in neither queue for a moment, as with the real one.
    pub(crate) fn steal_batch_with_limit_and_pop(&self, to: &Deque<T>, limit: usize) -> Steal<T> {
        fence(Ordering::SeqCst);
        if self.0.len.load(Ordering::Relaxed) == 0 {
            return Steal::Empty;
        }
        let mut batch = self.0.change(|items| {
            let taken = items.len().div_ceil(2).min(limit);
            items.drain(..taken).collect::<VecDeque<_>>()
        });
        let Some(first) = batch.pop_front() else {
            return Steal::Empty;
        };
        batch.into_iter().for_each(|item| to.push(item));
        Steal::Success(first)
    }
}

/// crossbeam's deque: the end that its owner works at.
pub(crate) struct Deque<T> {
    queue: Arc<Queue<T>>,
    is_lifo: bool,
}

/// The other end.
pub(crate) struct Stealer<T>(Arc<Queue<T>>);

impl<T> Deque<T> {
    fn new(is_lifo: bool) -> Deque<T> {
        Deque {
            queue: Arc::new(Queue::new()),
            is_lifo,
        }
    }

    pub(crate) fn new_fifo() -> Deque<T> {
        Deque::new(false)
    }

    pub(crate) fn new_lifo() -> Deque<T> {
        Deque::new(true)
    }

    pub(crate) fn stealer(&self) -> Stealer<T> {
        Stealer(Arc::clone(&self.queue))
    }

    pub(crate) fn push(&self, item: T) {
        self.queue.change(|items| items.push_back(item));
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        self.queue.change(|items| {
            if self.is_lifo {
                items.pop_back()
            } else {
                items.pop_front()
            }
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.len() == 0
    }
}

impl<T> Stealer<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn steal(&self) -> Steal<T> {
        self.0.steal()
    }
}

/// crossbeam's channel, as far as a sender that outlives the receiver's interest needs it.
pub(crate) mod channel {
    use std::collections::VecDeque;
    use std::time::Instant;

    use super::{Arc, Condvar, Mutex};

    #[derive(Debug)]
    pub(crate) enum TryRecvError {
        Empty,
        #[allow(dead_code)] // the crate's receivers hold a sender themselves
        Disconnected,
    }

    struct Shared<T> {
        sent: Mutex<VecDeque<T>>,
        arrived: Condvar,
    }

    pub(crate) struct Sender<T>(Arc<Shared<T>>);
    pub(crate) struct Receiver<T>(Arc<Shared<T>>);

    pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
        let shared = Arc::new(Shared {
            sent: Mutex::new(VecDeque::new()),
            arrived: Condvar::default(),
        });
        (Sender(Arc::clone(&shared)), Receiver(shared))
    }

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Sender<T> {
            Sender(Arc::clone(&self.0))
        }
    }

    impl<T> Sender<T> {
        pub(crate) fn send(&self, item: T) -> Result<(), T> {
            self.0.sent.lock().push_back(item);
            self.0.arrived.notify_all();
            Ok(())
        }
    }

    impl<T> Receiver<T> {
        pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
            self.0.sent.lock().pop_front().ok_or(TryRecvError::Empty)
        }

        /// In a model no time passes: what has not come yet never comes.
        pub(crate) fn recv_deadline(&self, deadline: Instant) -> Result<T, TryRecvError> {
            if deadline <= Instant::now() {
                return self.try_recv();
            }
            self.recv()
        }

        pub(crate) fn recv(&self) -> Result<T, TryRecvError> {
            let mut sent = self.0.sent.lock();
            loop {
                match sent.pop_front() {
                    Some(item) => return Ok(item),
                    None => self.0.arrived.wait(&mut sent),
                }
            }
        }
    }
}

/// The step that a model leaves out, if any: the `FAIRLANE_BROKEN` of the environment.
pub(crate) fn is_broken(step: &str) -> bool {
    use std::sync::OnceLock;
    static BROKEN: OnceLock<Option<String>> = OnceLock::new();
    let broken = BROKEN.get_or_init(|| std::env::var("FAIRLANE_BROKEN").ok());
    broken.as_deref() == Some(step)
}
