//! Tokens that cancel many jobs at once.
//!
//! A token keeps a callback for each job that waits under it, and drops it when the job begins, so
//! its memory follows what is queued. Cancelling takes all callbacks out and calls them without a
//! lock. Children hang on their parent by weak references, parents live as long as a child of
//! theirs does; both directions are walked with a loop, so that a chain of any depth neither
//! overflows the stack when it is cancelled nor when it is dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, Weak};

/// Cancels the queued jobs that were submitted with it (see
/// [`JobBuilder::cancel_token`](crate::JobBuilder::cancel_token)).
///
/// Clones are the same token. A job that has begun is not touched: it may look at
/// [`is_cancelled`](CancelToken::is_cancelled) itself and return early. Dropping a token cancels
/// nothing.
///
/// ```
/// use fairlane::{CancelToken, WorkerPool};
/// let pool = WorkerPool::new(1)?;
/// let token = CancelToken::new();
/// token.cancel();
/// let job = pool.job().cancel_token(&token).submit(|| 1).unwrap();
/// assert!(job.join().unwrap_err().is_cancelled());
/// # Ok::<(), fairlane::BuildError>(())
/// ```
#[derive(Clone)]
pub struct CancelToken(Arc<Node>);

type Callback = Box<dyn FnOnce() + Send>;

struct Node {
    cancelled: AtomicBool,
    parent: Option<Arc<Node>>,
    /// This node's key among its parent's children.
    key: u64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next_key: u64,
    callbacks: BTreeMap<u64, Callback>,
    children: BTreeMap<u64, Weak<Node>>,
}

impl CancelToken {
    /// A token that is not cancelled.
    #[must_use]
    pub fn new() -> CancelToken {
        CancelToken(Arc::new(Node::new(None, 0)))
    }

    /// A token that is cancelled along with this one, and can be cancelled alone.
    #[must_use]
    pub fn child(&self) -> CancelToken {
        let mut inner = self.0.inner.lock();
        let key = inner.take_key();
        let child = Arc::new(Node::new(Some(Arc::clone(&self.0)), key));
        if self.is_cancelled() {
            child.cancelled.store(true, Ordering::SeqCst);
        } else {
            inner.children.insert(key, Arc::downgrade(&child));
        }
        CancelToken(child)
    }

    /// Cancels every job that waits under this token or a descendant of it. Each job's captures are
    /// dropped on this thread before the call returns. O(jobs · log jobs), the first time; later
    /// calls do nothing.
    ///
    /// It goes from job to job: those it has not come to yet may still begin, and then see
    /// [`is_cancelled`](CancelToken::is_cancelled). Once the call has returned, none begins.
    pub fn cancel(&self) {
        // All are marked before any captures are dropped: those run user code, which may ask.
        let mut closed = Vec::new();
        let mut open = vec![Arc::clone(&self.0)];
        while let Some(node) = open.pop() {
            let (callbacks, children) = node.close();
            closed.push(callbacks);
            open.extend(children.into_values().filter_map(|child| child.upgrade()));
        }
        for callback in closed.into_iter().flat_map(BTreeMap::into_values) {
            callback();
        }
    }

    /// Whether this token, or one that it descends from, has been cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    /// A place for one callback, to be filled by [`Subscription::start`].
    pub(crate) fn subscription(&self) -> Subscription {
        Subscription {
            key: self.0.inner.lock().take_key(),
            node: Arc::clone(&self.0),
        }
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        CancelToken::new()
    }
}

// Callbacks are called without the lock, after everything has changed.
impl UnwindSafe for CancelToken {}
impl RefUnwindSafe for CancelToken {}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken")
            .field("cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}

impl Node {
    fn new(parent: Option<Arc<Node>>, key: u64) -> Node {
        Node {
            cancelled: AtomicBool::new(false),
            parent,
            key,
            inner: Mutex::new(Inner::default()),
        }
    }

    /// Marks the node and takes out whatever hangs on it. The mark is set under the lock: whoever
    /// wants to hang something on it looks under the same lock, so nothing is left behind.
    fn close(&self) -> (BTreeMap<u64, Callback>, BTreeMap<u64, Weak<Node>>) {
        let mut inner = self.inner.lock();
        self.cancelled.store(true, Ordering::SeqCst);
        (
            mem::take(&mut inner.callbacks),
            mem::take(&mut inner.children),
        )
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        let mut key = self.key;
        while let Some(node) = parent {
            node.inner.lock().children.remove(&key);
            key = node.key;
            // If this was the last reference, its own parent is next: here, not by recursion.
            parent = Arc::into_inner(node).and_then(|mut node| node.parent.take());
        }
    }
}

impl Inner {
    fn take_key(&mut self) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        key
    }
}

/// One callback's place with a token.
pub(crate) struct Subscription {
    node: Arc<Node>,
    key: u64,
}

impl Subscription {
    /// Hands over the callback. If the token is cancelled already, it is called at once.
    pub(crate) fn start(&self, callback: Callback) {
        let mut inner = self.node.inner.lock();
        if self.node.cancelled.load(Ordering::SeqCst) {
            drop(inner);
            callback();
        } else {
            inner.callbacks.insert(self.key, callback);
        }
    }

    /// Drops the callback, unless it has been called or is just about to be.
    pub(crate) fn end(&self) {
        // The guard is a temporary of this statement: the callback is dropped after the lock.
        let callback = self.node.inner.lock().callbacks.remove(&self.key);
        drop(callback);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::AtomicUsize;

    fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Callback) {
        let count = Arc::new(AtomicUsize::new(0));
        let handle = Arc::clone(&count);
        let make = move || -> Callback {
            let count = Arc::clone(&handle);
            Box::new(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        (count, make)
    }

    #[test]
    fn callbacks_are_called_once_and_not_after_their_end() {
        let (count, callback) = counter();
        let token = CancelToken::new();
        let kept = token.subscription();
        let ended = token.subscription();
        kept.start(callback());
        ended.start(callback());
        ended.end();
        token.cancel();
        token.cancel();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        token.subscription().start(callback());
        assert_eq!(count.load(Ordering::SeqCst), 2, "called at once when late");
    }

    #[test]
    fn cancelling_goes_down_and_not_up() {
        let root = CancelToken::new();
        let (left, right) = (root.child(), root.child());
        let leaf = left.child();
        left.cancel();
        assert!(leaf.is_cancelled() && left.is_cancelled());
        assert!(!right.is_cancelled() && !root.is_cancelled());
        root.cancel();
        assert!(right.is_cancelled() && right.child().is_cancelled());
    }

    #[test]
    fn a_chain_of_any_depth_is_cancelled_and_dropped_without_recursion() {
        let root = CancelToken::new();
        let mut leaf = root.child();
        for _ in 0..200_000 {
            leaf = leaf.child();
        }
        root.cancel();
        assert!(
            leaf.is_cancelled(),
            "though only the leaf's clones are left"
        );
        drop(leaf);

        let mut leaf = CancelToken::new();
        for _ in 0..200_000 {
            leaf = leaf.child();
        }
        drop(leaf);
    }

    #[test]
    fn dropped_children_leave_nothing_with_their_parent() {
        let root = CancelToken::new();
        for _ in 0..100 {
            drop(root.child());
        }
        assert!(root.0.inner.lock().children.is_empty());
    }
}
