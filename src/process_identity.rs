//! Identifies the process that holds a lease by boot id, process id and start time. A process id alone is reused.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    boot: String,
    pid: u32,
    started: u64,
}

impl Identity {
    pub fn mine() -> Identity {
        let pid = std::process::id();
        Identity {
            boot: boot_id(),
            pid,
            started: start_time(pid).unwrap_or_default(),
        }
    }

    /// Whether this process has certainly ended. A process of another boot, or of another machine that shares the home,
    /// cannot be checked: its lease has to expire.
    pub fn is_gone(owner: &str) -> bool {
        match Identity::parse(owner) {
            Some(owner) if owner.boot == boot_id() => start_time(owner.pid) != Some(owner.started),
            Some(_) | None => false,
        }
    }

    fn parse(text: &str) -> Option<Identity> {
        let mut parts = text.split(':');
        let identity = Identity {
            boot: parts.next()?.to_owned(),
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(identity)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.boot, self.pid, self.started)
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The parent of a process, its parent, and so on.
pub fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(parent(pid), |pid| parent(*pid)).take(LONGEST_DESCENT)
}

/// The limit of ancestors.
const LONGEST_DESCENT: usize = 64;

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

/// The inode of the initial PID namespace. All others are below it.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether no process on this machine has this id, in any namespace. False if that cannot be determined.
pub fn is_nowhere(pid: i32) -> bool {
    let namespace = std::fs::metadata("/proc/self/ns/pid").map(|found| found.ino());
    // Some processes are invisible in other namespaces, and if /proc hides the processes of other users.
    if namespace.ok() != Some(FIRST_PID_NAMESPACE) || !Path::new("/proc/1/status").exists() {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    let has_id = |status: String| {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name));
        let has_ended = field("State:").is_some_and(|state| state.trim_start().starts_with('Z'));
        let mut ids = field("NSpid:").unwrap_or_default().split_whitespace();
        !has_ended && ids.any(|id| id.parse() == Ok(pid))
    };
    let statuses = processes
        .flatten()
        .map(|process| process.path().join("status"));
    !statuses.flat_map(std::fs::read_to_string).any(has_id)
}

/// Whether a process has ended but its parent has not waited for it.
pub fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// The start time in clock ticks since boot. `None` if there is no such process, or only a zombie.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, so count from its end.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_and_the_dead_are_told_apart() {
        let me = Identity::mine();
        assert_eq!(Identity::parse(&me.to_string()), Some(me.clone()));
        assert!(!Identity::is_gone(&me.to_string()));
        // The same process id at another time is another process.
        assert!(Identity::is_gone(
            &Identity {
                started: me.started + 1,
                ..me.clone()
            }
            .to_string()
        ));
        assert!(!Identity::is_gone(
            &Identity {
                boot: "elsewhere".into(),
                ..me
            }
            .to_string()
        ));
        assert!(!Identity::is_gone("nonsense"));
    }

    #[test]
    fn a_process_that_lives_is_somewhere() {
        let own = i32::try_from(std::process::id()).expect("a process id");
        assert!(!is_nowhere(own) && !is_nowhere(1));
        let namespace = std::fs::metadata("/proc/self/ns/pid").expect("a namespace");
        let sees_all = namespace.ino() == FIRST_PID_NAMESPACE;
        assert_eq!(is_nowhere(i32::MAX), sees_all);
        // A zombie does not count.
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = i32::try_from(child.id()).expect("a process id");
        while !is_zombie(pid) {
            std::thread::yield_now();
        }
        assert_eq!(is_nowhere(pid), sees_all);
        child.wait().expect("an end");
        assert!(!is_zombie(pid));
    }
}
