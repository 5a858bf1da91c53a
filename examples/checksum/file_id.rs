//! Telling whether a path the walk has met is the very file the output goes to.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// Device and inode: however the walk gets there, by another name or a hard link, they tell.
#[cfg(unix)]
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

#[cfg(unix)]
impl FileId {
    pub(crate) fn of(_path: &Path, file: &File) -> io::Result<Self> {
        file.metadata()
            .map(|metadata| Self::from_metadata(&metadata))
    }

    /// Standard output is a file too when the shell redirected it to one.
    pub(crate) fn of_stdout() -> Option<Self> {
        use std::os::fd::AsFd;

        let file = File::from(io::stdout().as_fd().try_clone_to_owned().ok()?);
        file.metadata()
            .ok()
            .map(|metadata| Self::from_metadata(&metadata))
    }

    pub(crate) fn is(&self, _path: &Path, metadata: &Metadata) -> bool {
        *self == Self::from_metadata(metadata)
    }

    fn from_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;

        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// Elsewhere the standard library gives a file no number: its resolved path has to do.
#[cfg(not(unix))]
#[derive(Clone)]
pub(crate) struct FileId(std::path::PathBuf);

#[cfg(not(unix))]
impl FileId {
    pub(crate) fn of(path: &Path, _file: &File) -> io::Result<Self> {
        path.canonicalize().map(Self)
    }

    pub(crate) fn of_stdout() -> Option<Self> {
        None
    }

    pub(crate) fn is(&self, path: &Path, _metadata: &Metadata) -> bool {
        // Resolving every path would cost more than opening it: only a namesake is resolved.
        path.file_name() == self.0.file_name()
            && path.canonicalize().is_ok_and(|path| path == self.0)
    }
}
