//! Invoked by `hermesctl handoff`.
//!
//! Requests a handoff, prints each stage as it is reached, and prints where the session is now.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::args::time;
use super::backend::Target;
use super::output::{FAINT, GOOD, Output};
use super::setup::ask;
use super::{CliError, chat, terminal};
use crate::client::{Client, ClientError, News};
use crate::config::Config;
use crate::domain::{HandoffStage, NOTICE_STAYS};
use crate::handoff::request::HandoffWish;
use crate::protocol::{Call, EventKind, EventsSubscribe, HandoffId, HandoffView};
use crate::sessions::open_elsewhere;
use crate::store::{OpenMode, Store, watch as database_watch};
use crate::views;
use crate::visible_text::visible;

/// The poll interval while watching the database, in case inotify misses a change.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hermesctl handoff local\n  hermesctl handoff local --session 20260131_081500 --note \"on the train\"\n  hermesctl handoff local --no-wait --json"
)]
pub struct HandoffArgs {
    /// The platform to hand off to: see `hermesctl platforms`.
    pub platform: String,
    /// Id, beginning of an id, or title [default: $HERMES_SESSION_ID, the session of this terminal, or the only recent
    /// one].
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// A note for the agent.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// If a turn is in progress, wait for its end. Without this option, the handoff is refused.
    #[arg(long)]
    pub wait: bool,
    /// Hand off even if another program seems to run a turn. A turn with a lease still counts.
    #[arg(long)]
    pub force: bool,
    /// If the chat has no threads, take the place of the session that was handed off to it. Without this option, the
    /// handoff is refused, or you are asked in a terminal.
    #[arg(long)]
    pub replace: bool,
    /// Return as soon as the request is stored.
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait for the end. After that, the handoff continues in the background.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    pub timeout: Duration,
    /// Without a daemon: how long to wait for one to start. After that, the request is withdrawn.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = time)]
    pub pickup_timeout: Duration,
}

pub(super) async fn run(target: &Target, out: &Output, args: HandoffArgs) -> Result<(), CliError> {
    let (config, backend) = target.open().await?;
    let here = match args.session {
        Some(_) => None,
        None => session_here(&config),
    };
    let (found, why_found) = here.unzip();
    let wish = HandoffWish {
        platform: args.platform,
        session: args.session.or(found),
        note: args.note,
        tty: terminal::tty(),
        terminal: terminal::known_to_hermes(),
        after_turn: args.wait,
        force: args.force,
        replace: args.replace,
    };
    let limits = WaitLimits {
        pickup: args.pickup_timeout,
        finish: args.timeout,
    };
    let handoff = match backend.request_handoff(wish.clone()).await {
        Err(CliError::Refused { kind, message, .. })
            if kind == CHAT_TAKEN && chat::is_terminal() && !out.is_json() =>
        {
            if !ask::no(out, &replace_question(&message)).await? {
                return Err(not_replaced());
            }
            let replace = true;
            backend
                .request_handoff(HandoffWish { replace, ..wish })
                .await?
        }
        requested => requested?,
    };
    show_chosen(out, &handoff, why_found)?;
    match args.no_wait {
        true => requested(out, &handoff),
        false => backend.follow_handoff(out, handoff, limits).await,
    }
}

/// The refusal of a handoff to a chat that another session is on.
pub(super) const CHAT_TAKEN: &str = "chat_taken";

pub(super) fn replace_question(refusal: &str) -> String {
    let mut refusal = refusal.chars();
    let first = refusal.next().map(|first| first.to_ascii_uppercase());
    let refusal: String = first.into_iter().chain(refusal).collect();
    format!("{refusal}. Replace it?")
}

pub(super) fn not_replaced() -> CliError {
    CliError::Refused {
        kind: CHAT_TAKEN.to_owned(),
        message: "nothing was handed off".to_owned(),
        hint: None,
    }
}

/// Prints which session is handed off, and why, if the command line does not name it.
fn show_chosen(
    out: &Output,
    handoff: &HandoffView,
    why_found: Option<&'static str>,
) -> Result<(), CliError> {
    let why = why_found.or(match handoff.chosen_by.as_deref() {
        Some("chat") => Some("hermesctl chat has it open in this terminal"),
        Some("terminal") => Some("Hermes had it last in this terminal"),
        Some("only") => Some("it is the only recent session of a terminal"),
        _ => None,
    });
    match why {
        Some(why) => out.line(out.styled(FAINT, &format!("session {}: {why}", handoff.session))),
        None => Ok(()),
    }
}

/// The session of this terminal, and how it is known: from the environment, or from a Hermes that runs here. The daemon
/// may know more.
fn session_here(config: &Config) -> Option<(String, &'static str)> {
    let named = std::env::var("HERMES_SESSION_ID").ok();
    let named = named.filter(|id| !id.is_empty());
    named
        .map(|id| (id, "HERMES_SESSION_ID names it"))
        .or_else(|| {
            let mut here = open_elsewhere(&config.home)
                .into_iter()
                .filter(|open| open.is_alive() && open.shares_our_terminal());
            let only = here.next();
            only.filter(|_| here.next().is_none())
                .map(|open| (open.session_id, "a Hermes in this terminal has it open"))
        })
}

#[derive(Debug, Clone, Copy)]
pub(super) struct WaitLimits {
    pub(super) pickup: Duration,
    pub(super) finish: Duration,
}

impl Default for WaitLimits {
    fn default() -> Self {
        WaitLimits {
            pickup: Duration::from_secs(15),
            finish: Duration::from_secs(300),
        }
    }
}

/// Subscribes to the stages. Call it before the request, so that no stage is missed.
pub(super) async fn subscribe(client: &Client) -> Result<(), CliError> {
    let wish = EventsSubscribe {
        topics: vec!["handoff".into()],
        session: None,
    };
    let _: serde_json::Value = client.call(Call::EventsSubscribe(wish)).await?;
    Ok(())
}

pub(super) fn requested(out: &Output, handoff: &HandoffView) -> Result<(), CliError> {
    out.value(handoff)?;
    out.line(format!(
        "Handoff {} to {} is requested. See `hermesctl handoffs show {}`.",
        handoff.id, handoff.platform, handoff.id
    ))
}

/// Prints the stages that the daemon publishes, until the handoff has ended.
pub(super) async fn follow(
    client: &Client,
    config: &Config,
    out: &Output,
    handoff: HandoffView,
    limits: WaitLimits,
) -> Result<(), CliError> {
    let id = handoff.id;
    let deadline = Instant::now() + limits.finish;
    let mut progress = Progress::default();
    let ended = client.call::<HandoffView>(Call::HandoffWait(HandoffId { id }));
    tokio::pin!(ended);
    let mut lost = false;
    loop {
        tokio::select! {
            biased;
            news = client.news() => match news {
                Some(News::Event(event)) => match &event.event {
                    EventKind::HandoffStage { id: of, stage, no_thread, .. } if *of == id => {
                        let time = event.at - handoff.requested_at;
                        progress.reached(out, stage, time, no_thread.as_deref())?;
                    }
                    EventKind::HandoffWaiting { id: of, reason, .. } if *of == id => {
                        out.line(out.styled(FAINT, &format!("… waits: {}", visible(reason))))?;
                    }
                    _ => {}
                },
                // The final answer contains all stages.
                Some(News::Missed(_)) => {}
                None => {
                    // The row still exists, and the next daemon writes into it.
                    out.line(out.styled(FAINT, "the connection to the daemon was lost, watching the database"))?;
                    // The daemon's home may differ from ours if the command line names a socket.
                    let home = Path::new(&client.server().home);
                    let store = Store::open(home, OpenMode::Existing, &config.store)?;
                    let limits = WaitLimits { finish: deadline.saturating_duration_since(Instant::now()), ..limits };
                    return watch_row(&store, out, handoff, progress, limits).await;
                }
            },
            ended = &mut ended, if !lost => match ended {
                Ok(ended) => return finished(out, &ended, progress),
                // The events end too, and with them this loop.
                Err(ClientError::Lost) => lost = true,
                Err(error) => return Err(error.into()),
            },
            () = tokio::time::sleep_until(deadline) => return Err(timed_out(id, limits.finish)),
        }
    }
}

/// Follows a handoff without a daemon.
pub(super) async fn watch(
    store: &Store,
    out: &Output,
    handoff: HandoffView,
    limits: WaitLimits,
) -> Result<(), CliError> {
    watch_row(store, out, handoff, Progress::default(), limits).await
}

/// Reads the row after each change of the database by another program.
async fn watch_row(
    store: &Store,
    out: &Output,
    handoff: HandoffView,
    mut progress: Progress,
    limits: WaitLimits,
) -> Result<(), CliError> {
    let (id, start) = (handoff.id, Instant::now());
    let (changed, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let _stop = stop.clone().drop_guard();
    let wake = changed.clone();
    tokio::spawn(database_watch::run(
        store.clone(),
        move || wake.notify_one(),
        stop,
    ));
    loop {
        let Some(now) = store.handoff(id)? else {
            return Err(CliError::Other(format!(
                "handoff {id} is no longer in the database"
            )));
        };
        let view = views::handoff(&now);
        for stage in &view.stages {
            let (time, no_thread) = (stage.at - now.requested_at, view.no_thread.as_deref());
            progress.reached(out, &stage.stage, time, no_thread)?;
        }
        if now.state.is_final() {
            return finished(out, &view, progress);
        }
        let unclaimed = now.stage.is_none();
        if unclaimed && start.elapsed() >= limits.pickup {
            let reason = format!(
                "no daemon claimed the handoff within {} s",
                limits.pickup.as_secs()
            );
            if store.withdraw_handoff(&now.session_id, &reason).await? {
                return Err(CliError::NoDaemon {
                    message: format!(
                        "{reason}: the request was withdrawn, and nothing has changed"
                    ),
                });
            }
        }
        if start.elapsed() >= limits.finish {
            return Err(timed_out(id, limits.finish));
        }
        let _ = timeout_at(Instant::now() + POLL_INTERVAL, changed.notified()).await;
    }
}

fn timed_out(id: i64, waited: Duration) -> CliError {
    CliError::TimedOut {
        message: format!(
            "handoff {id} has not ended within {} s: it continues in the background",
            waited.as_secs()
        ),
        hint: Some(format!(
            "`hermesctl handoffs show {id}` shows it, `hermesctl handoffs cancel {id}` cancels it"
        )),
    }
}

/// The stages that were printed already.
#[derive(Default)]
struct Progress {
    shown: Vec<String>,
}

impl Progress {
    /// `time` is in seconds since the request.
    fn reached(
        &mut self,
        out: &Output,
        stage: &str,
        time: f64,
        no_thread: Option<&str>,
    ) -> Result<(), CliError> {
        if self.shown.iter().any(|s| s == stage) {
            return Ok(());
        }
        self.shown.push(stage.to_owned());
        let time = format!("{:8.1} ms", time.max(0.0) * 1000.0);
        let meaning = match (HandoffStage::parse(stage), no_thread) {
            (Some(HandoffStage::Threaded), Some(reason)) => {
                format!("no thread, the chat itself is used: {reason}")
            }
            (stage, _) => stage.map(meaning).unwrap_or_default().to_owned(),
        };
        out.line(format!(
            "{} {:<10} {}",
            out.styled(GOOD, "✓"),
            stage,
            out.styled(FAINT, &format!("{time}  {meaning}"))
        ))
    }
}

/// A stage in words.
fn meaning(stage: HandoffStage) -> &'static str {
    match stage {
        HandoffStage::Claimed => "picked up by hermesd",
        HandoffStage::Homed => "home channel found",
        HandoffStage::Threaded => "thread opened",
        HandoffStage::Bound => "chat bound to this session",
        HandoffStage::Answered => "the agent has answered",
        HandoffStage::Delivered => "its reply is in the chat",
        HandoffStage::Settled => "done",
    }
}

fn finished(out: &Output, handoff: &HandoffView, mut progress: Progress) -> Result<(), CliError> {
    for stage in &handoff.stages {
        let (time, no_thread) = (
            stage.at - handoff.requested_at,
            handoff.no_thread.as_deref(),
        );
        progress.reached(out, &stage.stage, time, no_thread)?;
    }
    out.value(handoff)?;
    if handoff.state == "failed" {
        let error = handoff.error.as_deref();
        let undone = match error.is_some_and(|error| error.contains(NOTICE_STAYS)) {
            true => "everything else is as before",
            false => "everything is as before",
        };
        return Err(CliError::Failed {
            message: format!(
                "the handoff to {} failed: {}",
                handoff.platform,
                handoff.error.as_deref().unwrap_or("no reason given")
            ),
            hint: Some(format!(
                "{undone}, retry with `hermesctl handoffs retry {}`",
                handoff.id
            )),
        }
        .after_value(out));
    }
    let place = match (&handoff.thread, &handoff.thread_title) {
        (Some(thread), Some(title)) => format!("{}, thread {thread} ({title})", handoff.platform),
        _ => format!("{}, in the home chat itself", handoff.platform),
    };
    out.line(format!("\nThe session is now on {place}."))?;
    if handoff.platform == crate::platform::local::NAME {
        let thread = handoff
            .thread
            .as_ref()
            .map(|t| format!("/{t}"))
            .unwrap_or_default();
        out.line(format!("Continue there:  hermesctl attach local{thread}"))?;
    }
    out.line(format!(
        "Bring it back later:  hermesctl resume {}",
        handoff.session
    ))
}
