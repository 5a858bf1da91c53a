//! How a process fares that has a pool: it is killed, it exits, it runs out of stack, threads or
//! memory. Each test starts this binary again, or an example, and looks from outside at what becomes
//! of it.

#![cfg(target_os = "linux")]

#[macro_use]
mod rerun;

#[path = "../example/mod.rs"]
mod example;
mod examples;
mod exits;
mod memory;
mod panic_abort;
mod signals;
mod threads;
