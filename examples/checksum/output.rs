//! Where the lines go.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::file_id::FileId;

/// Standard output, or the file of `--output`.
pub(crate) struct Output {
    name: String,
    to: Box<dyn Write>,
    id: Option<FileId>,
}

/// The lines could not be written: there is no point in hashing on.
#[derive(Debug)]
pub(crate) struct OutputError {
    name: String,
    source: io::Error,
}

impl Output {
    /// Opens the file at `path`, emptied, or standard output.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, OutputError> {
        let Some(path) = path else {
            return Ok(Self {
                name: "standard output".into(),
                to: Box::new(io::stdout()),
                id: FileId::of_stdout(),
            });
        };
        // Quoted as `Debug` does: whatever the name holds, the message stays one line.
        let name = format!("{path:?}");
        let opened = File::create(path).and_then(|file| Ok((FileId::of(path, &file)?, file)));
        match opened {
            Ok((id, file)) => Ok(Self {
                name,
                to: Box::new(file),
                id: Some(id),
            }),
            Err(source) => Err(OutputError { name, source }),
        }
    }

    /// The file behind the output, if it is one.
    pub(crate) fn take_id(&mut self) -> Option<FileId> {
        self.id.take()
    }

    /// Writes whole lines, past any buffer: they come some thirty at a time, and a reader at the
    /// other end of a pipe need not wait for more.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), OutputError> {
        self.to
            .write_all(lines)
            .and_then(|()| self.to.flush())
            .map_err(|source| OutputError {
                name: self.name.clone(),
                source,
            })
    }
}

impl OutputError {
    /// The reader has gone, as `head` does once it has enough: nothing to complain about.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.source.kind() == ErrorKind::BrokenPipe
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write to {}: {}", self.name, self.source)
    }
}

impl Error for OutputError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}
