//! End-to-end and store tests. One binary, so that the support code is built once.

#![allow(unreachable_pub)] // a test binary has no outside

mod support;

mod agent;
mod cli;
mod config;
mod control;
mod daemon;
mod delivery;
mod handoff;
mod inbound;
mod platform;
mod rooms;
mod sessions;
mod store;
mod terminal;
mod turn;
