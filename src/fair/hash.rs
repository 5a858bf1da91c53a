//! The hash of tenant names.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Hashes names with a secret drawn for each queue.
///
/// Each word is folded in with one 64×64→128-bit multiplication, as the wyhash family does: about a
/// nanosecond for an integer, where the standard SipHash takes ten or more and is felt on each push.
///
/// The secret comes from the standard library's random seed, so that colliding names cannot be
/// prepared in advance. It is **not** a cryptographic hash: whoever can time single pushes at will
/// may learn enough to build collisions, and then a push degrades towards a linear search. The
/// secret never shows in the order of service, which no hash takes part in.
pub(super) struct Names {
    secret: u64,
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            secret: RandomState::new().hash_one(0_u8),
        }
    }

    /// The upper half of the 64-bit hash, which is what the table keeps.
    pub(super) fn hash<K: Hash>(&self, key: &K) -> u32 {
        let mut folder = Folder { state: self.secret };
        key.hash(&mut folder);
        (folder.finish() >> 32) as u32
    }
}

/// The hash of an integer the queue itself has chosen the use of; nothing secret about it.
pub(super) fn hash_weight(weight: u32) -> u32 {
    (fold(u64::from(weight) ^ MULTIPLIER) >> 32) as u32
}

/// An odd constant with no pattern in its bits: the first 64 of the fractional part of √3.
const MULTIPLIER: u64 = 0xBB67_AE85_84CA_A73B;

fn fold(word: u64) -> u64 {
    let product = u128::from(word) * u128::from(MULTIPLIER);
    product as u64 ^ (product >> 64) as u64
}

struct Folder {
    state: u64,
}

impl Folder {
    fn word(&mut self, word: u64) {
        // The rotation keeps two equal words from cancelling each other.
        self.state = fold(self.state.rotate_left(23) ^ word);
    }
}

impl Hasher for Folder {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64);
    }

    fn write_u8(&mut self, n: u8) {
        self.word(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.word(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.word(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.word(n);
    }

    fn write_usize(&mut self, n: usize) {
        self.word(n as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.state)
    }
}
