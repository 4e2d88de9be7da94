//! Reads the files of a home that say which process serves it. The daemon writes some of them, Hermes the others.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process_identity::start_time;

/// The lock file of a Hermes gateway.
pub const GATEWAY_LOCK: &str = "gateway.lock";
const PID_FILE: &str = "gateway.pid";
const STATE: &str = "gateway_state.json";
/// The value of `kind` in Hermes' records.
const KIND: &str = "hermes-gateway";

/// The socket of the daemon that serves this home, if one does.
pub fn recorded_socket(home: &Path) -> Option<PathBuf> {
    let record = read(&home.join("hermesd.lock"))?;
    record["socket"].as_str().map(PathBuf::from)
}

/// The process id of the Hermes gateway that runs on this home, according to its files.
pub fn live_gateway(home: &Path) -> Option<u64> {
    recorded_state(home).or_else(|| recorded_process(home))
}

/// The running process that the lock file names. It counts only if the lock is taken: the file outlives the lock.
pub fn recorded_holder(home: &Path) -> Option<u64> {
    living(&read(&home.join(GATEWAY_LOCK))?)
}

/// `gateway_state.json` outlives its gateway, and says how the gateway ended.
fn recorded_state(home: &Path) -> Option<u64> {
    let state = read(&home.join(STATE))?;
    match state["gateway_state"].as_str() {
        None | Some("stopped" | "startup_failed") => None,
        Some(_) => living(&state),
    }
}

/// A killed gateway leaves its `gateway.pid`, so the record must have the start time of its process.
fn recorded_process(home: &Path) -> Option<u64> {
    let record = read(&home.join(PID_FILE))?;
    let complete = record["kind"] == KIND && record["start_time"].is_u64();
    complete.then(|| living(&record)).flatten()
}

fn living(record: &Value) -> Option<u64> {
    let pid = record["pid"].as_u64()?;
    let started = start_time(u32::try_from(pid).ok()?)?;
    // Another process may have got the same process id, but not the same start time.
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
        write(GATEWAY_LOCK, &record);
        assert_eq!(live_gateway(home.path()), None, "the lock may be free");
        assert_eq!(recorded_holder(home.path()), alive);
        write(GATEWAY_LOCK, &reused);
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
}
