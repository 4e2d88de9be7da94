//! End-to-end and store tests. One binary, so that the support code is built once.

#![allow(unreachable_pub)] // a test binary has no outside

mod support;

mod faults;
mod handoff_e2e;
mod ownership;
mod recovery;
mod routing_mirror;
mod store_faults;
mod store_model;
mod store_open;
mod wake;
