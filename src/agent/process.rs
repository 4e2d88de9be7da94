//! A program that answers: started without a shell, in a process group of its own, with what it complains about at hand.
//! Dropped, it ends with everything that it started.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::AgentError;

/// What is kept of a program's complaints, for whoever asks why it ended.
const KEPT_LINES: usize = 20;
const KEPT_LINE: usize = 500;
/// How long what a program complained about last may take to arrive when it has ended.
const LAST_COMPLAINTS: Duration = Duration::from_millis(500);

/// How a program is started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// What it is called in messages.
    pub name: &'static str,
    /// Set for it on top of our own environment.
    pub environment: Vec<(String, String)>,
    /// Taken out of it: tokens of ours that are none of its business.
    pub withheld: Vec<String>,
}

pub(super) struct Process {
    name: &'static str,
    child: Child,
    group: Option<Pid>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    listening: Option<JoinHandle<()>>,
}

impl Program {
    pub(super) fn start(&self) -> Result<Process, AgentError> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| AgentError::Failed(format!("{} has no program", self.name)))?;
        let mut command = match leash() {
            Some(leash) => {
                let mut command = Command::new(leash);
                command.args(["--pdeathsig", "KILL", "--", program]);
                command
            }
            None => Command::new(program),
        };
        command
            .args(arguments)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for name in &self.withheld {
            command.env_remove(name);
        }
        if which(program).is_none() {
            return Err(AgentError::Failed(format!(
                "{program} is not there, or not executable"
            )));
        }
        let mut child = command
            .spawn()
            .map_err(|e| AgentError::Failed(format!("{program} cannot be started: {e}")))?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        let complaints = Arc::default();
        let stderr = child.stderr.take();
        let listening =
            stderr.map(|stderr| tokio::spawn(listen(self.name, stderr, Arc::clone(&complaints))));
        Ok(Process {
            name: self.name,
            child,
            group,
            complaints,
            listening,
        })
    }
}

impl Process {
    /// What it reads and what it says; once.
    pub(super) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), AgentError> {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.ok_or_else(|| AgentError::Failed(format!("{} has no pipes", self.name)))
    }

    /// Waits for its end. An error says how it ended, with its last complaints.
    pub(super) async fn ended(&mut self) -> Result<(), AgentError> {
        let status = self.child.wait().await;
        // Its group may still run; a number that is free again must not be killed later.
        if let Some(group) = self.group.take() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        if let Some(listening) = self.listening.take() {
            let _ = tokio::time::timeout(LAST_COMPLAINTS, listening).await;
        }
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.complained(&format!("it ended with {status}"))),
            Err(error) => Err(self.complained(&error.to_string())),
        }
    }

    /// A failure with the program's own last words.
    pub(super) fn complained(&self, what: &str) -> AgentError {
        let complaints = self
            .complaints
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let tail: Vec<&str> = complaints.iter().map(String::as_str).collect();
        AgentError::Failed(match tail.as_slice() {
            [] => what.to_owned(),
            lines => format!("{what}: {}", lines.join(" / ")),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// To the log, and the last lines for whoever asks.
async fn listen(name: &str, stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line);
        let line: String = line.trim_end().chars().take(KEPT_LINE).collect();
        if line.is_empty() {
            continue;
        }
        tracing::debug!(agent = name, "{line}");
        let mut kept = kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if kept.len() == KEPT_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

/// A program that ends with us even when we are killed: the kernel does that for whoever asks it to before it starts, and
/// this one does the asking.
fn leash() -> Option<PathBuf> {
    which("setpriv")
}

/// Where a program is: its path, or its place on `PATH`.
pub(super) fn which(program: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| is_program(path))
}
