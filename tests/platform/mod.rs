//! Chat platforms, each against a fake server of its vendor.

mod context;
mod contract;
mod discord;
mod fake_frame;
mod slack;
mod telegram;
