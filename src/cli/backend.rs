//! Where answers come from: the daemon when one serves this home, else `state.db` itself.

use std::path::PathBuf;

use crate::client::{Client, ClientError};
use crate::config::{Config, paths};
use crate::home_files::{live_gateway, recorded_socket};
use crate::store::{OpenMode, Store, StoreError};

use super::{CliError, output};

pub(super) enum Backend {
    Daemon(Box<Client>),
    Direct(Store),
}

impl Backend {
    pub(super) async fn open(
        config: &Config,
        socket_is_explicit: bool,
    ) -> Result<Backend, CliError> {
        if let Some(client) = find_daemon(config, socket_is_explicit).await? {
            return Ok(Backend::Daemon(Box::new(client)));
        }
        Self::direct(config)
    }

    /// For commands that mostly read: a database that cannot be served can be read all the same.
    pub(super) async fn open_to_read(
        config: &Config,
        socket_is_explicit: bool,
    ) -> Result<Backend, CliError> {
        if let Some(client) = find_daemon(config, socket_is_explicit).await? {
            return Ok(Backend::Daemon(Box::new(client)));
        }
        match Store::open(&config.home, OpenMode::Existing, &config.store) {
            Err(StoreError::Unservable { path, why }) => {
                output::to_stderr(&format!(
                    "warning: {} can only be read: {why}",
                    path.display()
                ));
                Ok(Backend::Direct(Store::open_to_read(&config.home, why)?))
            }
            opened => Ok(Backend::Direct(opened?)),
        }
    }

    /// The database without a daemon; it has to be there already.
    pub(super) fn direct(config: &Config) -> Result<Backend, CliError> {
        Ok(Backend::Direct(Store::open(
            &config.home,
            OpenMode::Existing,
            &config.store,
        )?))
    }

    /// For what only a daemon can do.
    pub(super) fn daemon(&self) -> Result<&Client, CliError> {
        match self {
            Backend::Daemon(client) => Ok(client),
            Backend::Direct(_) => Err(CliError::NoDaemon {
                message: "this needs a running daemon, and none serves this home".into(),
            }),
        }
    }
}

/// The daemon that serves this home. A socket that leads to another home's daemon does not count, unless it was named.
pub(super) async fn find_daemon(
    config: &Config,
    socket_is_explicit: bool,
) -> Result<Option<Client>, CliError> {
    let mut candidates: Vec<PathBuf> = Vec::new();
    // Where a Hermes gateway serves the home, a connection to the service manager's socket would only start a daemon that
    // refuses to run, again and again.
    if socket_is_explicit {
        candidates.push(config.control.socket.clone());
    } else if live_gateway(&config.home).is_none() {
        candidates.extend(recorded_socket(&config.home));
        candidates.push(config.control.socket.clone());
        candidates.extend(config.control.sticky_socket.clone());
    }
    if !socket_is_explicit {
        candidates.push(paths::SYSTEM_SOCKET.into());
    }
    for path in candidates {
        match Client::connect(&path).await {
            Ok(client) => {
                let same_home = client.server().home == config.home.display().to_string();
                // Whoever names no home at all takes the system's daemon too.
                if same_home || socket_is_explicit || !config.home_is_explicit {
                    return Ok(Some(client));
                }
            }
            // Nothing else will do for a socket that was named, and the reason tells whether it is there at all.
            Err(error) if socket_is_explicit => return Err(error.into()),
            Err(ClientError::NoDaemon { .. } | ClientError::Lost) => {}
            Err(refused) => return Err(refused.into()),
        }
    }
    Ok(None)
}
