//! `FairQueue` from outside: its rule, its bounds, its order, its memory, and what panics leave.

mod bounds;
mod cost_bounds;
mod cost_oracle;
mod cost_traces;
mod fuzz;
mod memory;
mod ops;
mod oracle;
mod orders;
mod panics;
mod shares;
mod tickets;
mod traces;
