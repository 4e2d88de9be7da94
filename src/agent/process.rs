//! Starts an agent's program without a shell, in its own process group, and without our secrets in its environment. Its
//! standard error goes to the log. Dropping the [`Process`] kills the group.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use super::AgentError;
use crate::executable;

/// How much of a program's standard error is kept, for the log entry of its failure.
const KEPT_LINES: usize = 20;
const KEPT_LINE: usize = 500;
const LONGEST_LINE: u64 = 64 << 10;
/// How long the end of its standard error may take to arrive.
const STDERR_END: Duration = Duration::from_secs(1);

/// How a program is started.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The agent's name, for messages.
    pub name: &'static str,
    /// Variables added to our own environment.
    pub environment: Vec<(String, String)>,
    /// Variables removed from it: our own tokens.
    pub withheld: Vec<String>,
    /// Platforms whose secrets are removed too.
    pub platforms: Vec<&'static str>,
}

pub(super) struct Process {
    name: &'static str,
    child: Child,
    group: Option<Pid>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    listening: Option<JoinHandle<()>>,
}

impl Program {
    /// Why the program cannot be started. `None` if it can.
    pub(super) fn missing(&self) -> Option<String> {
        executable::missing(self.words.first()?)
    }

    pub(super) fn start(&self) -> Result<Process, AgentError> {
        self.start_in(None)
    }

    /// Starts the program in a directory. `None`: in ours.
    pub(super) fn start_in(&self, directory: Option<&str>) -> Result<Process, AgentError> {
        let (program, arguments) = self
            .words
            .split_first()
            .ok_or_else(|| AgentError::Failed(format!("{} has no program", self.name)))?;
        let mut command = match setpriv() {
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--", program]);
                command
            }
            None => Command::new(program),
        };
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(directory) = directory {
            command.current_dir(directory);
            // Programs take it for the name of their directory.
            command.env("PWD", directory);
        }
        for name in self.withheld.iter().map(OsString::from) {
            command.env_remove(name);
        }
        for (name, _) in std::env::vars_os() {
            if name
                .to_str()
                .is_some_and(|name| is_ours_alone(name, &self.platforms))
            {
                command.env_remove(name);
            }
        }
        // After the removals, so that a variable set on purpose stays.
        command.envs(self.environment.iter().cloned());
        if let Some(why) = executable::missing(program) {
            return Err(AgentError::Failed(why));
        }
        let mut child = command
            .spawn()
            .map_err(|e| AgentError::Failed(format!("{program} cannot be started: {e}")))?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        let complaints = Arc::default();
        let listening = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(listen(self.name, stderr, Arc::clone(&complaints))));
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
    /// Standard input and output. They can be taken once.
    pub(super) fn pipes(&mut self) -> Result<(ChildStdin, ChildStdout), AgentError> {
        let pipes = self.child.stdin.take().zip(self.child.stdout.take());
        pipes.ok_or_else(|| AgentError::Failed(format!("{} has no pipes", self.name)))
    }

    /// Waits for the end. Can be called again. An error says how the process ended.
    pub(super) async fn ended(&mut self) -> Result<(), AgentError> {
        let status = self.child.wait().await;
        // The group may still run. It is killed now, because its number may be reused later.
        if let Some(group) = self.group.take() {
            let _ = killpg(group, Signal::SIGKILL);
        }
        // The end of its standard error may not be read yet. A child that left the group may hold it open.
        if let Some(listening) = &mut self.listening {
            let _ = tokio::time::timeout(STDERR_END, listening).await;
            self.listening = None;
        }
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failure(&format!("it ended with {status}"))),
            Err(error) => Err(self.failure(&error.to_string())),
        }
    }

    /// Makes the error of a failure. The program's standard error goes only to the log: it may hold secrets and paths,
    /// and the error may be shown in a chat.
    pub(super) fn failure(&self, what: &str) -> AgentError {
        let complaints = self
            .complaints
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let tail: Vec<&str> = complaints.iter().map(String::as_str).collect();
        if tail.is_empty() {
            return AgentError::Failed(what.to_owned());
        }
        tracing::warn!(
            agent = self.name,
            complaints = tail.join(" / "),
            "agent failed: {what}"
        );
        AgentError::Failed(format!("{what} (see the daemon's log)"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Variables that the service manager sets for the daemon.
const FROM_SERVICE_MANAGER: [&str; 13] = [
    "CREDENTIALS_DIRECTORY",
    "FDSTORE",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_PIDFDID",
    "MAINPID",
    "MANAGERPID",
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];
/// Platforms of Hermes that hermesd does not list.
const OTHER_PLATFORMS: [&str; 12] = [
    "bluebubbles",
    "dingtalk",
    "email",
    "feishu",
    "hass",
    "homeassistant",
    "mattermost",
    "sms",
    "teams",
    "twilio",
    "webhook",
    "wecom",
];
const SECRETS: [&str; 6] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL"];

/// Whether a variable comes from the service manager, or is a secret of a platform.
fn is_ours_alone(name: &str, platforms: &[&str]) -> bool {
    if FROM_SERVICE_MANAGER.contains(&name) {
        return true;
    }
    let upper = name.to_ascii_uppercase();
    let of_platform = upper.strip_prefix("HERMESD_PLATFORMS_").unwrap_or(&upper);
    of_platform.split_once('_').is_some_and(|(platform, rest)| {
        let platform = platform.to_ascii_lowercase();
        (platforms.contains(&&*platform) || OTHER_PLATFORMS.contains(&&*platform))
            && SECRETS.iter().any(|secret| rest.contains(secret))
    })
}

/// Logs standard error, and keeps its last lines for the log entry of a failure.
async fn listen(name: &str, stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<VecDeque<String>>>) {
    let mut stderr = BufReader::new(stderr);
    let mut bytes = Vec::new();
    loop {
        // A line without an end is logged in pieces.
        bytes.clear();
        let mut piece = (&mut stderr).take(LONGEST_LINE);
        if !matches!(piece.read_until(b'\n', &mut bytes).await, Ok(n) if n > 0) {
            return;
        }
        let line = String::from_utf8_lossy(&bytes);
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

/// `setpriv` makes the kernel kill a program when the daemon dies, even by SIGKILL.
fn setpriv() -> Option<PathBuf> {
    executable::find("setpriv")
}

#[cfg(test)]
mod tests {
    use super::is_ours_alone;

    const PLATFORMS: &[&str] = &["telegram", "discord", "slack", "matrix"];

    #[test]
    fn secrets_of_all_platforms_are_withheld() {
        for name in [
            "NOTIFY_SOCKET",
            "WATCHDOG_USEC",
            "LISTEN_FDS",
            "CREDENTIALS_DIRECTORY",
            "TELEGRAM_BOT_TOKEN",
            "SLACK_APP_TOKEN",
            "SLACK_SIGNING_SECRET",
            "MATRIX_PASSWORD",
            "MATRIX_RECOVERY_KEY",
            "TWILIO_AUTH_TOKEN",
            "HERMESD_PLATFORMS_DISCORD_TOKEN",
        ] {
            assert!(is_ours_alone(name, PLATFORMS), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "OPENAI_API_KEY",
            "TELEGRAM_HOME_CHANNEL",
            "ANTHROPIC_API_KEY",
        ] {
            assert!(!is_ours_alone(name, PLATFORMS), "{name}");
        }
    }
}
