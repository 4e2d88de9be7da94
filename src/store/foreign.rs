//! Detects commits of other programs. A connection of its own sees every commit, also ours. Only the writer can
//! distinguish them, and it is asked only if one of our commits may be among them.

use std::time::Duration;

use rusqlite::Connection;

use super::{Store, StoreError, open};

pub struct ForeignCommits {
    store: Store,
    connection: Connection,
    /// The `data_version` at the last look, and the number of our write groups before it.
    version: Option<i64>,
    writes: u64,
    /// The writer's last answer.
    foreign: Option<i64>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Commits {
    None,
    Foreign,
    /// A commit is in progress, and a database without a log cannot be read meanwhile.
    InProgress,
    /// Perhaps only ours: ask [`Store::foreign_version`], and pass the answer to [`ForeignCommits::is_new`].
    Unsure,
}

impl Store {
    /// Reads on the calling thread, so use it on a thread of its own.
    pub fn foreign_commits(&self) -> Result<ForeignCommits, StoreError> {
        let file = &self.inner.file;
        if file.is_replaced() {
            return Err(StoreError::Replaced(file.path.clone()));
        }
        let connection = open::beside(&file.path)?;
        connection.busy_timeout(Duration::ZERO)?;
        Ok(ForeignCommits {
            connection,
            store: self.clone(),
            version: None,
            writes: 0,
            foreign: None,
        })
    }
}

impl ForeignCommits {
    /// What was committed since the last look. The first look returns `Unsure`.
    pub fn look(&mut self) -> Result<Commits, StoreError> {
        let writer = &self.store.inner.writer;
        let before = writer.groups();
        let mut statement = self.connection.prepare_cached("PRAGMA data_version")?;
        let version = match statement.query_row([], |row| row.get(0)) {
            Ok(version) => version,
            Err(error) => {
                let error = StoreError::from(error);
                return match error.is_busy() {
                    true => Ok(Commits::InProgress),
                    false => Err(error),
                };
            }
        };
        let after = writer.groups();
        let known = self.version.replace(version);
        let writes = std::mem::replace(&mut self.writes, before);
        Ok(if known == Some(version) {
            Commits::None
        } else if known.is_some() && before == writes && after == writes && writes.is_multiple_of(2)
        {
            Commits::Foreign
        } else {
            Commits::Unsure
        })
    }

    /// Whether the writer's answer differs from the last one.
    pub fn is_new(&mut self, foreign: Option<i64>) -> bool {
        std::mem::replace(&mut self.foreign, foreign) != foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpenMode;

    #[tokio::test]
    async fn our_own_commits_are_told_apart() {
        let home = tempfile::tempdir().expect("a directory");
        let store =
            Store::open(home.path(), OpenMode::Create, &Default::default()).expect("a store");
        let other = Connection::open(store.path()).expect("a database");
        let mut commits = store.foreign_commits().expect("a connection");
        assert_eq!(commits.look().expect("a look"), Commits::Unsure);
        let asked = store.foreign_version().await.expect("an answer");
        assert!(commits.is_new(Some(asked)));
        assert_eq!(commits.look().expect("a look"), Commits::None);

        let write =
            "INSERT INTO sessions (id, source, started_at) VALUES (hex(randomblob(8)), 'cli', 0)";
        other.execute(write, []).expect("a commit");
        assert_eq!(commits.look().expect("a look"), Commits::Foreign);
        assert_eq!(commits.look().expect("a look"), Commits::None);

        // The answer is recorded before our own commit.
        let asked = store.foreign_version().await.expect("an answer");
        commits.is_new(Some(asked));
        let session = store.create_session("cli", None, None);
        session.await.expect("a commit");
        assert_eq!(commits.look().expect("a look"), Commits::Unsure);
        let asked = store.foreign_version().await.expect("an answer");
        assert!(!commits.is_new(Some(asked)), "it was ours");

        // Both at once.
        let session = store.create_session("cli", None, None);
        session.await.expect("a commit");
        other.execute(write, []).expect("a commit");
        assert_eq!(commits.look().expect("a look"), Commits::Unsure);
        let asked = store.foreign_version().await.expect("an answer");
        assert!(commits.is_new(Some(asked)));
    }
}
