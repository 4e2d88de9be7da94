//! One daemon a home. The lock is the kernel's, so it cannot be left behind; the file names who holds it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use serde_json::{Value, json};

use super::DaemonError;
use super::gateway::{GatewayLock, LockError};
use crate::config::Config;
use crate::home_files::{live_gateway, recorded_holder};
use crate::private_files;

/// Longer than any program holds the lock that only looks whether it is free.
const ONLY_LOOKED: Duration = Duration::from_millis(200);

pub struct HomeLock {
    own: Flock<File>,
    /// A Hermes gateway takes this one for its whole life.
    pub(super) gateway: GatewayLock,
}

impl HomeLock {
    /// Refuses when another hermesd or a Python gateway has the home.
    pub fn take(config: &Config) -> Result<HomeLock, DaemonError> {
        let home = &config.home;
        private_files::directory(home).map_err(|e| {
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
        let gateway = lock_gateway(home)?;
        let lock = HomeLock { own, gateway };
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

/// Hermes' programs hold the lock for an instant when they look whether a gateway runs: then we try again.
fn lock_gateway(home: &Path) -> Result<GatewayLock, DaemonError> {
    let begun = Instant::now();
    loop {
        if let Some(pid) = live_gateway(home) {
            return Err(gateway_lives(home, Some(pid)));
        }
        match GatewayLock::take(home) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held) => {
                let holder = recorded_holder(home);
                if holder.is_some() || begun.elapsed() > ONLY_LOOKED {
                    return Err(gateway_lives(home, holder));
                }
                std::thread::sleep(ONLY_LOOKED / 10);
            }
            Err(LockError::Io(error)) => {
                let path = home.join("gateway.lock");
                return Err(DaemonError::Config(format!(
                    "cannot open {}: {error}",
                    path.display()
                )));
            }
        }
    }
}

fn gateway_lives(home: &Path, pid: Option<u64>) -> DaemonError {
    DaemonError::HomeTaken(format!(
        "{} serves {}: both would claim the same handoffs. Stop it with `hermes gateway stop`, then start hermesd",
        gateway_named(pid),
        home.display()
    ))
}

/// A gateway has started on the home that we serve.
pub(super) fn gateway_took_over(home: &Path, pid: Option<u64>) -> DaemonError {
    DaemonError::HomeTaken(format!(
        "{} has started on {}, so hermesd has stopped: both would claim the same handoffs. To go back, stop it with `hermes gateway stop` and start hermesd",
        gateway_named(pid),
        home.display()
    ))
}

pub(super) fn gateway_named(pid: Option<u64>) -> String {
    pid.map_or("a Hermes gateway".into(), |pid| {
        format!("a Hermes gateway (process id {pid})")
    })
}
