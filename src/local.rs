//! Values that a pool's threads have one of each.
//!
//! They lie with the thread, in a list that is there for as long as the thread serves its pool, so
//! using one takes no lock, and they are dropped before anybody can have joined the thread. The list
//! is searched from its beginning: there are as many entries as there are kinds of values in use.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::ptr;
use std::rc::Rc;

use crate::sync::{Arc, Weak, thread_local};
use crate::unwind;

/// A value that each worker has its own of: a parser, a buffer, a connection. Jobs use the one of the
/// thread they run on, without a lock.
///
/// A worker's value is made when the first job on its thread asks for it, and dropped on that same
/// thread, so it need be neither `Send` nor `Sync`. Clones are the same local.
///
/// ```
/// use fairlane::{WorkerLocal, WorkerPool};
///
/// let pool = WorkerPool::new(2)?;
/// let buffer = WorkerLocal::new(|| String::with_capacity(1_000));
/// let lengths = pool.map(0..100u32, move |n| {
///     buffer.with_mut(|buffer| {
///         buffer.clear();
///         buffer.push_str(&n.to_string());
///         buffer.len()
///     })
/// });
/// assert_eq!(lengths.map(Result::unwrap).sum::<usize>(), 190);
/// # Ok::<(), fairlane::BuildError>(())
/// ```
///
/// **When it is dropped.** When its thread ends: at the latest before
/// [`shutdown`](crate::WorkerPool::shutdown) returns, after the thread's stop hook, the last one made
/// first. A panic in its destructor is swallowed. If the thread is replaced after a panic (see
/// [`PanicPolicy::Restart`](crate::PanicPolicy::Restart)), the new one makes a new value. When the last
/// clone of the local has been dropped, a thread drops its value the next time that it makes one for
/// another local.
///
/// **Where it can be used.** In jobs, and in start and stop hooks, of any pool. On other threads there
/// is no value, and asking for it panics: look at [`is_available`](WorkerLocal::is_available) in code
/// that also runs there, with [`Inline`](crate::Inline) for example.
pub struct WorkerLocal<T>(Arc<Key<T>>);

struct Key<T> {
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T: 'static> WorkerLocal<T> {
    /// A local whose values `make` makes.
    #[must_use]
    pub fn new(make: impl Fn() -> T + Send + Sync + 'static) -> WorkerLocal<T> {
        WorkerLocal(Arc::new(Key {
            make: Box::new(make),
        }))
    }

    /// Calls `f` with this worker's value, made if need be. O(locals in use on this thread).
    ///
    /// # Panics
    /// On a thread that serves no pool; while a [`with_mut`](WorkerLocal::with_mut) of the same value
    /// is going on, of which `f` is called by a job that it runs in place; and if `f` or the making
    /// of the value panics.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        match self.value().try_borrow() {
            Ok(value) => f(&value),
            Err(_) => panic!("a worker's value was asked for while it is in use on the same stack"),
        }
    }

    /// As [`with`](WorkerLocal::with), to change the value.
    ///
    /// Keep it short: a job that is joined by `f` may run in place, and has no access to the value.
    ///
    /// # Panics
    /// As there, and while a `with` of the same value is going on.
    pub fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        match self.value().try_borrow_mut() {
            Ok(mut value) => f(&mut value),
            Err(_) => panic!("a worker's value was asked for while it is in use on the same stack"),
        }
    }

    /// Whether there can be a value on this thread: it serves a pool.
    #[must_use]
    pub fn is_available(&self) -> bool {
        let is_open = ENTRIES.try_with(|entries| entries.borrow().is_some());
        is_open.unwrap_or(false)
    }

    fn value(&self) -> Rc<RefCell<T>> {
        assert!(
            self.is_available(),
            "a worker's value was asked for on a thread that serves no pool"
        );
        let found = with_entries(|entries| {
            let entry = entries.iter().find(|entry| entry.is_of(&self.0));
            entry.map(|entry| entry.value.clone())
        });
        match found {
            Some(Some(value)) => match value.downcast() {
                Ok(value) => value,
                Err(_) => unreachable!("the key is that of a `T`"),
            },
            Some(None) => panic!("a worker's value was asked for while it was being made"),
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Rc<RefCell<T>> {
        let key = Arc::downgrade(&self.0) as Weak<dyn Any + Send + Sync>;
        let unused: Vec<Entry> = with_entries(|entries| {
            let (unused, used) = entries.drain(..).partition(Entry::is_unused);
            *entries = used;
            entries.push(Entry { key, value: None });
            unused
        });
        let place = Place(&self.0);
        unused.into_iter().for_each(unwind::discard);
        let value = Rc::new(RefCell::new((self.0.make)()));
        place.fill(Rc::clone(&value));
        value
    }
}

impl<T> Clone for WorkerLocal<T> {
    fn clone(&self) -> Self {
        WorkerLocal(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for WorkerLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerLocal").finish_non_exhaustive()
    }
}

/// One value of a thread.
struct Entry {
    key: Weak<dyn Any + Send + Sync>,
    /// `None` while it is being made.
    value: Option<Rc<dyn Any>>,
}

impl Entry {
    fn is_of<T>(&self, key: &Arc<Key<T>>) -> bool {
        // The entry's reference keeps the address from being used again.
        ptr::addr_eq(self.key.as_ptr(), Arc::as_ptr(key))
    }

    fn is_unused(&self) -> bool {
        self.key.strong_count() == 0
    }
}

thread_local! {
    /// `None` on a thread that serves no pool.
    static ENTRIES: RefCell<Option<Vec<Entry>>> = const { RefCell::new(None) };
}

/// Calls `f`, which runs no code of the user, with the entries of this thread, which serves a pool.
fn with_entries<R>(f: impl FnOnce(&mut Vec<Entry>) -> R) -> R {
    ENTRIES.with(|entries| {
        let mut entries = entries.borrow_mut();
        f(entries.as_mut().expect("the thread serves a pool"))
    })
}

/// The entry of a value that is being made. It goes away again if that comes to nothing.
struct Place<'a, T: 'static>(&'a Arc<Key<T>>);

impl<T> Place<'_, T> {
    fn fill(self, value: Rc<RefCell<T>>) {
        with_entries(|entries| {
            let entry = entries.iter_mut().find(|entry| entry.is_of(self.0));
            entry.expect("it is being made").value = Some(value);
        });
    }
}

impl<T> Drop for Place<'_, T> {
    fn drop(&mut self) {
        with_entries(|entries| {
            entries.retain(|entry| entry.value.is_some() || !entry.is_of(self.0));
        });
    }
}

/// Lets this thread have values until the guard is dropped, and them with it.
pub(crate) fn open() -> Opened {
    ENTRIES.with(|entries| *entries.borrow_mut() = Some(Vec::new()));
    Opened
}

pub(crate) struct Opened;

impl Drop for Opened {
    fn drop(&mut self) {
        // Taken away first: destructors find no value, and make none.
        let taken = ENTRIES.with(|entries| entries.borrow_mut().take());
        let mut entries = taken.unwrap_or_default();
        while let Some(entry) = entries.pop() {
            unwind::discard(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_dropped_locals_go_when_another_is_made() {
        let _opened = open();
        let (mut locals, token) = (Vec::new(), Rc::new(()));
        for n in 0..10usize {
            let local = WorkerLocal::new(move || n);
            local.with(|value| assert_eq!(*value, n));
            locals.push(local);
        }
        assert_eq!(with_entries(|entries| entries.len()), 10);
        locals.truncate(3);
        let another = WorkerLocal::new(Vec::<Rc<()>>::new);
        another.with_mut(|tokens| tokens.push(Rc::clone(&token)));
        assert_eq!(with_entries(|entries| entries.len()), 4);
        assert_eq!(Rc::strong_count(&token), 2);
    }
}
