//! The order in which a program writes to its database, flushes the disk and talks to others, as strace sees it.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Home, Ran, until};

/// What is looked at: writes to the log of the database, flushes, and all that goes to sockets and terminals.
const CALLS: &str = "trace=pwrite64,fdatasync,fsync,write,writev,sendto,sendmsg";

#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// Bytes for `state.db-wal`.
    Log(String),
    /// `state.db-wal` is on the disk.
    Flush,
    /// Bytes for anything else.
    Said(String),
}

impl Seen {
    fn is_log_with(&self, words: &str) -> bool {
        matches!(self, Seen::Log(text) if text.contains(words))
    }

    fn is_said_with(&self, words: &[&str]) -> bool {
        matches!(self, Seen::Said(text) if words.iter().all(|word| text.to_lowercase().contains(word)))
    }
}

/// A running process that strace is attached to.
pub struct Traced {
    strace: Child,
    file: PathBuf,
}

fn strace(file: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "9000", "-e", CALLS, "-o"]);
    command.arg(file);
    command
}

/// Whether strace is there and may trace; if not, says so.
pub fn can_trace() -> bool {
    let ran = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output();
    let reason = match ran {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    #[allow(clippy::print_stderr)]
    {
        eprintln!("skipped: strace cannot trace here ({})", reason.trim());
    }
    false
}

impl Traced {
    /// Attaches to a process that runs already. Returns when it is being watched.
    pub fn attach(home: &Home, pid: u32) -> Traced {
        let (file, notes) = (home.path().join("trace"), home.path().join("trace.notes"));
        let strace = strace(&file)
            .args(["-p", &pid.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&notes).expect("a file"))
            .spawn()
            .expect("strace");
        until("strace has attached", || {
            let notes = std::fs::read_to_string(&notes).ok()?;
            notes.contains("attached").then_some(())
        });
        Traced { strace, file }
    }

    /// What was seen when this was said behind the first write with `words` in it.
    pub fn until_said_after(&self, words: &str, said: &str) -> Vec<Seen> {
        until("it is said", || {
            let seen = self.seen();
            let written = seen.iter().position(|seen| seen.is_log_with(words))?;
            let mut behind = seen[written..].iter();
            behind.any(|s| s.is_said_with(&[said])).then_some(seen)
        })
    }

    /// What was seen so far. A call that has not returned is part of it, a flush only when it is done.
    pub fn seen(&self) -> Vec<Seen> {
        read(&self.file)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// Runs hermesctl to its end, watched from its beginning.
pub fn hermesctl_traced(home: &Home, arguments: &[&str]) -> (Ran, Vec<Seen>) {
    let file = home.path().join("trace");
    let mut command = home.command("strace");
    command.args(strace(&file).get_args());
    command.arg(env!("CARGO_BIN_EXE_hermesctl")).args(arguments);
    let ran = home.run(&mut command);
    (ran, read(&file))
}

fn read(file: &Path) -> Vec<Seen> {
    let mut bytes = Vec::new();
    let mut trace = std::fs::File::open(file).expect("a trace");
    trace.read_to_end(&mut bytes).expect("a trace");
    let text = String::from_utf8_lossy(&bytes);
    // Flushes of threads that have not returned yet.
    let mut pending: HashMap<&str, bool> = HashMap::new();
    let mut seen = Vec::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let is_log = call.contains("/state.db-wal>");
        if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
            match call.contains("<unfinished") {
                true => _ = pending.insert(thread, is_log),
                false if is_log => seen.push(Seen::Flush),
                false => {}
            }
        } else if call.starts_with("<... fdatasync resumed>")
            || call.starts_with("<... fsync resumed>")
        {
            if pending.remove(thread) == Some(true) {
                seen.push(Seen::Flush);
            }
        } else if !call.starts_with("<...") {
            // How strace shows quotes within a string.
            let text = call.replace("\\\"", "\"");
            seen.push(match (is_log, call.starts_with("pwrite64(")) {
                (true, _) => Seen::Log(text),
                (false, true) => continue,
                (false, false) => Seen::Said(text),
            });
        }
    }
    seen
}

/// Asserts that what the first write with `words` in it says is on the disk before the first later word to others with all of
/// `said` in it. Returns the places of both.
pub fn assert_flushed_before(seen: &[Seen], words: &str, said: &[&str]) -> (usize, usize) {
    let written = seen.iter().position(|seen| seen.is_log_with(words));
    let written = written.unwrap_or_else(|| panic!("{words:?} was never written"));
    let told = seen[written..].iter().position(|s| s.is_said_with(said));
    let told = written + told.unwrap_or_else(|| panic!("{said:?} was never said"));
    assert!(
        flushes(&seen[written..told]) > 0,
        "{words:?} was not on the disk when {said:?} was said"
    );
    (written, told)
}

pub fn flushes(seen: &[Seen]) -> usize {
    seen.iter().filter(|seen| **seen == Seen::Flush).count()
}
