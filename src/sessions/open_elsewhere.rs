//! Lists the sessions that Hermes' own programs have open. They record themselves in `runtime/active_sessions.json` if
//! a limit on open sessions is configured.

use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use serde_json::Value;

use crate::store::{BusyElsewhere, Store, StoreError};

#[derive(Debug, Clone, PartialEq)]
pub struct OpenElsewhere {
    pub session_id: String,
    pid: i32,
}

impl OpenElsewhere {
    pub fn is_alive(&self) -> bool {
        // EPERM means that the process exists and belongs to another user.
        !matches!(kill(Pid::from_raw(self.pid), None), Err(Errno::ESRCH))
    }

    /// Whether it runs in the terminal that this process was started from.
    pub fn shares_our_terminal(&self) -> bool {
        let ours = controlling_terminal("self");
        ours.is_some() && ours == controlling_terminal(&self.pid.to_string())
    }
}

/// The recorded sessions. Empty if the file is missing or invalid.
pub fn open_elsewhere(home: &Path) -> Vec<OpenElsewhere> {
    let file = std::fs::read(home.join("runtime/active_sessions.json")).unwrap_or_default();
    let Ok(file) = serde_json::from_slice::<Value>(&file) else {
        return Vec::new();
    };
    let entries = file.get("entries").unwrap_or(&file).as_array();
    let read = |entry: &Value| {
        let pid = i32::try_from(entry.get("pid")?.as_i64()?).ok();
        Some(OpenElsewhere {
            session_id: entry.get("session_id")?.as_str()?.to_owned(),
            pid: pid.filter(|pid| *pid > 0)?,
        })
    };
    entries.into_iter().flatten().filter_map(read).collect()
}

/// The device number of a process's controlling terminal.
fn controlling_terminal(pid: &str) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses and may contain any character.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let number = behind_name.split_whitespace().nth(4)?.parse().ok()?;
    Some(number).filter(|number| *number != 0)
}

/// The activity of another program in this session. Ignored if every recorded holder of the session is dead.
pub fn turn_elsewhere(
    store: &Store,
    session_id: &str,
) -> Result<Option<BusyElsewhere>, StoreError> {
    let Some(what) = store.busy_elsewhere(session_id)? else {
        return Ok(None);
    };
    // The store has already checked whether the holder of a lease is alive.
    if matches!(what, BusyElsewhere::Turn(_)) {
        return Ok(Some(what));
    }
    let home = store.path().parent().unwrap_or(Path::new("."));
    let mut holders = open_elsewhere(home).into_iter();
    let mut known = holders
        .by_ref()
        .filter(|o| o.session_id == session_id)
        .peekable();
    let dead = known.peek().is_some() && known.all(|holder| !holder.is_alive());
    Ok(Some(what).filter(|_| !dead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_told_from_the_living_and_odd_entries_passed_over() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(open_elsewhere(home.path()), []);
        std::fs::create_dir(home.path().join("runtime")).unwrap();
        let write = |text: &str| {
            std::fs::write(home.path().join("runtime/active_sessions.json"), text).unwrap();
        };
        write("{oops");
        assert_eq!(open_elsewhere(home.path()), []);
        let mine = std::process::id();
        write(&format!(
            r#"{{"entries": [{{"session_id": "a", "pid": {mine}}}, {{"session_id": "b", "pid": 4194303}}, {{"pid": 1}}, 7]}}"#
        ));
        let open = open_elsewhere(home.path());
        let seen: Vec<(&str, bool)> = open
            .iter()
            .map(|o| (o.session_id.as_str(), o.is_alive()))
            .collect();
        assert_eq!(seen, [("a", true), ("b", false)]);
    }
}
