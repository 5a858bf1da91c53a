//! The job: a batch of files in, their lines and what went wrong out.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use fairlane::CancelToken;
use sha2::{Digest, Sha256};

use crate::escape::push_line;
use crate::progress::Progress;
use crate::walk::{Batch, Entry};

/// Most source files fit, and so take one read and the one that finds the end; larger files see
/// no gain from more, and this much stays in a core's second-level cache.
const BUFFER: usize = 128 * 1024;

thread_local! {
    /// One buffer a worker, not one a file: allocating and zeroing it costs more than hashing a
    /// small file does.
    static READ: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER].into_boxed_slice());
}

/// What became of a batch. The lines are made on the worker, so that the one thread that writes
/// has nothing to do but write.
#[derive(Default)]
pub(crate) struct Hashed {
    pub(crate) lines: Vec<u8>,
    pub(crate) done: u64,
    pub(crate) skipped: u64,
    pub(crate) failed: Vec<(PathBuf, io::Error)>,
}

/// Hashes a batch. Once `stop` is cancelled, the file at hand is finished and the rest skipped.
pub(crate) fn hash_batch(batch: Batch, stop: &CancelToken, progress: &Progress) -> Hashed {
    let mut hashed = Hashed::default();
    for entry in batch {
        match entry {
            Entry::Failed(path, error) => hashed.failed.push((path, error)),
            Entry::File(_) if stop.is_cancelled() => hashed.skipped += 1,
            Entry::File(path) => match hash_file(&path, progress) {
                Ok(digest) => {
                    push_line(&mut hashed.lines, &digest, &path);
                    hashed.done += 1;
                }
                Err(error) => hashed.failed.push((path, error)),
            },
        }
    }
    progress.add_files(hashed.done);
    hashed
}

fn hash_file(path: &Path, progress: &Progress) -> io::Result<[u8; 32]> {
    let mut file = File::open(path)?;
    READ.with_borrow_mut(|buffer| digest(&mut file, buffer, progress))
}

/// Reads until a read says that the end is there. Neither the size known from the walk nor a
/// short read would do: a file may have grown, and a short read is no promise.
fn digest(input: &mut impl Read, buffer: &mut [u8], progress: &Progress) -> io::Result<[u8; 32]> {
    let mut sha = Sha256::new();
    loop {
        match input.read(buffer) {
            Ok(0) => return Ok(sha.finalize().into()),
            Ok(read) => {
                sha.update(&buffer[..read]);
                progress.add_bytes(read);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
