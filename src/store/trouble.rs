//! A database that is locked or full is told of when that begins and when it ends; whoever waits says so on their own.

use std::cell::Cell;

use super::StoreError;
use crate::message_id;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Locked,
    Full,
}

/// What keeps the writer from writing.
#[derive(Default)]
pub(super) struct Trouble(Cell<Option<Kind>>);

impl Trouble {
    /// What came of a write.
    pub(super) fn tell(&self, fault: Option<&StoreError>) {
        let kind = fault.and_then(|error| match error {
            StoreError::Busy(_) => Some(Kind::Locked),
            error if error.is_full() => Some(Kind::Full),
            _ => None,
        });
        if self.0.replace(kind) == kind {
            return;
        }
        match (kind, fault) {
            (Some(Kind::Locked), Some(error)) => {
                tracing::warn!(message_id = message_id::DATABASE_LOCKED, %error, "the database is locked");
            }
            (Some(Kind::Full), _) => {
                tracing::error!(
                    message_id = message_id::DATABASE_FULL,
                    "the disk is full: free some space, it is tried again"
                );
            }
            _ => tracing::info!("the database can be written again"),
        }
    }
}
