//! Models of waiting: for room, and for an idle moment.

use super::{Entry, Idle, Load, Room, Seat, is_idle};
use crate::sync::Arc;
use crate::sync::model::{Bound, check, join, spawn};

/// The books of a pool with one slot, whose thread looks for idle moments when it is out of work.
#[derive(Default)]
struct Books {
    load: Load,
    idle: Idle,
}

impl Books {
    fn is_idle(&self) -> bool {
        is_idle(std::iter::once(&self.load), || true)
    }

    fn check_idle(&self) {
        if let Some(registered) = self.idle.awaited_in_order() {
            if self.is_idle() {
                self.idle.announce(registered);
            }
        }
    }

    fn submit(&self) {
        if self.idle.is_awaited() {
            self.check_idle();
        }
        self.load.submit();
    }

    fn run(&self) {
        self.load.begin();
        self.load.end(false);
        self.load.finish();
        self.check_idle();
    }

    fn wait(&self) {
        assert!(self.idle.wait(|| self.is_idle(), None));
    }
}

#[test]
fn a_waiter_and_the_last_finish() {
    check("wait_idle, the last finish", Bound::Exhaustive, || {
        let books = Arc::new(Books::default());
        books.submit();
        let theirs = Arc::clone(&books);
        let worker = spawn(move || theirs.run());
        books.wait();
        join(worker);
    });
}

#[test]
fn two_waiters_and_the_last_finish() {
    check(
        "two times wait_idle, the last finish",
        Bound::Preemptions(3),
        || {
            let books = Arc::new(Books::default());
            books.submit();
            let (theirs, others) = (Arc::clone(&books), Arc::clone(&books));
            let worker = spawn(move || theirs.run());
            let waiter = spawn(move || others.wait());
            books.wait();
            join(waiter);
            join(worker);
        },
    );
}

/// The second job is submitted when the first one is known to be over: the moment between is idle,
/// and frees the waiter although nobody ever runs the second job.
#[test]
fn a_waiter_and_a_submit_that_ends_the_idle_moment() {
    check(
        "wait_idle, a submit after the finish",
        Bound::Exhaustive,
        || {
            let books = Arc::new(Books::default());
            books.submit();
            let theirs = Arc::clone(&books);
            let waiter = spawn(move || theirs.idle.wait(|| theirs.is_idle(), Some(soon())));
            books.load.begin();
            books.load.end(false);
            books.load.finish();
            books.submit();
            books.check_idle();
            let is_free = books.idle.wait(|| books.is_idle(), Some(soon()));
            assert!(!is_free, "the second job is still queued");
            join(waiter);
        },
    );
}

/// A time that has come.
fn soon() -> std::time::Instant {
    std::time::Instant::now()
}

#[test]
fn room_goes_to_who_waits_for_it() {
    check(
        "room: two times left, two who enter",
        Bound::Exhaustive,
        || {
            let room = Arc::new(Room::new(2));
            assert_eq!([room.try_enter(), room.try_enter()], [Entry::Granted; 2]);
            let enter = |room: Arc<Room>| spawn(move || room.enter(&Seat::new(), None));
            let (one, other) = (enter(Arc::clone(&room)), enter(Arc::clone(&room)));
            room.leave();
            room.leave();
            assert_eq!([join(one), join(other)], [Entry::Granted; 2]);
            assert_eq!(room.try_enter(), Entry::Full);
        },
    );
}

#[test]
fn room_is_not_given_to_who_has_gone() {
    check(
        "room: a leaver, a waiter, a caller-off",
        Bound::Exhaustive,
        || {
            let room = Arc::new(Room::new(1));
            assert_eq!(room.try_enter(), Entry::Granted);
            let seats = Arc::new(crate::sync::Mutex::new(None::<Arc<Seat>>));
            let (theirs, room_of_theirs) = (Arc::clone(&seats), Arc::clone(&room));
            let waiter = spawn(move || {
                let seat = Seat::new();
                *theirs.lock() = Some(Arc::clone(&seat));
                let entry = room_of_theirs.enter(&seat, None);
                if entry == Entry::Granted {
                    room_of_theirs.leave();
                }
                entry
            });
            let canceller = spawn(move || {
                let seat = seats.lock().clone();
                seat.map(|seat| seat.call_off()).is_some()
            });
            room.leave();
            let was_called_off = join(canceller);
            let entry = join(waiter);
            assert!(entry == Entry::Granted || (was_called_off && entry == Entry::CalledOff));
            assert_eq!(room.try_enter(), Entry::Granted, "no room was lost");
        },
    );
}

#[test]
fn the_end_of_the_pool_reaches_who_waits_for_room() {
    check("room: close, a waiter, a leaver", Bound::Exhaustive, || {
        let room = Arc::new(Room::new(1));
        assert_eq!(room.try_enter(), Entry::Granted);
        let theirs = Arc::clone(&room);
        let waiter = spawn(move || theirs.enter(&Seat::new(), None));
        let theirs = Arc::clone(&room);
        let leaver = spawn(move || theirs.leave());
        room.close();
        join(leaver);
        let entry = join(waiter);
        assert!(matches!(entry, Entry::Granted | Entry::Closed));
        assert_eq!(room.try_enter(), Entry::Closed);
    });
}

#[test]
fn two_who_leave_and_two_who_enter() {
    check(
        "room: two leavers, two waiters",
        Bound::Preemptions(3),
        || {
            let room = Arc::new(Room::new(2));
            assert_eq!([room.try_enter(), room.try_enter()], [Entry::Granted; 2]);
            let enter = |room: Arc<Room>| spawn(move || room.enter(&Seat::new(), None));
            let (one, other) = (enter(Arc::clone(&room)), enter(Arc::clone(&room)));
            let theirs = Arc::clone(&room);
            let leaver = spawn(move || theirs.leave());
            room.leave();
            join(leaver);
            assert_eq!([join(one), join(other)], [Entry::Granted; 2]);
            assert_eq!(room.try_enter(), Entry::Full);
        },
    );
}
