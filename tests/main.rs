//! End-to-end and store tests. One binary, so that the support code is built once.

#![allow(unreachable_pub)] // a test binary has no outside

#[allow(dead_code, unused_imports)] // every file of tests uses its share of it
mod support;

mod cli;
mod cli_direct;
mod cli_edges;
mod cli_refusals;
mod config;
mod config_files;
mod control_hostile;
mod control_socket;
mod control_start;
mod handoff_e2e;
