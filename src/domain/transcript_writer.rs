//! Who writes the transcript.

/// Who writes the rows of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TranscriptWriter {
    Daemon,
    Agent,
}
