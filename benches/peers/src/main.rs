//! Prints the tables; see the library of the same name.

use std::process::ExitCode;

fn main() -> ExitCode {
    peers::main()
}
