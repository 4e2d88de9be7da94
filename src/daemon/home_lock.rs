//! One daemon a home. The lock is the kernel's, so it cannot be left behind; the file names who holds it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

use super::DaemonError;
use super::identity::start_time;
use crate::config::Config;
use crate::private;

pub struct HomeLock {
    own: Flock<File>,
    /// Hermes' gateway takes this one for its whole life: while we hold it, it will not start beside us.
    _gateway: Flock<File>,
}

impl HomeLock {
    /// Refuses when another hermesd or a Python gateway has the home.
    pub fn take(config: &Config) -> Result<HomeLock, DaemonError> {
        let home = &config.home;
        private::directory(home).map_err(|e| {
            DaemonError::Config(format!("cannot make the home {}: {e}", home.display()))
        })?;
        let own = lock(&config.lock_file())?.map_err(|holder| {
            let pid = holder["pid"]
                .as_u64()
                .map_or("another process".into(), |pid| {
                    format!("hermesd with process id {pid}")
                });
            DaemonError::HomeTaken(format!(
                "{pid} serves {} already: stop it first, or name another home with --home",
                home.display()
            ))
        })?;
        let gateway = lock(&home.join("gateway.lock"))?
            .map_err(|holder| gateway_lives(home, holder["pid"].as_u64()))?;
        if let Some(pid) = recorded_gateway(home) {
            return Err(gateway_lives(home, Some(pid)));
        }
        let lock = HomeLock {
            own,
            _gateway: gateway,
        };
        lock.write(&json!({"pid": std::process::id()}));
        Ok(lock)
    }

    /// Lets clients that know the home find the socket.
    pub fn record_socket(&self, socket: &Path) {
        self.write(&json!({"pid": std::process::id(), "socket": socket}));
    }

    fn write(&self, record: &Value) {
        let mut file: &File = &self.own;
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(record.to_string().as_bytes()));
        if let Err(error) = written {
            tracing::warn!(%error, "the lock file could not be written; clients need --socket");
        }
    }
}

/// The socket of the daemon that serves this home, if one does.
pub fn recorded_socket(home: &Path) -> Option<PathBuf> {
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(home.join("hermesd.lock")).ok()?).ok()?;
    record["socket"].as_str().map(PathBuf::from)
}

/// The outer error is one of the file system, the inner one what the holder wrote into the file.
fn lock(path: &Path) -> Result<Result<Flock<File>, Value>, DaemonError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let mut file =
        opened.map_err(|e| DaemonError::Config(format!("cannot open {}: {e}", path.display())))?;
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    Ok(Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| serde_json::from_str(&text).unwrap_or_default()))
}

/// A gateway that `gateway_state.json` names and that lives, for the case that it runs without its lock.
pub fn recorded_gateway(home: &Path) -> Option<u64> {
    let state: Value =
        serde_json::from_str(&std::fs::read_to_string(home.join("gateway_state.json")).ok()?)
            .ok()?;
    if matches!(
        state["gateway_state"].as_str(),
        None | Some("stopped" | "startup_failed")
    ) {
        return None;
    }
    let pid = state["pid"].as_u64()?;
    let started = start_time(u32::try_from(pid).ok()?)?;
    // The recorded start time tells a gateway from a stranger that got its process id.
    let same = state["start_time"]
        .as_u64()
        .is_none_or(|recorded| recorded == started);
    same.then_some(pid)
}

fn gateway_lives(home: &Path, pid: Option<u64>) -> DaemonError {
    let who = pid.map_or("a Hermes gateway".into(), |pid| {
        format!("a Hermes gateway (process id {pid})")
    });
    DaemonError::HomeTaken(format!(
        "{who} serves {}: both would claim the same handoffs. Stop it with `hermes gateway stop`, then start hermesd",
        home.display()
    ))
}
