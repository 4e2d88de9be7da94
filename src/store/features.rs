//! Detects which features of newer Hermes versions a file has. Each feature obliges every program that writes. The
//! schema's version number says little about them, so they are found by the names of tables and columns.

use rusqlite::{Connection, OptionalExtension};

use super::{StoreError, schema};

/// Caches a connection's findings until the schema changes.
pub(super) const MEMORY: &str = "PRAGMA temp_store = MEMORY;
CREATE TEMP TABLE IF NOT EXISTS hermesd_features (cookie INTEGER NOT NULL, bits INTEGER NOT NULL);";

/// A part of Hermes' schema that not every file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    /// `session_turn_leases`: each conversation has one turn at a time, across all programs.
    TurnLeases,
    /// `system_prompts` with `sessions.system_prompt_hash`: prompts are stored by their hash.
    SystemPrompts,
    /// `conversation_generations`: counts the boundaries of a chat's conversations.
    Generations,
    /// `messages.display_kind`: marks rows that are not a person's words.
    DisplayKind,
    /// `sessions.title_source`: records who set the title.
    TitleSource,
    /// `sessions.last_activity_at`
    LastActivity,
    /// `sessions.created_source`: the first source of a session.
    CreatedSource,
}

/// The table and column that show each feature.
const FEATURES: [(Feature, &str, &str); 7] = [
    (Feature::TurnLeases, "session_turn_leases", "holder"),
    (Feature::SystemPrompts, "sessions", "system_prompt_hash"),
    (
        Feature::Generations,
        "conversation_generations",
        "generation",
    ),
    (Feature::DisplayKind, "messages", "display_kind"),
    (Feature::TitleSource, "sessions", "title_source"),
    (Feature::LastActivity, "sessions", "last_activity_at"),
    (Feature::CreatedSource, "sessions", "created_source"),
];

/// The features of a file, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features(i64);

impl Features {
    pub(super) fn has(self, feature: Feature) -> bool {
        self.0 & bit(feature) != 0
    }
}

fn bit(feature: Feature) -> i64 {
    1 << feature as i64
}

/// Whether the file has a feature. Cached until the schema changes.
pub(super) fn has(c: &Connection, feature: Feature) -> Result<bool, StoreError> {
    Ok(of(c)?.has(feature))
}

pub(super) fn of(c: &Connection) -> Result<Features, StoreError> {
    let known = c
        .prepare_cached(
            "SELECT bits FROM hermesd_features WHERE cookie = (SELECT schema_version FROM pragma_schema_version)",
        )?
        .query_row([], |row| row.get(0))
        .optional()?;
    match known {
        Some(bits) => Ok(Features(bits)),
        None => remember(c),
    }
}

fn remember(c: &Connection) -> Result<Features, StoreError> {
    let mut bits = 0;
    for (feature, table, column) in FEATURES {
        if schema::columns(c, table)?.iter().any(|name| name == column) {
            bits |= bit(feature);
        }
    }
    // A read-only connection may write this table, because it is temporary.
    let reads_only: bool = c.pragma_query_value(None, "query_only", |row| row.get(0))?;
    if reads_only {
        c.pragma_update(None, "query_only", false)?;
    }
    let remembered = c.execute("DELETE FROM hermesd_features", []).and_then(|_| {
        c.execute(
            "INSERT INTO hermesd_features SELECT schema_version, ?1 FROM pragma_schema_version",
            [bits],
        )
    });
    if reads_only {
        c.pragma_update(None, "query_only", true)?;
    }
    remembered?;
    Ok(Features(bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_counts_as_soon_as_it_is_there() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("state.db");
        let other = Connection::open(&path).expect("a database");
        other
            .execute_batch("CREATE TABLE sessions (id TEXT)")
            .expect("a table");
        let c = Connection::open(&path).expect("a database");
        c.execute_batch(MEMORY).expect("a memory");
        c.pragma_update(None, "query_only", true).expect("a pragma");
        let has = |feature| has(&c, feature).expect("an answer");
        assert!(!has(Feature::TitleSource));
        other
            .execute_batch("ALTER TABLE sessions ADD COLUMN title_source TEXT")
            .expect("a column");
        assert!(has(Feature::TitleSource) && !has(Feature::TurnLeases));
        assert!(c.execute("DELETE FROM sessions", []).is_err());
    }
}
