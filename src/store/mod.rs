//! The SQLite database behind [`Store`]. No other room names rusqlite.
//!
//! One thread writes and groups commits. Other threads read. Other programs share Hermes' tables, so every change of a
//! handoff is a compare-and-set. Our own tables are called `hermesd_*`.

mod adopt;
mod agents;
mod binding;
mod busy;
mod chat_columns;
mod chat_moves;
mod checkpoint;
mod commit;
mod cursors;
mod deliveries;
mod earlier;
mod ended_chats;
mod error;
mod features;
mod foreign;
mod fulltext;
mod handoff_leases;
mod handoff_log;
mod handoffs;
mod inbound;
mod lenient;
mod lineage;
mod local;
mod look_in;
mod messages;
mod moves;
mod numbered;
mod open;
mod pairing;
mod pending;
#[cfg(test)]
mod plans;
mod prune;
mod readers;
mod rehearsal;
mod replaced;
mod retract;
mod retry;
mod routing;
mod schema;
mod search;
mod session_names;
mod sessions;
mod terminals;
mod tokenizer;
mod trigram;
mod turn_leases;
mod turns;
pub mod watch;
mod write_health;
mod writer;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use crate::metrics::Database;
use open::JournalMode;
use readers::ReadsFor;
use writer::Needs;

pub use crate::config::StoreOptions;
pub use crate::store::handoff_leases::Orphan;
pub use crate::store::pairing::Person;
pub use busy::BusyElsewhere;
pub use deliveries::{Delivery, DeliveryExtra, DeliveryState, DraftSend, NewDelivery};
pub use ended_chats::{BoundChat, ChatsEnd, ReleasedChats};
pub use error::StoreError;
pub use foreign::{Commits, ForeignCommits};
pub use fulltext::REBUILD;
pub use handoffs::{Answer, Claim, Recorded, RowState, cut_error, failure_key};
pub use inbound::{Draft, Files, Inbound, NewInbound};
pub use local::{LocalMessage, LocalThread};
pub use look_in::count_pending;
pub use messages::NewMessage;
pub use moves::{Departure, Left, REPLY};
pub use open::OpenMode;
pub use pending::Pending;
pub use prune::KEPT_FOR;
pub use replaced::Replaced;
pub(crate) use retry::retry_while_busy;
pub use routing::Bound;
pub use schema::HERMES_SCHEMA_VERSION;
pub use search::Hit;
pub use sessions::{SessionFilter, SessionMatch};
pub use terminals::{Candidate, NewTerminalSession, Terminal, TypedMessage, WorkingDirectory};
pub use turn_leases::{HeldBy, RENEW_EVERY, TurnLease};
pub use turns::{INTERRUPTED, TurnEnd, TurnStart};

/// A handle to the database, cheap to clone. Dropping the last one closes the database, if [`Store::close`] did not.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
    reads_for: ReadsFor,
    /// The turn that the writes of this handle belong to.
    turn: Option<Arc<turn_leases::Hold>>,
}

struct Inner {
    file: open::File,
    /// Hermes' name for this home's part of the routing table.
    scope: String,
    /// Hermes' name for the profile of this home.
    profile: String,
    // The readers drop before the writer, so that the writer's connection closes last and leaves no log.
    readers: readers::Readers,
    writer: writer::Writer,
    meter: Database,
    mirror: routing::Mirror,
}

impl Store {
    /// Opens the `state.db` of `home`, or creates it with [`OpenMode::Create`]. Blocks: call it off the runtime.
    pub fn open(home: &Path, mode: OpenMode, options: &StoreOptions) -> Result<Store, StoreError> {
        let path = home.join("state.db");
        let mut opened = open::open(&path, mode, options)?;
        let checkpoints = match opened.journal {
            JournalMode::Wal => {
                let beside = open::beside(&path)?;
                Some(checkpoint::Checkpoints::start(
                    &mut opened.connection,
                    beside,
                )?)
            }
            JournalMode::Rollback => None,
        };
        let (file, meter) = (open::File::new(path), Database::default());
        let journal = opened.journal;
        let writer = writer::Writer::start(
            opened,
            options.clone(),
            file.clone(),
            checkpoints,
            meter.clone(),
        );
        let profile = options.profile.clone();
        Ok(Store::new(home, profile, file, journal, writer, meter))
    }

    /// Opens a `state.db` that cannot be served, for reading. Every write fails with the reason.
    pub fn open_to_read(home: &Path, why: String) -> Result<Store, StoreError> {
        let path = home.join("state.db");
        let (journal, writer) = (
            open::journal_of(&path)?,
            writer::Writer::refusing(path.clone(), why),
        );
        let file = open::File::new(path);
        let meter = Database::default();
        Ok(Store::new(home, None, file, journal, writer, meter))
    }

    fn new(
        home: &Path,
        profile: Option<String>,
        file: open::File,
        journal: JournalMode,
        writer: writer::Writer,
        meter: Database,
    ) -> Store {
        let sessions_dir = home
            .canonicalize()
            .unwrap_or_else(|_| home.to_owned())
            .join("sessions");
        let sessions_dir = sessions_dir.canonicalize().unwrap_or(sessions_dir);
        Store {
            reads_for: ReadsFor::Daemon,
            turn: None,
            inner: Arc::new(Inner {
                readers: readers::Readers::new(file.clone(), journal),
                writer,
                meter,
                scope: sessions_dir.to_string_lossy().into_owned(),
                profile: profile.unwrap_or("default".to_owned()),
                file,
                mirror: routing::Mirror::default(),
            }),
        }
    }

    /// A handle for requests of clients. They read on threads of their own and do not delay the daemon's reads.
    pub fn for_clients(&self) -> Store {
        Store {
            reads_for: ReadsFor::Clients,
            ..self.clone()
        }
    }

    pub fn path(&self) -> &Path {
        &self.inner.file.path
    }

    /// The metrics of its writes.
    pub fn meter(&self) -> &Database {
        &self.inner.meter
    }

    fn scope(&self) -> String {
        self.inner.scope.clone()
    }

    fn profile(&self) -> String {
        self.inner.profile.clone()
    }

    /// Runs `work` in a write transaction, together with other waiting jobs. Returns when it is committed and flushed.
    /// `work` may run twice, because a failed group is tried again one by one. So it must not change its captures.
    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.writer.run(Needs::DurableCommit, work).await
    }

    /// Like [`Store::write`], but without the flush. For steps that a restart repeats or does not need: only a power
    /// cut can lose them. Use [`Store::write`] for facts that a person or a platform knows or will not repeat.
    async fn write_unflushed<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.writer.run(Needs::Commit, work).await
    }

    /// Runs `work` on a reader thread. Dropping the future ends it.
    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.readers.run(self.reads_for, work).await
    }

    /// Reads single rows by their key, on the calling thread.
    fn look<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.inner.readers.look(work)
    }

    /// Wakes the writer, because a write will follow soon.
    pub fn expect_write(&self) {
        self.inner.writer.wake();
    }

    /// Shortens the wait for locks of other programs, because the daemon stops. The next start does what is left.
    pub fn hurry(&self) {
        self.inner.writer.hurry();
    }

    /// Closes the database, as the last act of a program. Commits all waiting writes, and checkpoints the log into
    /// `state.db` unless other programs use it. Blocks for a moment. Any later call fails.
    pub fn close(&self) {
        self.inner.readers.close();
        self.inner.writer.close();
    }

    /// The time since the last write of this program.
    pub fn quiet_for(&self) -> std::time::Duration {
        self.inner.writer.quiet_for()
    }

    /// Whether another file has taken the place of the open one, such as a restored backup.
    pub fn is_replaced(&self) -> bool {
        self.inner.file.is_replaced()
    }

    /// Checks the file. `Some` describes the damage.
    pub async fn check(&self) -> Result<Option<String>, StoreError> {
        self.read(|c| {
            let mut statement = c.prepare("PRAGMA quick_check(20)")?;
            let found = statement.query_map([], |row| row.get(0))?;
            let mut found = found.collect::<Result<Vec<String>, _>>()?;
            found.retain(|problem| problem != "ok");
            if !found.is_empty() && fulltext::has_nul(c)? {
                found.retain(|problem| !fulltext::is_mismatch(problem));
            }
            Ok(found.into_iter().next())
        })
        .await
    }

    /// Checks whether the database can still be served, if another program has changed its schema.
    pub async fn check_schema(&self) -> Result<(), StoreError> {
        let cookie = self.look(open::cookie)?;
        match self.inner.writer.has_rehearsed(cookie) {
            true => Ok(()),
            false => self.write_unflushed(|_| Ok(())).await,
        }
    }

    /// Whether Hermes' index for Chinese, Japanese and Korean exists and is disabled.
    pub async fn cjk_index_is_off(&self) -> Result<bool, StoreError> {
        self.read(tokenizer::is_off).await
    }

    /// A number that changes when another program or connection has committed.
    pub async fn foreign_version(&self) -> Result<i64, StoreError> {
        self.inner.writer.data_version().await
    }
}
