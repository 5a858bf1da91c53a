//! One line of output, as GNU `sha256sum` writes it and `sha256sum -c` reads it back.

use std::path::Path;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Appends the line of `path`: the digest in hex, two blanks, the name, a newline.
///
/// A name that holds a backslash, a newline or a carriage return is escaped, and a backslash in
/// front of the whole line says so; every other byte stands for itself. On Unix those are the
/// name's own bytes, UTF-8 or not.
pub(crate) fn push_line(out: &mut Vec<u8>, digest: &[u8], path: &Path) {
    let name = path.as_os_str().as_encoded_bytes();
    let escaped = name.iter().any(|&byte| escape(byte).is_some());
    if escaped {
        out.push(b'\\');
    }
    for byte in digest {
        out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    out.extend_from_slice(b"  ");
    if escaped {
        push_escaped(out, name);
    } else {
        out.extend_from_slice(name);
    }
    out.push(b'\n');
}

fn push_escaped(out: &mut Vec<u8>, name: &[u8]) {
    for &byte in name {
        match escape(byte) {
            Some(letter) => out.extend([b'\\', letter]),
            None => out.push(byte),
        }
    }
}

/// What follows the backslash when `byte` cannot stand for itself.
fn escape(byte: u8) -> Option<u8> {
    match byte {
        b'\\' => Some(b'\\'),
        b'\n' => Some(b'n'),
        b'\r' => Some(b'r'),
        _ => None,
    }
}
