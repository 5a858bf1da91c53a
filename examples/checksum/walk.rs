//! Where the files come from: a lazy walk, cut into batches that are worth a job.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use fairlane::CancelToken;
use walkdir::{DirEntry, WalkDir};

use crate::file_id::FileId;
use crate::shard::Shard;

/// Something the walk has met and the output has to speak of. A failure travels with the files,
/// so that one place does all the reporting.
pub(crate) enum Entry {
    File(PathBuf),
    Failed(PathBuf, io::Error),
}

pub(crate) type Batch = Vec<Entry>;

/// A batch is full at this many entries or bytes, whichever comes first. A pool's job is cheap,
/// but the thread that writes sleeps until the next result is there, and being woken costs about
/// as much as hashing a small file. Bytes count as well, so that a directory of disk images
/// still is as many jobs as files.
const BATCH_ENTRIES: usize = 32;
const BATCH_BYTES: u64 = 1 << 20;

/// The regular files below the roots, in order: roots as given, names sorted within each
/// directory. No more is held than the open directories' entries.
///
/// Symbolic links are passed over, except that a root may be one: whoever names it means what
/// it points to. Other things that are not files (sockets, devices) are passed over too, but
/// a root that is one of them is a failure, for it would vanish without a word.
pub(crate) struct Walk {
    roots: vec::IntoIter<PathBuf>,
    current: Option<Root>,
    shard: Shard,
    skip: Option<FileId>,
    stop: CancelToken,
}

struct Root {
    path: PathBuf,
    entries: walkdir::IntoIter,
}

impl Walk {
    /// Of the files, those in `shard`; of failures all, since nobody knows which files they hide.
    /// `skip` is the file the output goes to: a digest of it would be stale before it is
    /// written. Once `stop` is cancelled, the walk has ended.
    pub(crate) fn new(
        roots: Vec<PathBuf>,
        shard: Shard,
        skip: Option<FileId>,
        stop: CancelToken,
    ) -> Self {
        Self {
            roots: roots.into_iter(),
            current: None,
            shard,
            skip,
            stop,
        }
    }

    /// The next thing met that is worth a word, with its size in bytes.
    fn next_sized(&mut self) -> Option<(Entry, u64)> {
        while !self.stop.is_cancelled() {
            let root = match &mut self.current {
                Some(root) => root,
                None => self.current.insert(Root::open(self.roots.next()?)),
            };
            match root.entries.next() {
                None => self.current = None,
                Some(Err(error)) => return Some((root.failed(error), 0)),
                Some(Ok(entry)) => {
                    if let Some(found) = self.examine(entry) {
                        return Some(found);
                    }
                }
            }
        }
        None
    }

    fn examine(&self, entry: DirEntry) -> Option<(Entry, u64)> {
        let is_root = entry.depth() == 0;
        let is_own = self.shard.has(entry.path());
        let is_listed = is_own && entry.file_type().is_file();
        // Before the file is asked for its size, which costs more than all of this.
        if !is_root && !is_listed {
            return None;
        }
        let metadata = match metadata(&entry) {
            Ok(metadata) => metadata,
            Err(error) => return Some((Entry::Failed(entry.into_path(), error), 0)),
        };
        if metadata.is_dir() || self.is_output(entry.path(), &metadata) {
            return None;
        }
        if !metadata.is_file() {
            let error = io::Error::other("neither a regular file nor a directory");
            return Some((Entry::Failed(entry.into_path(), error), 0));
        }
        is_own.then(|| (Entry::File(entry.into_path()), metadata.len()))
    }

    fn is_output(&self, path: &Path, metadata: &Metadata) -> bool {
        self.skip.as_ref().is_some_and(|id| id.is(path, metadata))
    }
}

/// The walk itself runs on whichever thread calls `next`: it goes no further than it is asked to.
impl Iterator for Walk {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::with_capacity(BATCH_ENTRIES);
        let mut bytes = 0;
        while batch.len() < BATCH_ENTRIES && bytes < BATCH_BYTES {
            let Some((entry, size)) = self.next_sized() else {
                break;
            };
            batch.push(entry);
            bytes = bytes.saturating_add(size);
        }
        (!batch.is_empty()).then_some(batch)
    }
}

impl Root {
    fn open(path: PathBuf) -> Self {
        // A file named "-" would read as standard input in the list.
        let path = if path.as_os_str() == "-" {
            Path::new(".").join(path)
        } else {
            path
        };
        let entries = WalkDir::new(&path).sort_by_file_name().into_iter();
        Self { path, entries }
    }

    fn failed(&self, error: walkdir::Error) -> Entry {
        let path = error.path().unwrap_or(&self.path).to_path_buf();
        // Only a loop of links is no I/O error, and links are not followed.
        let error = error
            .into_io_error()
            .unwrap_or_else(|| io::Error::other("a loop of links"));
        Entry::Failed(path, error)
    }
}

/// Follows a link at a root, and there only: below, what was a file may have become one since.
fn metadata(entry: &DirEntry) -> io::Result<Metadata> {
    let read = if entry.depth() == 0 {
        fs::metadata
    } else {
        fs::symlink_metadata
    };
    read(entry.path())
}
