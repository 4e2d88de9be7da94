//! Turns: leases shared with other programs, and who writes the transcript.

mod compaction;
mod lease_race;
mod lease_rules;
mod leases;
mod transcript_writer;
