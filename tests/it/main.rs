//! Scenarios: what is done to a pool, and what must be seen. One integration binary, so that it is
//! linked once; each scenario runs once per flavour of pool, under a watchdog (see [`common`]).

mod common;

mod backpressure;
mod environment;
mod layers;
mod liveness;
mod readme;
mod shutdown;

mod api;
mod broadcast;
mod cancel;
mod combinations;
mod counts;
mod cpu_time;
mod drops;
mod locals;
mod map;
mod panics;
mod scopes;
mod sets;
mod time;
mod timings;
mod try_map;

mod fairness;
mod life;
mod limits;
mod tenants;
