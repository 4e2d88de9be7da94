//! Runs the user's programs on events. A program gets JSON on standard input and the same in the environment. Its
//! output goes to the log. A hook that fails, hangs or is missing affects nothing else.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::HooksConfig;
use crate::domain::HandoffState;
use crate::domain::Question;
use crate::events::{Event, PublishedEvent};
use crate::reloadable::Reloadable;

/// The limits of programs that run, and of programs that wait or run.
const PARALLEL: usize = 4;
const WAITING: usize = 1024;
/// How many bytes of a program's output are logged.
const OUTPUT: u64 = 16 << 10;
/// The kernel limits the size of an environment variable. A long question must not prevent the start of a program.
/// `LONGEST_TEXT` is in bytes, `LONGEST_CHOICE` in characters.
const LONGEST_TEXT: usize = 16 << 10;
const LONGEST_CHOICE: usize = 200;
const MOST_CHOICES: usize = 50;
/// The only variables of the daemon's environment that a program gets: others may hold tokens.
const INHERITED: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TZ",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Runs the programs of events until `stop`. Then waits for the programs that run or are due.
pub(crate) async fn run(
    config: Arc<Reloadable<HooksConfig>>,
    mut events: UnboundedReceiver<Arc<PublishedEvent>>,
    stop: CancellationToken,
) {
    let (permits, running) = (Arc::new(Semaphore::new(PARALLEL)), TaskTracker::new());
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = stop.cancelled() => None,
        };
        let Some(event) = event else { break };
        start(&config, &event, &permits, &running);
    }
    // Events that were published during the stop.
    while let Ok(event) = events.try_recv() {
        start(&config, &event, &permits, &running);
    }
    running.close();
    running.wait().await;
}

fn start(
    config: &Reloadable<HooksConfig>,
    published: &PublishedEvent,
    permits: &Arc<Semaphore>,
    running: &TaskTracker,
) {
    if config.get().programs.is_empty() {
        return;
    }
    let Some((name, facts)) = facts(published) else {
        return;
    };
    let config = config.get();
    let Some(program) = config.programs.get(name).cloned() else {
        return;
    };
    if running.len() >= WAITING {
        tracing::warn!(hook = name, "hook skipped: too many hooks wait");
        return;
    }
    let (timeout, permits) = (config.timeout, permits.clone());
    running.spawn(async move {
        let _permit = permits.acquire_owned().await;
        match tokio::time::timeout(timeout, Hook::run(name, &program, &facts)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(hook = name, program, error, "hook failed"),
            Err(_) => tracing::warn!(hook = name, program, "hook killed: it took too long"),
        }
    });
}

/// The hook of an event, and its JSON object.
fn facts(published: &PublishedEvent) -> Option<(&'static str, Map<String, Value>)> {
    let (name, facts) = match &published.event {
        Event::HandoffRequested {
            id,
            session_id,
            platform,
        } => (
            "on_handoff_requested",
            json!({"id": id, "session_id": session_id, "platform": platform}),
        ),
        Event::HandoffEnded {
            id,
            session_id,
            platform,
            state,
            error,
        } => {
            let name = match state {
                HandoffState::Completed => "on_handoff_completed",
                _ => "on_handoff_failed",
            };
            (
                name,
                json!({"id": id, "session_id": session_id, "platform": platform, "error": error}),
            )
        }
        Event::SessionStarted {
            session_id,
            platform,
            model,
            resumed,
        } => (
            "on_session_start",
            json!({"session_id": session_id, "platform": platform, "model": model, "resumed": resumed}),
        ),
        Event::SessionEnded {
            session_id,
            platform,
            model,
            interrupted,
        } => (
            "on_session_end",
            json!({"session_id": session_id, "completed": !interrupted, "interrupted": interrupted,
                   "model": model, "platform": platform}),
        ),
        Event::TurnEnded {
            session_id, error, ..
        } => (
            "on_turn_end",
            json!({"session_id": session_id, "completed": error.is_none(), "error": error}),
        ),
        Event::TurnQuestion {
            session_id,
            id,
            question,
            place,
            whole,
            ..
        } => (
            "on_question",
            json!({"session_id": session_id, "question": id, "ask": shortened(&question.ask),
                   "subject": subject(question), "choices": choices(question), "open": question.open,
                   "place": place, "whole": whole}),
        ),
        _ => return None,
    };
    let mut all = Map::new();
    all.insert("event".into(), name.into());
    all.insert("at".into(), published.at.into());
    if let Value::Object(facts) = facts {
        all.extend(facts.into_iter().filter(|(_, value)| !value.is_null()));
    }
    Some((name, all))
}

/// The subject of an approval, shortened for the environment.
fn subject(question: &Question) -> Option<String> {
    let parts = question.subject.iter().map(|part| part.text.as_str());
    let text = parts.collect::<Vec<_>>().join("\n");
    (!text.is_empty()).then(|| shortened(&text))
}

fn choices(question: &Question) -> Vec<String> {
    let choices = question.choices.iter().take(MOST_CHOICES);
    choices
        .map(|choice| choice.chars().take(LONGEST_CHOICE).collect())
        .collect()
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_TEXT {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST_TEXT)])
}

/// A running program. Dropping it kills its process group.
struct Hook {
    child: Child,
    group: Option<Pid>,
}

impl Hook {
    async fn run(name: &str, program: &str, facts: &Map<String, Value>) -> Result<(), String> {
        let inherited = INHERITED
            .iter()
            .filter_map(|key| Some((key, std::env::var_os(key)?)));
        let child = Command::new(program)
            .env_clear()
            .envs(inherited)
            .envs(facts.iter().map(|(key, value)| variable(key, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| format!("it cannot be started: {e}"))?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        let mut hook = Hook { child, group };
        // A shell's `read` needs the line end.
        let input = format!("{}\n", Value::Object(facts.clone()));
        let (status, output) = hook
            .converse(input.as_bytes())
            .await
            .map_err(|e| e.to_string())?;
        hook.group = None;
        for line in output.lines().filter(|line| !line.trim().is_empty()) {
            tracing::info!(hook = name, "{line}");
        }
        match status.success() {
            true => Ok(()),
            false => Err(format!("{status}")),
        }
    }

    async fn converse(&mut self, input: &[u8]) -> std::io::Result<(ExitStatus, String)> {
        let (stdin, stdout, stderr) = (
            self.child.stdin.take(),
            self.child.stdout.take(),
            self.child.stderr.take(),
        );
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program need not read its input.
                let _ = stdin.write_all(input).await;
            }
        };
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let read_output = async {
            if let Some(stdout) = stdout {
                drain(stdout, &mut output).await;
            }
        };
        let read_errors = async {
            if let Some(stderr) = stderr {
                drain(stderr, &mut errors).await;
            }
        };
        let (status, (), (), ()) = tokio::join!(self.child.wait(), write, read_output, read_errors);
        output.extend(errors);
        Ok((status?, String::from_utf8_lossy(&output).into_owned()))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Keeps the beginning, and reads the rest too, so that a full pipe does not block the program.
async fn drain(mut from: impl tokio::io::AsyncRead + Unpin, kept: &mut Vec<u8>) {
    let _ = (&mut from).take(OUTPUT).read_to_end(kept).await;
    let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
}

fn variable(key: &str, value: &Value) -> (String, String) {
    let text = match value {
        Value::String(text) => text.replace('\0', ""),
        other => other.to_string(),
    };
    (format!("HERMESD_{}", key.to_ascii_uppercase()), text)
}
