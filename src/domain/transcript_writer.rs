//! Which side writes the rows of a turn.

/// The writer of a turn's rows in the transcript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptWriter {
    Daemon,
    Agent,
}
