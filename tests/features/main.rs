//! What the optional features add.

mod metrics;
mod serde;
mod tracing;
