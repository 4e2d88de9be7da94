//! Making the listening socket: handed over by systemd, or bound by ourselves with its mode set before anyone can connect.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use nix::unistd::{Gid, chown};

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("another program ({0}) answers on {1}: stop it, or set control.socket to another path")]
    Taken(String, String),
    #[error("{0} exists and is not a socket: remove it, or set control.socket to another path")]
    NotASocket(String),
    #[error("cannot listen on {path}: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
}

/// A socket that systemd has opened for us, if it has, and where it is.
pub fn activated() -> std::io::Result<Option<(Listener, Option<PathBuf>)>> {
    let Some(listener) = listenfd::ListenFd::from_env().take_unix_listener(0)? else {
        return Ok(None);
    };
    listener.set_nonblocking(true)?;
    let path = listener.local_addr()?.as_pathname().map(Path::to_owned);
    let listener = interprocess::os::unix::uds_local_socket::tokio::Listener::try_from(
        OwnedFd::from(listener),
    )?;
    Ok(Some((Listener::UdSocket(listener), path)))
}

/// Binds `path`, replacing the leftover of a daemon that died.
pub fn bind(path: &Path, group: Option<Gid>) -> Result<Listener, ListenError> {
    let shown = path.display().to_string();
    let failed = |source| ListenError::Io {
        path: shown.clone(),
        source,
    };
    if let Some(directory) = path.parent() {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(failed)?;
    }
    clear_leftover(path)?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    let name = path.to_fs_name::<GenericFilePath>().map_err(failed)?;
    let listener = ListenerOptions::new()
        .name(name)
        .mode(mode)
        .create_tokio()
        .map_err(failed)?;
    if let Some(group) = group {
        chown(path, None, Some(group)).map_err(|e| failed(e.into()))?;
        if let Some(directory) = path.parent() {
            // Members have to be able to reach the socket.
            let metadata = directory.metadata().map_err(failed)?;
            let mode = metadata.permissions().mode() | 0o011;
            let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode));
        }
    }
    Ok(listener)
}

fn clear_leftover(path: &Path) -> Result<(), ListenError> {
    let shown = path.display().to_string();
    let failed = |source| ListenError::Io {
        path: shown.clone(),
        source,
    };
    let metadata = match path.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(_) => return Ok(()),
    };
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket(shown));
    }
    match UnixStream::connect(path) {
        Ok(stream) => Err(ListenError::Taken(peer_name(&stream), shown)),
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        // Somebody else's, or not a stream: whatever it is, it is not what a daemon of ours left.
        Err(e) => Err(failed(e)),
    }
}

fn peer_name(stream: &UnixStream) -> String {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    match getsockopt(stream, PeerCredentials) {
        Ok(peer) => format!("process {}", peer.pid()),
        Err(_) => "an unknown process".into(),
    }
}
