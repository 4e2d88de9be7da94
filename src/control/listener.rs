//! Opens the listening socket: passed by systemd, or bound here with its mode set before a client can connect.

use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use interprocess::local_socket::tokio::Listener;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use interprocess::os::unix::local_socket::ListenerOptionsExt;
use nix::unistd::{Gid, chown, geteuid};

use crate::private_files;
use crate::private_files::home_of_person;

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("another program ({0}) answers on {1}: stop it, or set control.socket to another path")]
    Taken(String, String),
    #[error("{0} exists and is not a socket: remove it, or set control.socket to another path")]
    NotASocket(String),
    #[error(
        "members of control.group cannot reach {socket} without access to the home {home}: set control.socket to a path outside of it, such as /run/hermesd/control.sock"
    )]
    InHome { socket: String, home: String },
    #[error(
        "members of control.group cannot reach {socket}: {directory} is closed to them, and others use it too: set control.socket to a path in a directory of its own"
    )]
    OutOfReach { socket: String, directory: String },
    #[error("cannot listen on {path}: {source}")]
    Io {
        path: String,
        source: std::io::Error,
    },
}

/// The socket that systemd passed, if it did, and its path.
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

/// Binds `path`, and replaces the socket of a daemon that died. A group gets access to the socket, not to the home.
pub fn bind(path: &Path, group: Option<Gid>, home: &Path) -> Result<Listener, ListenError> {
    let shown = path.display().to_string();
    let failed = |source| ListenError::Io {
        path: shown.clone(),
        source,
    };
    let directory = path.parent().unwrap_or(Path::new("/"));
    private_files::directory(directory).map_err(failed)?;
    if let Some(group) = group {
        let real = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
        let mut homes = home_of_person();
        if real(directory).starts_with(real(home))
            || homes.any(|home| real(&home) == real(directory))
        {
            return Err(ListenError::InHome {
                socket: shown,
                home: home.display().to_string(),
            });
        }
        grant_traversal(directory, group, path)?;
    }
    clear_leftover(path)?;
    let name = path.to_fs_name::<GenericFilePath>().map_err(failed)?;
    // Only our own user has access until the group is set.
    let listener = ListenerOptions::new()
        .name(name)
        .mode(private_files::FILE)
        .create_tokio()
        .map_err(failed)?;
    if let Some(group) = group {
        chown(path, None, Some(group)).map_err(|e| failed(e.into()))?;
        // Set after the creation, so that the umask has no effect.
        std::fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    }
    Ok(listener)
}

/// Lets the members of a group traverse the directory of the socket. No other user gains access.
fn grant_traversal(directory: &Path, group: Gid, socket: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Io {
        path: directory.display().to_string(),
        source,
    };
    let facts = directory.metadata().map_err(failed)?;
    let mode = facts.permissions().mode() & 0o7777;
    let is_open = mode & 0o001 != 0 || (mode & 0o010 != 0 && facts.gid() == group.as_raw());
    if is_open {
        return Ok(());
    }
    let is_ours = facts.uid() == geteuid().as_raw();
    let is_used = mode & 0o070 != 0 && facts.gid() != group.as_raw();
    if !is_ours || is_used {
        return Err(ListenError::OutOfReach {
            socket: socket.display().to_string(),
            directory: directory.display().to_string(),
        });
    }
    // Execute permission only: members may not list the directory.
    chown(directory, None, Some(group)).map_err(|e| failed(e.into()))?;
    std::fs::set_permissions(directory, Permissions::from_mode(mode | 0o010)).map_err(failed)?;
    for above in directory.ancestors().skip(1) {
        let mode = above.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o011 == 0 {
            tracing::warn!(directory = %above.display(), "members of control.group cannot reach the socket: directory is closed to them");
        }
    }
    Ok(())
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
        // It belongs to another user or is not a stream socket: no daemon of ours left it.
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
