//! A Hermes gateway on our home: the records that name its process, and the lock file that it shares with us.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde_json::Value;

use crate::process_identity::start_time;

const LOCK: &str = "gateway.lock";
const PID_FILE: &str = "gateway.pid";
const STATE: &str = "gateway_state.json";
/// Hermes writes this kind into its records.
const KIND: &str = "hermes-gateway";

/// Files of a gateway have names that begin so.
pub(super) const PREFIX: &str = "gateway";

/// Hermes' own lock file, held by us. Hermes may unlink it at any time: it believes the record in the file, not the lock.
pub(super) struct GatewayLock {
    path: PathBuf,
    file: Flock<File>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LockError {
    /// Another process holds the lock.
    #[error("another process holds it")]
    Held,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl GatewayLock {
    pub(super) fn take(home: &Path) -> Result<GatewayLock, LockError> {
        let path = home.join(LOCK);
        let file = lock(&path)?;
        Ok(GatewayLock { path, file })
    }

    /// Whether the file that we hold is still the one in the home.
    pub(super) fn is_in_place(&self) -> bool {
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let there = std::fs::metadata(&self.path).map(identity);
        let held = self.file.metadata().map(identity);
        matches!((there, held), (Ok(there), Ok(held)) if there == held)
    }

    /// Takes the lock on whatever file is there now.
    pub(super) fn take_again(&mut self) -> Result<(), LockError> {
        self.file = lock(&self.path)?;
        Ok(())
    }
}

fn lock(path: &Path) -> Result<Flock<File>, LockError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| LockError::Held)
}

/// The process id of a Hermes gateway that lives on this home, as its files tell.
pub fn live_gateway(home: &Path) -> Option<u64> {
    recorded_state(home).or_else(|| recorded_process(home))
}

/// The living process that the lock file names. It counts only where another process has the lock: the file outlives it.
pub(super) fn recorded_holder(home: &Path) -> Option<u64> {
    living(&read(&home.join(LOCK))?)
}

/// `gateway_state.json` outlives its gateway and says how it ended.
fn recorded_state(home: &Path) -> Option<u64> {
    let state = read(&home.join(STATE))?;
    match state["gateway_state"].as_str() {
        None | Some("stopped" | "startup_failed") => None,
        Some(_) => living(&state),
    }
}

/// A gateway that was killed leaves its `gateway.pid`, so this one has to have the start time of its process.
fn recorded_process(home: &Path) -> Option<u64> {
    let record = read(&home.join(PID_FILE))?;
    let complete = record["kind"] == KIND && record["start_time"].is_u64();
    complete.then(|| living(&record)).flatten()
}

fn living(record: &Value) -> Option<u64> {
    let pid = record["pid"].as_u64()?;
    let started = start_time(u32::try_from(pid).ok()?)?;
    // The recorded start time tells a gateway from another process that got its process id.
    let recorded = record["start_time"].as_u64();
    recorded
        .is_none_or(|recorded| recorded == started)
        .then_some(pid)
}

fn read(path: &Path) -> Option<Value> {
    let mut text = String::new();
    // A record has a few hundred bytes.
    File::open(path)
        .ok()?
        .take(1 << 20)
        .read_to_string(&mut text)
        .ok()?;
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_counts_while_its_process_lives() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, record: &Value| {
            std::fs::write(home.path().join(name), record.to_string()).unwrap();
        };
        let pid = std::process::id();
        let started = start_time(pid).unwrap();
        let alive = Some(u64::from(pid));
        let record = json!({"pid": pid, "kind": KIND, "start_time": started});
        let reused = json!({"pid": pid, "kind": KIND, "start_time": started + 1});
        write(LOCK, &record);
        assert_eq!(live_gateway(home.path()), None, "the lock may be free");
        assert_eq!(recorded_holder(home.path()), alive);
        write(LOCK, &reused);
        assert_eq!(recorded_holder(home.path()), None);
        write(PID_FILE, &record);
        assert_eq!(live_gateway(home.path()), alive);
        let others = [
            reused,
            json!({"pid": pid, "kind": "other", "start_time": started}),
            json!({"pid": pid, "kind": KIND}),
            json!(pid),
        ];
        for other in others {
            write(PID_FILE, &other);
            assert_eq!(live_gateway(home.path()), None, "{other}");
        }
        for (state, alive) in [("running", true), ("starting", true), ("stopped", false)] {
            write(
                STATE,
                &json!({"pid": pid, "gateway_state": state, "start_time": started}),
            );
            assert_eq!(live_gateway(home.path()).is_some(), alive, "{state}");
        }
    }

    #[test]
    fn a_lock_file_that_was_exchanged_is_noticed_and_can_be_taken_again() {
        let home = tempfile::tempdir().unwrap();
        let mut lock = GatewayLock::take(home.path()).unwrap();
        assert!(lock.is_in_place());
        std::fs::remove_file(home.path().join(LOCK)).unwrap();
        assert!(!lock.is_in_place());
        let other = GatewayLock::take(home.path()).unwrap();
        assert!(!lock.is_in_place());
        assert!(matches!(lock.take_again(), Err(LockError::Held)));
        drop(other);
        lock.take_again().unwrap();
        assert!(lock.is_in_place());
    }
}
