//! Programs that the user wants run when something happens: JSON on standard input, the same in the environment, what they
//! print goes to the log. A hook that fails, hangs or is missing costs nobody anything.

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

/// Programs that run at one time, and that may wait for it.
const SIDE_BY_SIDE: usize = 4;
const WAITING: usize = 1024;
/// What is logged of a program's output.
const OUTPUT: u64 = 16 << 10;
/// The kernel bounds each variable of the environment: no agent may ask so much that the program is not started. In bytes,
/// and in characters.
const LONGEST_TEXT: usize = 16 << 10;
const LONGEST_CHOICE: usize = 200;
const MOST_CHOICES: usize = 50;
/// All that a program gets to see of the daemon's own environment, which may hold tokens.
const PASSED_ON: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TZ",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// Runs the programs of what is told, until `stop`; then those that are due are still waited for.
pub(crate) async fn run(
    config: Arc<Reloadable<HooksConfig>>,
    mut told: UnboundedReceiver<Arc<PublishedEvent>>,
    stop: CancellationToken,
) {
    let (places, running) = (Arc::new(Semaphore::new(SIDE_BY_SIDE)), TaskTracker::new());
    loop {
        let event = tokio::select! {
            event = told.recv() => event,
            () = stop.cancelled() => None,
        };
        let Some(event) = event else { break };
        start(&config, &event, &places, &running);
    }
    // What was told on the way out.
    while let Ok(event) = told.try_recv() {
        start(&config, &event, &places, &running);
    }
    running.close();
    running.wait().await;
}

fn start(
    config: &Reloadable<HooksConfig>,
    told: &PublishedEvent,
    places: &Arc<Semaphore>,
    running: &TaskTracker,
) {
    if config.get().programs.is_empty() {
        return;
    }
    let Some((name, facts)) = facts(told) else {
        return;
    };
    let config = config.get();
    let Some(program) = config.programs.get(name).cloned() else {
        return;
    };
    if running.len() >= WAITING {
        tracing::warn!(hook = name, "not run: too many hooks wait already");
        return;
    }
    let (timeout, places) = (config.timeout, places.clone());
    running.spawn(async move {
        let _place = places.acquire_owned().await;
        match tokio::time::timeout(timeout, Hook::run(name, &program, &facts)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(hook = name, program, error, "hook failed"),
            Err(_) => tracing::warn!(hook = name, program, "hook stopped: it took too long"),
        }
    });
}

/// Which hook an event is for, and what it is told.
fn facts(told: &PublishedEvent) -> Option<(&'static str, Map<String, Value>)> {
    let (name, facts) = match &told.event {
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
    all.insert("at".into(), told.at.into());
    if let Value::Object(facts) = facts {
        all.extend(facts.into_iter().filter(|(_, value)| !value.is_null()));
    }
    Some((name, all))
}

/// What an approval is about, as much as fits into a variable of the environment.
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

/// A running program; dropped, it ends with everything that it started.
struct Hook {
    child: Child,
    group: Option<Pid>,
}

impl Hook {
    async fn run(name: &str, program: &str, facts: &Map<String, Value>) -> Result<(), String> {
        let inherited = PASSED_ON
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
        // With a line end, which a shell's `read` wants to see.
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
        let say = async {
            if let Some(mut stdin) = stdin {
                // A program need not read what it is told.
                let _ = stdin.write_all(input).await;
            }
        };
        let (mut said, mut complained) = (Vec::new(), Vec::new());
        let hear = async {
            if let Some(stdout) = stdout {
                drain(stdout, &mut said).await;
            }
        };
        let hear_errors = async {
            if let Some(stderr) = stderr {
                drain(stderr, &mut complained).await;
            }
        };
        let (status, (), (), ()) = tokio::join!(self.child.wait(), say, hear, hear_errors);
        said.extend(complained);
        Ok((status?, String::from_utf8_lossy(&said).into_owned()))
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Keeps the beginning, and reads the rest too: a program must not stand still because nobody listens.
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
