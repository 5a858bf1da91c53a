//! Which weight each DIR has.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str;

use fairlane::Weight;

/// The weight of each root: what the `given` options of the form `DIR=N` say, the last one of
/// several, and 1 for the others.
pub(crate) fn of_each(roots: &[PathBuf], given: &[OsString]) -> Result<Vec<Weight>, String> {
    let mut weights = vec![Weight::default(); roots.len()];
    for option in given {
        // `Debug` quotes what would break the line or upset a terminal.
        let (dir, weight) = parse(option).map_err(|why| format!("--weight {option:?}: {why}"))?;
        let mut is_known = false;
        for (root, slot) in roots.iter().zip(&mut weights) {
            if is_same(dir, root) {
                *slot = weight;
                is_known = true;
            }
        }
        if !is_known {
            return Err(format!("--weight {option:?}: not one of the DIRs given"));
        }
    }
    Ok(weights)
}

/// The name's bytes and the weight. A name may hold an equals sign, a number may not.
fn parse(option: &OsString) -> Result<(&[u8], Weight), String> {
    let bytes = option.as_encoded_bytes();
    let equals = bytes.iter().rposition(|&byte| byte == b'=');
    let equals = equals.ok_or("DIR=N is needed")?;
    let number = str::from_utf8(&bytes[equals + 1..])
        .ok()
        .and_then(|digits| digits.parse::<u32>().ok())
        .ok_or_else(|| format!("N is a number from 1 to {}", Weight::MAX))?;
    let weight = Weight::try_from(number)
        .map_err(|_| "a DIR of weight 0 would never be served: 1 is the least")?;
    Ok((&bytes[..equals], weight))
}

/// As given, but for a slash at the end, which shells like to add.
fn is_same(dir: &[u8], root: &Path) -> bool {
    trimmed(dir) == trimmed(root.as_os_str().as_encoded_bytes())
}

fn trimmed(name: &[u8]) -> &[u8] {
    match name {
        // The root of the file system is nothing but a slash.
        [shorter @ .., b'/'] if !shorter.is_empty() => trimmed(shorter),
        _ => name,
    }
}
