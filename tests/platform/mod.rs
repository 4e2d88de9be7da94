//! Chat platforms, each against a fake server of its vendor.

mod context;
mod fake_frame;
mod telegram;
