//! `hermesctl handoffs`: list, show, cancel, retry.

use super::CliError;
use super::args::{HandoffsArgs, HandoffsVerb};
use super::backend::Backend;
use super::handoff::{WaitLimits, follow, requested, subscribe};
use super::output::{BOLD, Output, state_style};
use crate::clock;
use crate::config::Config;
use crate::domain::{Handoff, HandoffState};
use crate::protocol::{Call, HandoffId, HandoffList, HandoffView};
use crate::sessions::resolve;
use crate::store::Store;
use crate::views;

pub(super) async fn run(
    backend: &Backend,
    config: &Config,
    out: &Output,
    args: HandoffsArgs,
) -> Result<(), CliError> {
    let verb = args.verb.unwrap_or(HandoffsVerb::List {
        session: None,
        in_flight: false,
        limit: 20,
    });
    match verb {
        HandoffsVerb::List {
            session,
            in_flight,
            limit,
        } => list(backend, out, session, in_flight, limit).await,
        HandoffsVerb::Show { id } => show(out, &find(backend, id).await?),
        HandoffsVerb::Cancel { id } => cancel(backend, out, id).await,
        HandoffsVerb::Retry {
            id,
            no_wait,
            timeout,
        } => {
            let client = backend.daemon()?;
            subscribe(client).await?;
            let handoff: HandoffView = client.call(Call::HandoffRetry(HandoffId { id })).await?;
            if no_wait {
                return requested(out, &handoff);
            }
            follow(
                client,
                config,
                out,
                handoff,
                WaitLimits {
                    pickup: timeout,
                    finish: timeout,
                },
            )
            .await
        }
    }
}

async fn list(
    backend: &Backend,
    out: &Output,
    session: Option<String>,
    in_flight: bool,
    limit: usize,
) -> Result<(), CliError> {
    let handoffs: Vec<HandoffView> = match backend {
        Backend::Daemon(client) => {
            client
                .call(Call::HandoffList(HandoffList {
                    session,
                    in_flight,
                    limit: Some(limit),
                }))
                .await?
        }
        Backend::Direct(store) => {
            let session = match session {
                Some(name) => Some(resolve(store, &name)?.id),
                None => None,
            };
            listed(
                store
                    .list_handoffs(session.as_deref(), in_flight, limit)
                    .await?,
            )
        }
    };
    out.value(&handoffs)?;
    if handoffs.is_empty() {
        return out.line("No handoffs.");
    }
    let now = clock::now();
    let row = |h: &HandoffView| {
        let what = h
            .error
            .clone()
            .or_else(|| h.stage.clone())
            .unwrap_or_default();
        vec![
            h.id.to_string(),
            h.state.clone(),
            h.platform.clone(),
            h.session.clone(),
            format!("{} ago", clock::age(now - h.requested_at)),
            what,
        ]
    };
    out.table(
        &[
            "ID",
            "STATE",
            "PLATFORM",
            "SESSION",
            "REQUESTED",
            "STAGE OR ERROR",
        ],
        &handoffs.iter().map(row).collect::<Vec<_>>(),
    )
}

pub(super) async fn recent(store: &Store, limit: usize) -> Result<Vec<HandoffView>, CliError> {
    Ok(listed(store.list_handoffs(None, false, limit).await?))
}

fn listed(handoffs: Vec<Handoff>) -> Vec<HandoffView> {
    handoffs.iter().map(views::listed_handoff).collect()
}

async fn find(backend: &Backend, id: i64) -> Result<HandoffView, CliError> {
    match backend {
        Backend::Daemon(client) => Ok(client.call(Call::HandoffShow(HandoffId { id })).await?),
        Backend::Direct(store) => match store.handoff(id)? {
            Some(handoff) => Ok(views::handoff(&handoff)),
            None => Err(CliError::Refused {
                message: format!("there is no handoff {id}"),
                hint: Some("see `hermesctl handoffs`".into()),
                kind: "not_found".into(),
            }),
        },
    }
}

fn show(out: &Output, handoff: &HandoffView) -> Result<(), CliError> {
    out.value(handoff)?;
    let state = out.styled(state_style(&handoff.state), &handoff.state);
    out.line(format!(
        "{} to {}: {state}",
        out.styled(BOLD, &format!("Handoff {}", handoff.id)),
        handoff.platform
    ))?;
    out.line(format!("session    {}", handoff.session))?;
    out.line(format!(
        "requested  {} by {}",
        clock::readable(handoff.requested_at),
        handoff.via
    ))?;
    for (name, value) in [
        ("note", &handoff.note),
        ("error", &handoff.error),
        ("home", &handoff.home_channel),
        ("thread", &handoff.thread),
        ("no thread", &handoff.no_thread),
        ("bound to", &handoff.session_key),
    ] {
        if let Some(value) = value {
            out.line(format!("{name:<10} {value}"))?;
        }
    }
    let mut before = handoff.requested_at;
    for stage in &handoff.stages {
        out.line(format!(
            "  {:<10} {}  +{:.1} ms",
            stage.stage,
            clock::readable(stage.at),
            (stage.at - before).max(0.0) * 1000.0
        ))?;
        before = stage.at;
    }
    match &handoff.reply {
        Some(reply) => out.line(format!("reply\n  {}", reply.replace('\n', "\n  "))),
        None => Ok(()),
    }
}

async fn cancel(backend: &Backend, out: &Output, id: i64) -> Result<(), CliError> {
    let handoff = match backend {
        Backend::Daemon(client) => client.call(Call::HandoffCancel(HandoffId { id })).await?,
        Backend::Direct(store) => {
            let pending = find(backend, id).await?;
            // Without a daemon nothing runs, so only a request that nobody has claimed can be taken back; the session's
            // row may by now belong to a later one than this.
            let withdrawn = pending.state == HandoffState::Pending.as_str()
                && store
                    .withdraw_handoff(&pending.session, "cancelled")
                    .await?;
            if !withdrawn {
                return Err(CliError::Refused {
                    message: format!(
                        "handoff {id} is {} and cannot be cancelled without a daemon",
                        pending.state
                    ),
                    hint: Some(
                        "a running one is resumed or rolled back when hermesd starts".into(),
                    ),
                    kind: "too_late".into(),
                });
            }
            find(backend, id).await?
        }
    };
    out.value(&handoff)?;
    out.line(format!(
        "Handoff {id} is {}: {}.",
        handoff.state,
        handoff.error.as_deref().unwrap_or("no reason given")
    ))
}
