//! Decides who may use the socket: its owner, root, and members of the configured group.

use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::traits::StreamCommon;
use nix::unistd::{Gid, Group, Uid, User};

pub struct PeerPolicy {
    owner: u32,
    group: Option<(Gid, String)>,
}

impl PeerPolicy {
    /// Fails if the configured group does not exist.
    pub fn new(group: Option<&str>) -> Result<PeerPolicy, String> {
        let group = match group {
            None => None,
            Some(name) => match Group::from_name(name) {
                Ok(Some(group)) => Some((group.gid, group.name)),
                _ => {
                    return Err(format!(
                        "control.group: there is no group {name:?}: create it, or change the setting"
                    ));
                }
            },
        };
        Ok(PeerPolicy {
            owner: Uid::effective().as_raw(),
            group,
        })
    }

    pub fn gid(&self) -> Option<Gid> {
        self.group.as_ref().map(|(gid, _)| *gid)
    }

    /// The user id of the peer. `Err` says why the peer is rejected.
    pub fn check(&self, stream: &Stream) -> Result<u32, String> {
        let credentials = stream
            .peer_creds()
            .map_err(|e| format!("cannot read the peer's credentials: {e}"))?;
        let uid = credentials.euid().ok_or("the peer has no user id")?;
        if uid == self.owner || uid == 0 || self.is_member(uid, credentials.egid()) {
            return Ok(uid);
        }
        Err(format!("user {uid} may not use this socket"))
    }

    fn is_member(&self, uid: u32, primary: Option<u32>) -> bool {
        let Some((gid, name)) = &self.group else {
            return false;
        };
        if primary == Some(gid.as_raw()) {
            return true;
        }
        let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else {
            return false;
        };
        // The group is read each time, so that a new member needs no restart of the daemon.
        Group::from_name(name)
            .ok()
            .flatten()
            .is_some_and(|group| group.mem.contains(&user.name))
    }
}
