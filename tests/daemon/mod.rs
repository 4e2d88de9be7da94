//! Start, reload, stop, logs, metrics and hooks of the built daemon.

mod gateway;
mod hooks;
mod journald;
mod metrics;
mod name_lookup;
mod private_modes;
mod private_text;
mod reload;
mod stop;
mod watchdog;
