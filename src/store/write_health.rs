//! Logs once when the database becomes locked or full, and once when it recovers.

use std::cell::Cell;

use crate::journal_ids;
use crate::store::StoreError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Locked,
    Full,
}

/// The last problem of the writer, if it still lasts.
#[derive(Default)]
pub(super) struct WriteHealth(Cell<Option<Kind>>);

impl WriteHealth {
    /// Records the outcome of a write.
    pub(super) fn report(&self, fault: Option<&StoreError>) {
        let kind = fault.and_then(|error| match error {
            StoreError::Busy(_) => Some(Kind::Locked),
            error if error.is_full() => Some(Kind::Full),
            _ => None,
        });
        // Other errors of a job say nothing about the database.
        if (kind.is_none() && fault.is_some()) || self.0.replace(kind) == kind {
            return;
        }
        match (kind, fault) {
            (Some(Kind::Locked), Some(error)) => {
                tracing::warn!(message_id = journal_ids::DATABASE_LOCKED, %error, "the database is locked");
            }
            (Some(Kind::Full), _) => {
                tracing::error!(
                    message_id = journal_ids::DATABASE_FULL,
                    "the disk is full: free some space; will retry"
                );
            }
            _ => tracing::info!("the database can be written again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::Page;

    #[test]
    fn trouble_is_told_when_it_begins_changes_and_ends() {
        let page = Page::default();
        let writer = page.clone();
        let lines = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        let (busy, write_health) = (
            StoreError::Busy(Duration::from_secs(10)),
            WriteHealth::default(),
        );
        tracing::subscriber::with_default(lines, || {
            write_health.report(None);
            write_health.report(Some(&busy));
            write_health.report(Some(&busy));
            write_health.report(Some(&StoreError::Full));
            write_health.report(Some(&StoreError::Conflict("not about the disk".into())));
            write_health.report(None);
        });
        let text = page.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains(journal_ids::DATABASE_LOCKED) && lines[0].contains("WARN"));
        assert!(lines[1].contains(journal_ids::DATABASE_FULL) && lines[1].contains("ERROR"));
        assert!(lines[2].contains("can be written again"));
    }
}
