//! Hermes' turn lease: each conversation has one turn at a time, across all programs that share the database.
//!
//! A row of `session_turn_leases` names the program that has a turn. Its key is the root of the conversation. The
//! transaction that begins a turn takes the lease. Every write of the turn checks it. The transaction that ends the
//! turn releases it. Files of older Hermes versions have no such table. There a turn takes no lease.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use rusqlite::{Connection, OptionalExtension, params};
use tokio_util::sync::CancellationToken;

use super::features::{self, Feature};
use super::{Store, StoreError, lenient, lineage, turns};
use crate::clock;
use crate::domain::TranscriptWriter;
use crate::process_identity;

/// How long a lease lasts without renewal, in seconds.
const TTL: f64 = 300.0;
/// How often a turn renews its lease.
pub const RENEW_EVERY: Duration = Duration::from_secs(60);

/// Marks holders that are daemons.
const DAEMON: &str = ":hermesd:";

/// Another program that has a turn of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldBy {
    pub pid: Option<i32>,
    /// The platform of its turn, if the holder names it.
    pub platform: Option<String>,
    /// When the turn began.
    pub since: f64,
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "process {pid}")?,
            None => f.write_str("a process without a known id")?,
        }
        if let Some(platform) = &self.platform {
            write!(f, " ({platform})")?;
        }
        let age = clock::age((clock::now() - self.since).max(0.0));
        write!(f, " has been in a turn for {age}")
    }
}

/// The lease of one turn. Dropping it releases the lease.
pub struct TurnLease {
    store: Store,
    session_id: String,
    hold: Arc<Hold>,
}

/// The state of a lease, shared with the transactions of its turn.
#[derive(Debug)]
pub(super) struct Hold {
    /// `None` if the agent takes the lease itself. Then the turn only checks that no other program has it.
    holder: Option<String>,
    state: AtomicU8,
    lost: CancellationToken,
}

/// Nothing is taken yet.
const OPEN: u8 = 0;
/// The turn may continue without a row of ours.
const CLEAR: u8 = 1;
/// The row is ours.
const TAKEN: u8 = 2;

impl Hold {
    fn set_state(&self, state: u8) {
        self.state.store(state, Ordering::Release);
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    /// The holder, if the row is ours.
    fn taken(&self) -> Option<&str> {
        let holder = self.holder.as_deref();
        holder.filter(|_| self.state() == TAKEN)
    }
}

impl TurnLease {
    /// The store for the writes of this turn. They take, check and release the lease.
    pub fn store(&self) -> Store {
        Store {
            turn: Some(self.hold.clone()),
            ..self.store.clone()
        }
    }

    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The writer of the turn's rows. An agent that writes them takes the lease itself.
    pub fn transcript_writer(&self) -> TranscriptWriter {
        match self.hold.holder {
            Some(_) => TranscriptWriter::Daemon,
            None => TranscriptWriter::Agent,
        }
    }

    /// Whether the turn could begin at the last check.
    pub fn is_begun(&self) -> bool {
        self.hold.state() != OPEN
    }

    /// Takes the lease in a transaction of its own, if it is not taken yet.
    pub async fn take(&self) -> Result<(), StoreError> {
        if self.is_begun() || !self.store.has_turn_leases()? {
            return Ok(());
        }
        let (id, hold) = (self.session_id.clone(), self.hold.clone());
        self.store
            .write_unflushed(move |c| take(c, &id, Some(&hold)))
            .await
    }

    /// The other program that has the conversation now.
    pub fn held_by(&self) -> Result<Option<HeldBy>, StoreError> {
        self.store.look(|c| match enabled(c)? {
            true => foreign(c, &self.session_id, Some(&self.hold)),
            false => Ok(None),
        })
    }

    /// Renews the lease, and returns when another program has taken over the conversation.
    pub async fn lost(&self) {
        loop {
            tokio::select! {
                () = self.hold.lost.cancelled() => return,
                () = tokio::time::sleep(RENEW_EVERY) => {}
            }
            match self.renew().await {
                Ok(()) | Err(StoreError::TurnLost) => {}
                Err(error) => tracing::warn!(%error, "cannot renew the turn lease; will retry"),
            }
        }
    }

    async fn renew(&self) -> Result<(), StoreError> {
        if self.hold.taken().is_none() {
            return Ok(());
        }
        let (id, hold) = (self.session_id.clone(), self.hold.clone());
        self.store
            .write_unflushed(move |c| renew(c, &id, &hold))
            .await
    }
}

impl Drop for TurnLease {
    fn drop(&mut self) {
        if self.hold.taken().is_some() {
            let (id, hold) = (self.session_id.clone(), self.hold.clone());
            let release = move |c: &Connection| release(c, &id, Some(&hold));
            self.store.inner.writer.post(release);
        }
    }
}

impl Store {
    /// The lease for a turn that is about to begin.
    pub fn turn_lease(
        &self,
        session_id: &str,
        platform: &str,
        transcript_writer: TranscriptWriter,
    ) -> TurnLease {
        let holder =
            (transcript_writer == TranscriptWriter::Daemon).then(|| holder(session_id, platform));
        TurnLease {
            store: self.clone(),
            session_id: session_id.to_owned(),
            hold: Arc::new(Hold {
                holder,
                state: AtomicU8::new(OPEN),
                lost: CancellationToken::new(),
            }),
        }
    }

    /// Whether the database has turn leases.
    pub fn has_turn_leases(&self) -> Result<bool, StoreError> {
        self.look(enabled)
    }

    /// Records that the turn of this store has ended, which has released its lease.
    pub(super) fn turn_over(&self) {
        if let Some(hold) = &self.turn {
            hold.set_state(CLEAR);
        }
    }
}

/// Takes and releases a lease, to check that the table accepts our rows.
pub(super) fn rehearse(c: &Connection, session_id: &str) -> Result<(), StoreError> {
    let hold = Hold {
        holder: Some(holder(session_id, "local")),
        state: AtomicU8::new(OPEN),
        lost: CancellationToken::new(),
    };
    take(c, session_id, Some(&hold))?;
    check(c, session_id, Some(&hold))?;
    release(c, session_id, Some(&hold))
}

fn enabled(c: &Connection) -> Result<bool, StoreError> {
    features::has(c, Feature::TurnLeases)
}

/// Takes the lease at the beginning of a turn. [`StoreError::TurnHeld`] if another program has it.
pub(super) fn take(
    c: &Connection,
    session_id: &str,
    hold: Option<&Hold>,
) -> Result<(), StoreError> {
    let Some(hold) = hold else { return Ok(()) };
    if !enabled(c)? {
        hold.set_state(CLEAR);
        return Ok(());
    }
    if let Some(by) = foreign(c, session_id, Some(hold))? {
        return Err(StoreError::TurnHeld(by));
    }
    let conversation = lineage::root(c, session_id)?;
    let Some(holder) = &hold.holder else {
        hold.set_state(CLEAR);
        return Ok(());
    };
    // If a row is left, it is ours, expired, or of a dead process.
    let now = clock::now();
    c.prepare_cached(
        "INSERT INTO session_turn_leases (conversation_id, holder, acquired_at, expires_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (conversation_id) DO UPDATE SET holder = ?2, acquired_at = ?3, expires_at = ?4",
    )?
    .execute(params![conversation, holder, now, now + TTL])?;
    hold.set_state(TAKEN);
    Ok(())
}

/// The same for a turn that begins later and can wait then.
pub(super) fn take_if_free(
    c: &Connection,
    session_id: &str,
    hold: Option<&Hold>,
) -> Result<(), StoreError> {
    match take(c, session_id, hold) {
        Err(StoreError::TurnHeld(_)) => Ok(()),
        taken => taken,
    }
}

/// Checks before a write of the turn that the lease is still ours. Renews it if it has expired.
pub(super) fn check(
    c: &Connection,
    session_id: &str,
    hold: Option<&Hold>,
) -> Result<(), StoreError> {
    let Some((hold, holder)) = hold.and_then(|hold| Some((hold, hold.taken()?))) else {
        return Ok(());
    };
    let row = row(c, &lineage::root(c, session_id)?)?;
    match row.filter(|row| row.holder == holder) {
        None => {
            hold.lost.cancel();
            Err(StoreError::TurnLost)
        }
        Some(row) if row.expires_at <= clock::now() => renew(c, session_id, hold),
        Some(_) => Ok(()),
    }
}

fn renew(c: &Connection, session_id: &str, hold: &Hold) -> Result<(), StoreError> {
    let Some(holder) = hold.taken() else {
        return Ok(());
    };
    let conversation = lineage::root(c, session_id)?;
    let renewed = c
        .prepare_cached(
            "UPDATE session_turn_leases SET expires_at = ?3 WHERE conversation_id = ?1 AND holder = ?2",
        )?
        .execute(params![conversation, holder, clock::now() + TTL])?;
    if renewed == 0 {
        hold.lost.cancel();
        return Err(StoreError::TurnLost);
    }
    Ok(())
}

/// Releases the lease, if it is still ours. The caller calls [`Store::turn_over`] after the commit.
pub(super) fn release(
    c: &Connection,
    session_id: &str,
    hold: Option<&Hold>,
) -> Result<(), StoreError> {
    let Some(holder) = hold.and_then(Hold::taken) else {
        return Ok(());
    };
    let conversation = lineage::root(c, session_id)?;
    c.prepare_cached("DELETE FROM session_turn_leases WHERE conversation_id = ?1 AND holder = ?2")?
        .execute([conversation.as_str(), holder])?;
    Ok(())
}

/// The other program that has a turn of this conversation. `None` if the file has no leases.
pub(super) fn held_by(c: &Connection, session_id: &str) -> Result<Option<HeldBy>, StoreError> {
    match enabled(c)? {
        true => foreign(c, session_id, None),
        false => Ok(None),
    }
}

struct LeaseRow {
    holder: String,
    acquired_at: f64,
    expires_at: f64,
}

fn row(c: &Connection, conversation: &str) -> Result<Option<LeaseRow>, StoreError> {
    let mut statement = c.prepare_cached(
        "SELECT holder, acquired_at, expires_at FROM session_turn_leases WHERE conversation_id = ?1",
    )?;
    let row = statement.query_row([conversation], |row| {
        Ok(LeaseRow {
            holder: lenient::text(row, 0)?.unwrap_or_default(),
            acquired_at: lenient::seconds(row, 1)?.unwrap_or_default(),
            expires_at: lenient::seconds(row, 2)?.unwrap_or_default(),
        })
    });
    Ok(row.optional()?)
}

/// The live holder of a session's conversation, unless it is the turn of `hold` or a process of ours.
fn foreign(
    c: &Connection,
    session_id: &str,
    hold: Option<&Hold>,
) -> Result<Option<HeldBy>, StoreError> {
    let Some(row) = row(c, &lineage::root(c, session_id)?)? else {
        return Ok(None);
    };
    let own = hold.and_then(|hold| hold.holder.as_deref());
    if own == Some(row.holder.as_str()) || row.expires_at <= clock::now() {
        return Ok(None);
    }
    let holder = Holder::parse(&row.holder);
    // A turn that takes the lease waits for an agent of ours. Other callers do not count our agents.
    let is_over = holder.is_dead()
        || holder.is_this_daemon()
        || (holder.is_gone_here() && turns::is_left_to_agent(c, session_id)?);
    if is_over || (own.is_none() && holder.is_descendant()) {
        return Ok(None);
    }
    Ok(Some(HeldBy {
        pid: holder.pid,
        platform: holder.platform.map(str::to_owned),
        since: row.acquired_at,
    }))
}

/// The holder's name for one turn of this process.
fn holder(session_id: &str, platform: &str) -> String {
    let pid = std::process::id();
    let namespace = PID_NAMESPACE.map(|inode| format!(":pidns={inode}"));
    let (namespace, turn) = (namespace.unwrap_or_default(), fastrand::u64(..));
    format!("pid={pid}{namespace}:turn={session_id}{DAEMON}{turn:016x}:platform={platform}")
}

/// The namespace of our process ids.
static PID_NAMESPACE: LazyLock<Option<u64>> =
    LazyLock::new(|| Some(std::fs::metadata("/proc/self/ns/pid").ok()?.ino()));

/// Whether a text of another program can be shown as the name of a platform.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=40).contains(&text.len()) && text.chars().all(is_plain)
}

/// The parsed text of a holder.
struct Holder<'a> {
    pid: Option<i32>,
    namespace: Option<u64>,
    platform: Option<&'a str>,
    is_daemon: bool,
}

impl Holder<'_> {
    fn parse(text: &str) -> Holder<'_> {
        let part = |name: &str| text.split(':').find_map(|part| part.strip_prefix(name));
        let platform = text.rsplit(':').next();
        Holder {
            pid: part("pid=")
                .and_then(|pid| pid.parse().ok())
                .filter(|pid| *pid > 0),
            namespace: part("pidns=").and_then(|inode| inode.parse().ok()),
            platform: platform
                .and_then(|part| part.strip_prefix("platform="))
                .filter(|platform| is_name(platform)),
            is_daemon: text.contains(DAEMON),
        }
    }

    fn is_ours(&self, pid: i32) -> bool {
        u32::try_from(pid) == Ok(std::process::id())
    }

    /// Whether its process is certainly gone. Hermes 0.20 does not name the namespace of a process id, and its process
    /// may be in a container. Then no process on this machine may have that id in any namespace.
    fn is_dead(&self) -> bool {
        match (self.namespace, self.pid) {
            (Some(namespace), Some(_)) => {
                Some(namespace) == *PID_NAMESPACE && self.is_missing_here()
            }
            (None, Some(pid)) => self.is_missing_here() && process_identity::is_nowhere(pid),
            _ => false,
        }
    }

    /// Whether it may be an agent of ours that has ended. Agents are in our own namespace.
    fn is_gone_here(&self) -> bool {
        self.namespace.is_none_or(|of| Some(of) == *PID_NAMESPACE) && self.is_missing_here()
    }

    fn is_missing_here(&self) -> bool {
        self.pid.is_some_and(|pid| {
            let is_gone = kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH);
            !self.is_ours(pid) && (is_gone || process_identity::is_zombie(pid))
        })
    }

    /// Whether it is a turn of this process, or of an earlier daemon with the same process id. Turns of this process
    /// wait for each other in `turn`, so such a row is stale.
    fn is_this_daemon(&self) -> bool {
        let same_process = self.pid.is_some_and(|pid| self.is_ours(pid));
        self.is_daemon && same_process && self.namespace == *PID_NAMESPACE
    }

    /// Whether this process started it, as an agent.
    fn is_descendant(&self) -> bool {
        let known_elsewhere = self.namespace.is_some() && self.namespace != *PID_NAMESPACE;
        let pid = self.pid.and_then(|pid| u32::try_from(pid).ok());
        let own = std::process::id();
        !known_elsewhere
            && pid.is_some_and(|pid| process_identity::ancestors(pid).any(|pid| pid == own))
    }
}
