//! Turns: leases shared with other programs, and who writes the transcript.

mod compaction;
mod lease_race;
pub mod lease_rules;
pub mod leases;
mod transcript_writer;
