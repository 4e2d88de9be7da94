//! Invoked by `hermesctl events`.
//!
//! Prints the stages of past handoffs, then follows new events.

use super::CliError;
use super::backend::Target;
use super::output::{FAINT, Output};
use crate::client::News;
use crate::clock;
use crate::protocol::{Call, EventKind, EventView, EventsSubscribe, HandoffList, HandoffView};
use crate::visible_text::visible;

#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// Follow new events until interrupted.
    #[arg(long, short)]
    pub follow: bool,
    /// Only events of this topic (handoff, turn, session, platform, local) or type. You can repeat it.
    #[arg(long, value_name = "TOPIC")]
    pub topic: Vec<String>,
    /// The number of past handoffs to show.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: usize,
}

pub(super) async fn run(target: &Target, out: &Output, args: EventsArgs) -> Result<(), CliError> {
    let (_, backend) = target.open().await?;
    if args.follow {
        // Subscribe before reading the past, so that no event is lost in between.
        let topics = EventsSubscribe {
            topics: args.topic.clone(),
            session: None,
        };
        let _: serde_json::Value = backend
            .daemon()?
            .call(Call::EventsSubscribe(topics))
            .await?;
    }
    let wish = HandoffList {
        limit: Some(args.limit),
        ..HandoffList::default()
    };
    let past = backend.handoffs(wish).await?;
    for event in journal(&past)
        .into_iter()
        .filter(|e| wanted(&args.topic, &e.event))
    {
        show(out, &event)?;
    }
    if !args.follow {
        return Ok(());
    }
    loop {
        match backend.daemon()?.news().await {
            Some(News::Event(event)) => show(out, &event)?,
            Some(News::Missed(n)) => {
                out.value(&serde_json::json!({"type": "events.missed", "missed": n}))?;
                out.line(out.styled(FAINT, &format!("({n} events were missed)")))?;
            }
            None => {
                return Err(CliError::NoDaemon {
                    message: "the connection to the daemon was lost".into(),
                });
            }
        }
    }
}

/// Past stages as events. Their sequence number is 0.
fn journal(handoffs: &[HandoffView]) -> Vec<EventView> {
    let mut events = Vec::new();
    for h in handoffs {
        let (id, session, platform) = (h.id, h.session.clone(), h.platform.clone());
        let mut add = |at: f64, event: EventKind| events.push(EventView { seq: 0, at, event });
        add(
            h.requested_at,
            EventKind::HandoffRequested {
                id,
                session: session.clone(),
                platform: platform.clone(),
            },
        );
        for stage in &h.stages {
            let (session, platform) = (session.clone(), platform.clone());
            add(
                stage.at,
                EventKind::HandoffStage {
                    id,
                    session,
                    platform,
                    stage: stage.stage.clone(),
                    no_thread: None,
                },
            );
        }
        if let Some(at) = h.ended_at {
            add(
                at,
                EventKind::HandoffEnded {
                    id,
                    session,
                    platform,
                    state: h.state.clone(),
                    error: h.error.clone(),
                },
            );
        }
    }
    events.sort_by(|a, b| a.at.total_cmp(&b.at));
    events
}

fn wanted(topics: &[String], event: &EventKind) -> bool {
    topics.is_empty()
        || topics.iter().any(|topic| {
            event.type_name() == topic || event.type_name().starts_with(&format!("{topic}."))
        })
}

fn show(out: &Output, event: &EventView) -> Result<(), CliError> {
    out.value(event)?;
    let text = match &event.event {
        EventKind::HandoffRequested {
            id,
            session,
            platform,
        } => format!("handoff {id} of {session} to {platform} requested"),
        EventKind::HandoffStage { id, stage, .. } => format!("handoff {id} {stage}"),
        EventKind::HandoffWaiting { id, reason, .. } => format!("handoff {id} waits: {reason}"),
        EventKind::HandoffEnded {
            id, state, error, ..
        } => {
            format!(
                "handoff {id} {state}{}",
                error.as_ref().map(|e| format!(": {e}")).unwrap_or_default()
            )
        }
        EventKind::TurnWaiting {
            session, holder, ..
        } => format!("turn of {session} waits: {}", visible(holder)),
        EventKind::TurnStarted { session, .. } => format!("turn of {session} started"),
        EventKind::TurnDelta { session, text, .. } => {
            format!("turn of {session}: {}", text.trim_end())
        }
        EventKind::TurnTool {
            session,
            name,
            what,
            state,
            ..
        } => format!(
            "turn of {session}: {} {} {state}",
            visible(name),
            visible(what)
        ),
        EventKind::TurnEnded { session, error, .. } => {
            format!(
                "turn of {session} ended{}",
                error.as_ref().map(|e| format!(": {e}")).unwrap_or_default()
            )
        }
        EventKind::TurnQuestion { session, text, .. } => {
            format!("turn of {session} asks: {}", visible(text))
        }
        EventKind::TurnQuestionClosed {
            session,
            outcome,
            answer,
            place,
            ..
        } => {
            let answer = answer.as_ref().map(|a| format!(": {}", visible(a)));
            let place = place.as_ref().map(|place| format!(" ({place})"));
            format!(
                "question of {session} {outcome}{}{}",
                answer.unwrap_or_default(),
                place.unwrap_or_default()
            )
        }
        EventKind::SessionStarted {
            session,
            platform,
            resumed,
            ..
        } => {
            let what = if *resumed { "resumed" } else { "started" };
            format!("session {session} {what} on {platform}")
        }
        EventKind::SessionReplaced {
            session,
            platform,
            by,
        } => format!("session {session} on {platform} replaced by {by}"),
        EventKind::SessionMoved { session, to } => format!("session {session} moved to {to}"),
        EventKind::SessionReleased {
            session,
            platform,
            reason,
            told,
            ..
        } => {
            let told = if *told { "" } else { ", and no chat was told" };
            format!("chat of session {session} on {platform} ended ({reason}){told}")
        }
        EventKind::SessionEnded {
            session,
            interrupted,
            ..
        } => {
            let how = if *interrupted { ", interrupted" } else { "" };
            format!("session {session} ended{how}")
        }
        EventKind::PlatformChanged {
            platform,
            state,
            detail,
        } => {
            format!(
                "{platform} is {state}{}",
                detail
                    .as_ref()
                    .map(|d| format!(": {d}"))
                    .unwrap_or_default()
            )
        }
        EventKind::LocalMessage {
            thread,
            author,
            text,
            ..
        } => {
            let place = if thread.is_empty() {
                "local".to_owned()
            } else {
                format!("local/{thread}")
            };
            format!("{place} {author}: {text}")
        }
    };
    out.line(format!(
        "{} {text}",
        out.styled(FAINT, &clock::readable(event.at))
    ))
}
