//! Discord. This version has its descriptor only: it reads the settings and has no adapter.

mod descriptor;

pub use descriptor::DESCRIPTOR;
