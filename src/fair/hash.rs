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
pub(crate) struct Names {
    secret: u64,
}

impl Names {
    pub(crate) fn new() -> Names {
        Names {
            secret: RandomState::new().hash_one(0_u8),
        }
    }

    /// The upper half of the 64-bit hash, which is what the table keeps.
    pub(super) fn hash<K: Hash>(&self, key: &K) -> u32 {
        (self.hash_one(key) >> 32) as u32
    }
}

impl BuildHasher for Names {
    type Hasher = Folder;

    fn build_hasher(&self) -> Folder {
        Folder { state: self.secret }
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

pub(crate) struct Folder {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The hashes are about as distinct, and as evenly spread in their upper and their lower bits, as
    /// if they had been drawn. The margins are wide: no secret comes near them.
    fn check_spread(hashes: impl Iterator<Item = u32>) {
        let (mut all, mut upper, mut lower) = (BTreeSet::new(), [0; 64], [0; 64]);
        let mut count = 0;
        for hash in hashes {
            count += 1;
            all.insert(hash);
            upper[hash as usize >> 26] += 1;
            lower[hash as usize % 64] += 1;
        }
        assert!(count - all.len() <= 16, "{} of {count}", all.len());
        for bucket in upper.into_iter().chain(lower) {
            let expected = count / 64;
            assert!((expected / 2..=expected * 2).contains(&bucket), "{bucket}");
        }
    }

    const KEYS: u64 = 1 << 16;

    /// The hashes of `key(n)` for many `n`.
    fn check_keys<K: Hash>(key: impl Fn(u64) -> K) {
        let names = Names::new();
        check_spread((0..KEYS).map(|n| names.hash(&key(n))));
    }

    #[test]
    fn integers_of_every_size_spread() {
        check_keys(|n| n as u16);
        check_keys(|n| n as u32);
        check_keys(|n| (n as u32) << 16);
        check_keys(|n| n);
        check_keys(|n| n << 32);
        check_keys(|n| n << 48);
        check_keys(|n| n as usize);
        check_keys(|n| n as usize * 4096);
        check_spread((0..KEYS as u32).map(hash_weight));
        check_spread((0..KEYS as u32).map(|n| hash_weight(n << 16)));
    }

    #[test]
    fn small_integers_are_told_apart() {
        let names = Names::new();
        let hashes: BTreeSet<_> = (0..=u8::MAX).map(|n| names.hash(&n)).collect();
        assert!(hashes.len() >= 254, "{}", hashes.len());
    }

    #[test]
    fn names_of_several_words_spread() {
        check_keys(|n| format!("{n}"));
        check_keys(|n| format!("a tenant whose number is {n:08}"));
        check_keys(|n| format!("{n:08} is the number of a tenant"));
        check_keys(|n| (n / 256, n % 256));
        check_keys(|n| (n, n));
        check_keys(|n| {
            vec![0_u8; n as usize % 256]
                .into_iter()
                .chain([1])
                .chain((n as u16 / 256).to_le_bytes())
                .collect::<Vec<_>>()
        });
    }

    #[test]
    fn each_queue_has_its_own_secret() {
        let (one, other) = (Names::new(), Names::new());
        assert!((0..8_u64).any(|n| one.hash(&n) != other.hash(&n)));
    }

    #[test]
    fn the_length_counts() {
        let names = Names::new();
        let hash = |bytes: &[u8]| {
            let mut folder = Folder {
                state: names.secret,
            };
            folder.write(bytes);
            folder.finish()
        };
        let hashes: BTreeSet<_> = (0..64).map(|len| hash(&vec![0; len])).collect();
        assert_eq!(hashes.len(), 64);
    }
}
