//! The control socket, its limits, and hostile clients.

mod group;
mod hostile_clients;
mod limits;
mod socket;
mod start;
