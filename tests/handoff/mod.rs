//! Handoffs from the request to the outcome, through faults and restarts.

mod busy;
mod end_to_end;
mod faults;
mod ownership;
mod recovery;
mod rollback;
mod waits;
mod wake;
