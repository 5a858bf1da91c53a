//! The same program with an allocator that counts. It slows every allocation down, so that it makes
//! only the tables about memory; the other program starts it for them.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: peers::Counting = peers::Counting;

fn main() -> ExitCode {
    peers::main()
}
