//! Which part of the files is this process's, when several share a tree.

use std::env;
use std::fmt;
use std::num::NonZeroU64;
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// One of `count` parts.
///
/// A file's part follows from its path as it is listed, and from nothing else. So processes agree
/// without a word, whatever each of them fails to read and whatever comes or goes while they walk;
/// by position in the list, one file more would move all that follow. The parts are alike in number,
/// since a digest's bits are; sizes even out where there are many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// From 0.
    index: u64,
    count: NonZeroU64,
}

impl Shard {
    pub(crate) const WHOLE: Shard = Shard {
        index: 0,
        count: NonZeroU64::MIN,
    };

    fn new(index: u64, count: NonZeroU64) -> Result<Self, String> {
        if index >= count.get() {
            return Err(format!("there is no shard {} of {count}", index + 1));
        }
        Ok(Self { index, count })
    }

    /// Whether the file at `path` is in this part. SHA-256, since it is at hand, and is the same in
    /// every release of every library.
    pub(crate) fn has(&self, path: &Path) -> bool {
        if *self == Self::WHOLE {
            return true;
        }
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let (first, _) = digest.split_first_chunk().expect("it has 32 bytes");
        u64::from_be_bytes(*first) % self.count == self.index
    }
}

/// From 1, as people count.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.index + 1, self.count)
    }
}

/// What the option says: `I/N`, or `/N` where a scheduler says which one this is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    index: Option<u64>,
    count: NonZeroU64,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (index, count) = text.split_once('/').ok_or("I/N or /N is needed")?;
        let count = number("N", count)?;
        let count = NonZeroU64::new(count).ok_or("0 shards hold nothing")?;
        if index.is_empty() {
            return Ok(Self { index: None, count });
        }
        let index = number("I", index)?;
        let index = index.checked_sub(1).ok_or("shards are counted from 1")?;
        let Shard { index, count } = Shard::new(index, count)?;
        let index = Some(index);
        Ok(Self { index, count })
    }
}

/// The shard of this process, and by whom it was chosen if that was not the option.
pub(crate) fn choose(asked: Option<Asked>) -> Result<(Shard, Option<&'static str>), String> {
    let count = match asked {
        Some(Asked {
            index: Some(index),
            count,
        }) => return Ok((Shard { index, count }, None)),
        Some(Asked { count, .. }) => Some(count),
        None => None,
    };
    if let Some(id) = variable(SLURM_ID)? {
        return Ok((in_array(id, count)?, Some(SLURM_ID)));
    }
    if let Some(index) = variable(KUBERNETES)? {
        let count = count.ok_or_else(|| {
            format!("{KUBERNETES} is set, and nothing says how many there are: --shard /N")
        })?;
        return Ok((Shard::new(index, count)?, Some(KUBERNETES)));
    }
    match count {
        Some(count) => Err(format!(
            "--shard /{count} needs {SLURM_ID} or {KUBERNETES}, to say which one this is"
        )),
        None => Ok((Shard::WHOLE, None)),
    }
}

const SLURM_ID: &str = "SLURM_ARRAY_TASK_ID";
const KUBERNETES: &str = "JOB_COMPLETION_INDEX";

/// The place of task `id` in a Slurm array. Consecutive indexes have different remainders, wherever
/// they begin; others may not, and files would be left out without a word.
fn in_array(id: u64, asked: Option<NonZeroU64>) -> Result<Shard, String> {
    let told = variable("SLURM_ARRAY_TASK_COUNT")?;
    let count = match (asked, told) {
        (Some(asked), Some(told)) if asked.get() != told => {
            return Err(format!("--shard /{asked}, but the array has {told} tasks"));
        }
        (Some(count), _) => count,
        (None, told) => told
            .and_then(NonZeroU64::new)
            .ok_or("SLURM_ARRAY_TASK_COUNT does not say how many there are: --shard /N")?,
    };
    let min = variable("SLURM_ARRAY_TASK_MIN")?;
    let max = variable("SLURM_ARRAY_TASK_MAX")?;
    match min.zip(max) {
        Some((min, max)) if max.checked_sub(min) != Some(count.get() - 1) => Err(format!(
            "the array's {count} indexes from {min} to {max} are not consecutive: --shard I/N"
        )),
        _ => Shard::new(id % count, count),
    }
}

/// A variable that holds a number, if it is set.
fn variable(name: &str) -> Result<Option<u64>, String> {
    let text = env::var_os(name);
    let parse = |text: std::ffi::OsString| number(name, text.to_str().unwrap_or_default());
    text.map(parse).transpose()
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    // `parse` takes a plus sign as well.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("{name} is a number, not {text:?}"))
}
