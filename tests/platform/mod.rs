//! Chat platforms, each against a fake server of its vendor.

mod context;
mod contract;
mod fake_frame;
mod telegram;
