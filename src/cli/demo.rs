//! `hermesd demo`: shows a whole handoff without any configuration. It starts a daemon in a temporary home, creates a
//! session with some history, hands it off over the socket, and attaches to the thread. However it ends, it stops the
//! daemon and removes the home.

use std::fs::Permissions;
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use super::handoff::{WaitLimits, follow, subscribe};
use super::output::{BOLD, FAINT, Output};
use super::{CliError, attach};
use crate::client::Client;
use crate::config::{self, Config, Overrides};
use crate::domain::transcript::Role;
use crate::private_files;
use crate::protocol::{Call, HandoffRequest, HandoffView, LocalMessageView, LocalRead};
use crate::store::{NewMessage, OpenMode, Store};

const TITLE: &str = "Fix the parser";
const TIMEOUT: Duration = Duration::from_secs(10);

pub async fn run(program: &Path) -> Result<(), CliError> {
    // Before the home exists, so that no signal leaves it behind.
    let mut ends = Ends::listen()?;
    let home = tempfile::Builder::new()
        .prefix("hermesd-demo-")
        .permissions(Permissions::from_mode(private_files::DIRECTORY))
        .tempdir()
        .map_err(|e| CliError::Other(format!("cannot create a temporary home: {e}")))?;
    let mut daemon = None;
    let outcome = tokio::select! {
        outcome = show(program, home.path(), &mut daemon) => outcome,
        code = ends.next() => Err(CliError::Reported { code }),
    };
    if let Some(daemon) = daemon {
        stop(daemon).await;
    }
    outcome
}

/// The signals that end the demo: Ctrl-C, a polite end, and a closed window.
struct Ends {
    signals: [(SignalKind, Signal); 3],
}

impl Ends {
    fn listen() -> Result<Ends, CliError> {
        let listen = |kind| {
            let listening = signal(kind).map_err(|e| CliError::Other(format!("signals: {e}")));
            listening.map(|signal| (kind, signal))
        };
        Ok(Ends {
            signals: [
                listen(SignalKind::interrupt())?,
                listen(SignalKind::terminate())?,
                listen(SignalKind::hangup())?,
            ],
        })
    }

    /// Waits for a signal. Returns the exit code that stands for it.
    async fn next(&mut self) -> u8 {
        let [(a, interrupt), (b, terminate), (c, hangup)] = &mut self.signals;
        let kind = tokio::select! {
            _ = interrupt.recv() => a,
            _ = terminate.recv() => b,
            _ = hangup.recv() => c,
        };
        u8::try_from(128 + kind.as_raw_value()).unwrap_or(1)
    }
}

/// Puts the daemon into `running` as soon as it runs.
async fn show(program: &Path, home: &Path, running: &mut Option<Child>) -> Result<(), CliError> {
    let out = Output::new(false);
    let socket = home.join("control.sock");
    let overrides = Overrides {
        config: None,
        profile: None,
        home: Some(home.to_owned()),
        values: vec![("control.socket", socket.display().to_string())],
    };
    let config = config::load(crate::platform::schema(), &overrides)?;

    out.line(out.styled(BOLD, "1. A terminal session with some history"))?;
    let session = seed(&config).await?;
    out.line(format!(
        "   \"{TITLE}\", {session}, with a question, a tool call, its result and an answer\n"
    ))?;

    out.line(out.styled(BOLD, "2. hermesd starts"))?;
    let daemon = running.insert(start(program, &config)?);
    let client = connect(&socket, daemon).await?;
    out.line(format!(
        "   process {}, home {}\n",
        client.server().pid,
        config.home.display()
    ))?;

    out.line(out.styled(
        BOLD,
        &format!("3. hermesctl handoff local --session \"{TITLE}\""),
    ))?;
    subscribe(&client).await?;
    let wish = HandoffRequest {
        platform: "local".into(),
        session: Some(TITLE.into()),
        ..HandoffRequest::default()
    };
    let handoff: HandoffView = client.call(Call::HandoffRequest(wish)).await?;
    let id = handoff.id;
    let limits = WaitLimits {
        pickup: TIMEOUT,
        finish: Duration::from_secs(60),
    };
    follow(&client, &config, &out, handoff, limits).await?;

    out.line(out.styled(BOLD, "\n4. The thread"))?;
    let handoff: HandoffView = client
        .call(Call::HandoffShow(crate::protocol::HandoffId { id }))
        .await?;
    let thread = handoff.thread.and_then(|t| t.parse().ok());
    if std::io::stdin().is_terminal() && std::io::stdout().is_terminal() {
        out.line(out.styled(
            FAINT,
            "   (continue here, Ctrl-D ends the demo and removes its home)",
        ))?;
        let client = Client::connect(&socket).await?;
        attach::converse(&client, &out, thread).await
    } else {
        let said: Vec<LocalMessageView> = client
            .call(Call::LocalRead(LocalRead {
                thread,
                ..LocalRead::default()
            }))
            .await?;
        said.iter()
            .try_for_each(|message| attach::show(&out, message))
    }
}

async fn seed(config: &Config) -> Result<String, CliError> {
    let store = Store::open(&config.home, OpenMode::Create, &config.store)?;
    let session = store
        .create_session("cli", Some(TITLE), Some("echo"))
        .await?;
    let call = json!({"id": "call_1", "type": "function", "function": {"name": "run_tests", "arguments": "{\"package\": \"parser\"}"}});
    let history = vec![
        NewMessage::text(
            Role::User,
            "The parser chokes on empty lines. Can you find out why?",
        ),
        NewMessage {
            tool_calls: vec![call],
            finish_reason: Some("tool_calls".into()),
            ..NewMessage::text(Role::Assistant, "I run its tests first.")
        },
        NewMessage {
            tool_call_id: Some("call_1".into()),
            tool_name: Some("run_tests".into()),
            ..NewMessage::text(Role::Tool, "41 passed, 1 failed: empty_line_is_skipped")
        },
        NewMessage::reply(
            "`skip_blank` stops at the first blank line. A loop in place of the `if` fixes it.",
        ),
    ];
    store.append(&session, history).await?;
    Ok(session)
}

fn start(program: &Path, config: &Config) -> Result<Child, CliError> {
    let mut command = Command::new(program);
    command
        .arg("--home")
        .arg(&config.home)
        .arg("--socket")
        .arg(&config.control.socket);
    command
        .env("HERMESD_LOG_LEVEL", "warn")
        // The demo must work without any other agent, and send nothing to one.
        .env("HERMESD_AGENT_DEFAULT", "echo")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    command
        .spawn()
        .map_err(|e| CliError::Other(format!("cannot start {}: {e}", program.display())))
}

/// Waits until the daemon answers or has ended.
async fn connect(socket: &Path, daemon: &mut Child) -> Result<Client, CliError> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match Client::connect(socket).await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => {}
        }
        if let Ok(Some(status)) = daemon.try_wait() {
            return Err(CliError::Other(format!(
                "hermesd ended at once with {status}: see its messages above"
            )));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn stop(mut daemon: Child) {
    if let Some(pid) = daemon.id().and_then(|pid| i32::try_from(pid).ok()) {
        let _ = nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(pid),
            nix::sys::signal::Signal::SIGTERM,
        );
    }
    let _ = tokio::time::timeout(TIMEOUT, daemon.wait()).await;
}
