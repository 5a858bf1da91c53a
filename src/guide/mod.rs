//! Short pages on what is chosen once and thought about rarely.
//!
//! | page | answers |
//! |---|---|
//! | [`strategy`] | which slot gets the next job |
//! | [`limit`] | whether to put a gate in front of the pool, and how to bound memory |
//! | [`tenants`] | who is served when, and with which weight |
//! | [`cancelling`] | how to call work off |
//! | [`shutdown`] | what becomes of jobs and handles when a pool ends |
//! | [`deadlocks`] | which waits can still last for ever, and why |
//! | [`cost`] | what a call costs |
//! | [`rayon`] | when to use rayon instead |
//! | [`machines`] | one batch on several machines |
//! | [`porting`] | how a program moves here from `threadpool`, `rayon::spawn` or plain threads |

#[doc = include_str!("strategy.md")]
pub mod strategy {}

#[doc = include_str!("limit.md")]
pub mod limit {}

#[doc = include_str!("tenants.md")]
pub mod tenants {}

#[doc = include_str!("cancelling.md")]
pub mod cancelling {}

#[doc = include_str!("shutdown.md")]
pub mod shutdown {}

#[doc = include_str!("deadlocks.md")]
pub mod deadlocks {}

#[doc = include_str!("cost.md")]
pub mod cost {}

#[doc = include_str!("rayon.md")]
pub mod rayon {}

#[doc = include_str!("machines.md")]
pub mod machines {}

#[doc = include_str!("porting.md")]
pub mod porting {}
