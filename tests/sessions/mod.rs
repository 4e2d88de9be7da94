//! Which session is meant, and bringing one back.

mod bring_back;
mod history;
mod resolve;
