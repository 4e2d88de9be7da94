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
use super::backend::{Backend, Target};
use super::output::{FAINT, GOOD, Output};
use super::setup::ask;
use super::spinner::Spinner;
use super::{CliError, chat, pick, terminal};
use crate::client::{Client, ClientError, News};
use crate::clock;
use crate::config::Config;
use crate::domain::{HandoffStage, NOTICE_STAYS, TERMINAL_SOURCES};
use crate::handoff::request::HandoffWish;
use crate::platform::local;
use crate::protocol::{Call, EventKind, EventsSubscribe, HandoffId, HandoffView, SessionList};
use crate::sessions::open_elsewhere;
use crate::store::{OpenMode, Store, watch as database_watch};
use crate::views;
use crate::visible_text::visible;

/// The poll interval while watching the database, in case inotify misses a change.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  hermesctl handoff local\n  hermesctl handoff local --session 20260131_081500 --note \"on the train\"\n  hermesctl handoff local --detach --json"
)]
pub struct HandoffArgs {
    /// The platform to hand off to: see `hermesctl platforms` [default: the only one that is set up, or you pick one].
    pub platform: Option<String>,
    /// Title or id, a part of the title, the beginning or the end of the id, or last [default: $HERMES_SESSION_ID, the
    /// session of this terminal, the only recent one, or you pick one].
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// A note for the agent.
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    /// If a turn is in progress, wait for its end. Without this option, the handoff is refused.
    #[arg(long, alias = "wait")]
    pub after_turn: bool,
    /// Hand off even if another program seems to run a turn. A turn with a lease still counts.
    #[arg(long)]
    pub force: bool,
    /// If the chat has no threads, take the place of the session that was handed off to it. Without this option, the
    /// handoff is refused, or you are asked in a terminal.
    #[arg(long)]
    pub replace: bool,
    /// Return as soon as the request is stored. The handoff goes on in the daemon.
    #[arg(long, alias = "no-wait")]
    pub detach: bool,
    /// How long to wait for the end. After that, the handoff continues in the background, or is withdrawn if no daemon has
    /// claimed it.
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
    let platform = match args.platform {
        Some(platform) => platform,
        None => choose_platform(backend.as_ref(), out).await?,
    };
    let wish = HandoffWish {
        platform,
        session: args.session.or(found),
        note: args.note,
        tty: terminal::tty(),
        terminal: terminal::known_to_hermes(),
        after_turn: args.after_turn,
        force: args.force,
        replace: args.replace,
    };
    let limits = WaitLimits {
        pickup: args.pickup_timeout,
        finish: args.timeout,
    };
    let handoff = request(backend.as_ref(), out, wish).await?;
    show_chosen(out, &handoff, why_found)?;
    match args.detach {
        true => requested(out, &handoff),
        false => follow_or_leave(backend.as_ref(), out, handoff, limits).await,
    }
}

/// Requests a handoff. On a terminal, asks what is not decided: which session, and whether another one is replaced.
async fn request(
    backend: &dyn Backend,
    out: &Output,
    mut wish: HandoffWish,
) -> Result<HandoffView, CliError> {
    loop {
        let (kind, message, refused) = match backend.request_handoff(wish.clone()).await {
            Err(CliError::Refused {
                kind,
                message,
                hint,
            }) => {
                let refused = CliError::Refused {
                    kind: kind.clone(),
                    message: message.clone(),
                    hint,
                };
                (kind, message, refused)
            }
            requested => return requested,
        };
        match kind.as_str() {
            "ambiguous_session" if wish.session.is_none() && pick::can_ask(out) => {
                wish.session = Some(choose_session(backend, out).await?);
            }
            CHAT_TAKEN if !wish.replace && chat::is_terminal() && !out.is_json() => {
                if !ask::no(out, &replace_question(&message)).await? {
                    return Err(not_replaced());
                }
                wish.replace = true;
            }
            _ => return Err(refused),
        }
    }
}

/// Follows a handoff until its end. Ctrl-C leaves it alone, and says what goes on.
pub(super) async fn follow_or_leave(
    backend: &dyn Backend,
    out: &Output,
    handoff: HandoffView,
    limits: WaitLimits,
) -> Result<(), CliError> {
    let requested = handoff.clone();
    tokio::select! {
        done = backend.follow_handoff(out, handoff, limits) => return done,
        interrupted = tokio::signal::ctrl_c() => interrupted
            .map_err(|e| CliError::Other(format!("signals: {e}")))?,
    }
    out.value(&requested)?;
    let id = requested.id;
    let goes_on = match backend.daemon() {
        Ok(_) => format!("Handoff {id} goes on in hermesd."),
        Err(_) => format!("Handoff {id} waits until hermesd starts."),
    };
    out.line(format!(
        "\n{goes_on} Look at it with `hermesctl handoffs show {id}`, cancel it with `hermesctl handoffs cancel {id}`."
    ))?;
    Err(CliError::Reported { code: 130 })
}

/// The only platform that is set up, else the one that the person picks. The embedded one counts if there is no other.
async fn choose_platform(backend: &dyn Backend, out: &Output) -> Result<String, CliError> {
    let mut platforms = backend.platforms().await?;
    platforms.retain(|platform| platform.configured && platform.state != "off");
    let others = platforms.iter().filter(|p| p.name != local::NAME).count();
    if others < 2 {
        let only = platforms
            .iter()
            .find(|p| others == 0 || p.name != local::NAME)
            .map_or(local::NAME, |platform| &platform.name);
        let why = format!("platform {only}: no other is set up");
        out.line(out.styled(FAINT, &why))?;
        return Ok(only.to_owned());
    }
    let mut names: Vec<String> = platforms.into_iter().map(|p| p.name).collect();
    if !pick::can_ask(out) {
        let hint = format!("one of {}", names.join(", "));
        return Err(pick::unnamed("a platform", &hint));
    }
    let at = pick::pick(out, "To which platform?", &names)?;
    Ok(names.swap_remove(at))
}

/// The live session of a terminal that the person picks.
async fn choose_session(backend: &dyn Backend, out: &Output) -> Result<String, CliError> {
    let wish = SessionList {
        live: true,
        limit: Some(200),
        ..SessionList::default()
    };
    let mut sessions = backend.sessions(wish).await?;
    sessions.retain(|session| TERMINAL_SOURCES.contains(&session.source.as_str()));
    pick::one_session(out, "Which session?", sessions)
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
    let spinner = Spinner::start(out, "waiting for hermesd");
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
                        spinner.beside(|| progress.reached(out, stage, time, no_thread.as_deref()))?;
                        spinner.stage(next(stage));
                    }
                    EventKind::HandoffWaiting { id: of, reason, .. } if *of == id => {
                        let waits = out.styled(FAINT, &format!("… waits: {}", visible(reason)));
                        spinner.beside(|| out.line(waits))?;
                    }
                    _ => {}
                },
                // The final answer contains all stages.
                Some(News::Missed(_)) => {}
                None => {
                    drop(spinner);
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
                Ok(ended) => {
                    drop(spinner);
                    return finished(out, &ended, progress);
                }
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
    let spinner = Spinner::start(out, "waiting for a daemon");
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
            spinner.beside(|| progress.reached(out, &stage.stage, time, no_thread))?;
            spinner.stage(next(&stage.stage));
        }
        if now.state.is_final() {
            drop(spinner);
            return finished(out, &view, progress);
        }
        let unclaimed = now.stage.is_none();
        // A request that nobody claimed does not go on in the background: it is withdrawn at the earlier limit.
        let pickup = limits.pickup.min(limits.finish);
        if unclaimed && start.elapsed() >= pickup {
            let reason = format!(
                "no daemon claimed the handoff within {} s",
                pickup.as_secs()
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
        let time = format!("{:>9}", clock::took(time.max(0.0)));
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

/// What happens after a stage.
fn next(stage: &str) -> &'static str {
    match HandoffStage::parse(stage) {
        Some(HandoffStage::Claimed) => "looking for the home channel",
        Some(HandoffStage::Homed) => "opening a thread",
        Some(HandoffStage::Threaded) => "binding the chat",
        Some(HandoffStage::Bound) => "the agent reads the conversation and answers",
        Some(HandoffStage::Answered) => "sending the reply",
        Some(HandoffStage::Delivered) => "finishing",
        Some(HandoffStage::Settled) | None => "waiting",
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
    if handoff.platform == local::NAME {
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
