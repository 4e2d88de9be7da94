//! Invoked by `hermesctl handoffs`.
//!
//! Lists, shows, cancels and retries handoffs.

use std::time::Duration;

use super::args::time;
use super::backend::{Backend, Target};
use super::handoff::{WaitLimits, follow_or_leave, requested, subscribe};
use super::output::{BOLD, Column, Output, state_style};
use super::{CliError, pick};
use crate::clock;
use crate::protocol::{Call, HandoffId, HandoffList, HandoffView};

#[derive(Debug, clap::Args)]
pub struct HandoffsArgs {
    #[command(subcommand)]
    pub verb: Option<HandoffsVerb>,
}

#[derive(Debug, clap::Subcommand)]
pub enum HandoffsVerb {
    /// List handoffs, the newest first (the default).
    List {
        /// Only handoffs of this session.
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
        /// Only handoffs that have not ended.
        #[arg(long)]
        in_flight: bool,
        /// The maximum number of handoffs.
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Show one handoff with its stages and times.
    Show {
        /// The number of the handoff [default: you pick one].
        #[arg(value_parser = number)]
        id: Option<i64>,
    },
    /// Cancel a handoff that has not reached the chat yet. Everything is undone.
    Cancel {
        /// The number of the handoff [default: you pick one].
        #[arg(value_parser = number)]
        id: Option<i64>,
    },
    /// Request a failed handoff again and wait for it.
    Retry {
        /// The number of the handoff [default: you pick one].
        #[arg(value_parser = number)]
        id: Option<i64>,
        /// Return as soon as the request is stored.
        #[arg(long, alias = "no-wait")]
        detach: bool,
        /// How long to wait for the end.
        #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
        timeout: Duration,
    },
}

pub(super) async fn run(target: &Target, out: &Output, args: HandoffsArgs) -> Result<(), CliError> {
    let is_named = match &args.verb {
        Some(
            HandoffsVerb::Show { id }
            | HandoffsVerb::Cancel { id }
            | HandoffsVerb::Retry { id, .. },
        ) => id.is_some(),
        _ => true,
    };
    let what = "a handoff by its number";
    pick::check(out, is_named, what, "see `hermesctl handoffs`")?;
    let (_, backend) = target.open().await?;
    let backend = backend.as_ref();
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
        HandoffsVerb::Show { id } => {
            let id = pick::handoff(backend, out, id, &[]).await?;
            show(out, &backend.handoff(id).await?)
        }
        HandoffsVerb::Cancel { id } => {
            let id = pick::handoff(backend, out, id, &["pending", "running"]).await?;
            cancel(backend, out, id).await
        }
        HandoffsVerb::Retry {
            id,
            detach,
            timeout,
        } => {
            let client = backend.daemon()?;
            let id = pick::handoff(backend, out, id, &["failed"]).await?;
            subscribe(client).await?;
            let handoff: HandoffView = client.call(Call::HandoffRetry(HandoffId { id })).await?;
            if detach {
                return requested(out, &handoff);
            }
            let limits = WaitLimits {
                pickup: timeout,
                finish: timeout,
            };
            follow_or_leave(backend, out, handoff, limits).await
        }
    }
}

fn number(text: &str) -> Result<i64, String> {
    text.parse()
        .map_err(|_| "a handoff is named by its number: see `hermesctl handoffs`".to_owned())
}

async fn list(
    backend: &dyn Backend,
    out: &Output,
    session: Option<String>,
    in_flight: bool,
    limit: usize,
) -> Result<(), CliError> {
    let wish = HandoffList {
        session,
        in_flight,
        limit: Some(limit),
    };
    let handoffs = backend.handoffs(wish).await?;
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
            Column::whole("ID"),
            Column::whole("STATE"),
            Column::whole("PLATFORM"),
            Column::whole("SESSION").goes(1),
            Column::whole("REQUESTED").goes(2),
            Column::text("STAGE OR ERROR"),
        ],
        &handoffs.iter().map(row).collect::<Vec<_>>(),
    )
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
            "  {:<10} {}  +{}",
            stage.stage,
            clock::readable(stage.at),
            clock::took(stage.at - before)
        ))?;
        before = stage.at;
    }
    match &handoff.reply {
        Some(reply) => out.line(format!("reply\n  {}", reply.replace('\n', "\n  "))),
        None => Ok(()),
    }
}

async fn cancel(backend: &dyn Backend, out: &Output, id: i64) -> Result<(), CliError> {
    let handoff = backend.cancel_handoff(id).await?;
    out.value(&handoff)?;
    match (handoff.state.as_str(), handoff.error.as_deref()) {
        ("failed", Some("cancelled")) => out.line(format!(
            "Handoff {id} is cancelled. The session stays where it was."
        )),
        (state, error) => out.line(format!(
            "Handoff {id} is {state}: {}.",
            error.unwrap_or("no reason given")
        )),
    }
}
