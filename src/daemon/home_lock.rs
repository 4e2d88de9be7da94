//! Ensures that one daemon serves a home. The kernel releases the lock with the process. The file names the holder and
//! its socket.

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

/// A program that only checks whether the lock is free holds it for a shorter time than this.
const LONGEST_CHECK: Duration = Duration::from_millis(200);

pub struct HomeLock {
    own: Flock<File>,
    /// A Hermes gateway holds this lock as long as it runs.
    pub(super) gateway: GatewayLock,
}

impl HomeLock {
    /// Fails if another hermesd or a Hermes gateway serves the home.
    pub fn take(config: &Config) -> Result<HomeLock, DaemonError> {
        let home = &config.home;
        private_files::directory(home).map_err(|e| {
            DaemonError::Config(format!("cannot create the home {}: {e}", home.display()))
        })?;
        let own = lock(&config.lock_file())?.map_err(|holder| {
            let pid = holder["pid"]
                .as_u64()
                .map_or("another process".into(), |pid| {
                    format!("hermesd with process id {pid}")
                });
            DaemonError::HomeTaken(format!(
                "{pid} already serves {}: stop it first, or choose another home with --home",
                home.display()
            ))
        })?;
        let gateway = lock_gateway(home)?;
        let lock = HomeLock { own, gateway };
        lock.write(&json!({"pid": std::process::id()}));
        Ok(lock)
    }

    /// Records the path of the socket, so that clients find it.
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
            tracing::warn!(%error, "cannot write hermesd.lock, clients need --socket");
        }
    }
}

/// The outer error is one of the file system. The inner error is the record of the lock's holder.
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

/// Hermes' programs hold the lock for an instant when they check whether a gateway runs. Then we try again.
fn lock_gateway(home: &Path) -> Result<GatewayLock, DaemonError> {
    let begun = Instant::now();
    loop {
        if let Some(pid) = live_gateway(home) {
            return Err(gateway_runs(home, Some(pid)));
        }
        match GatewayLock::take(home) {
            Ok(lock) => return Ok(lock),
            Err(LockError::Held) => {
                let holder = recorded_holder(home);
                if holder.is_some() || begun.elapsed() > LONGEST_CHECK {
                    return Err(gateway_runs(home, holder));
                }
                std::thread::sleep(LONGEST_CHECK / 10);
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

fn gateway_runs(home: &Path, pid: Option<u64>) -> DaemonError {
    DaemonError::HomeTaken(format!(
        "{} serves {}, and both would claim the same handoffs: stop it with `hermes gateway stop`, then start hermesd",
        gateway_named(pid),
        home.display()
    ))
}

/// The error of a daemon that stopped because a gateway started on its home.
pub(super) fn gateway_took_over(home: &Path, pid: Option<u64>) -> DaemonError {
    DaemonError::HomeTaken(format!(
        "hermesd stopped because {} started on {}, and both would claim the same handoffs: to return to hermesd, run `hermes gateway stop` and start hermesd",
        gateway_named(pid),
        home.display()
    ))
}

pub(super) fn gateway_named(pid: Option<u64>) -> String {
    pid.map_or("a Hermes gateway".into(), |pid| {
        format!("a Hermes gateway (process id {pid})")
    })
}
