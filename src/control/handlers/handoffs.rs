//! Handles `handoff.request`, `.wait`, `.list`, `.show`, `.cancel` and `.retry`.

use crate::control::ControlContext;
use crate::control::handlers::{Answer, LONGEST_LIST, USUAL_LIST, answer, not_found, refused};
use crate::domain::{Handoff, HandoffState, RefusalKind, RequestedVia};
use crate::events::Event;
use crate::handoff::request::{self, HandoffWish};
use crate::journal_ids;
use crate::protocol::{HandoffList, HandoffRequest, RpcError};
use crate::sessions::TerminalNames;
use crate::sessions::{ChosenBy, resolve};
use crate::views;

pub(super) async fn request(context: &ControlContext, wish: HandoffRequest) -> Answer {
    let wish = HandoffWish {
        platform: wish.platform,
        session: wish.session,
        note: wish.note,
        tty: wish.tty,
        terminal: TerminalNames {
            ids: wish.terminals,
            since: wish.terminal_since,
        },
        after_turn: wish.after_turn,
        force: wish.force,
        replace: wish.replace,
    };
    if let Some(session) = &wish.session {
        context.terminals.ensure_row(session).await?;
    }
    let (handoff, chosen_by) = ask(context, &wish).await?;
    answer(&views::requested_handoff(&handoff, chosen_by))
}

async fn ask(
    context: &ControlContext,
    wish: &HandoffWish,
) -> Result<(Handoff, Option<ChosenBy>), RpcError> {
    context.store.expect_write();
    let is_busy = |session: &str| context.turns.is_busy(session);
    let (handoff, chosen_by) = request::request(
        &context.store,
        &context.platforms,
        is_busy,
        wish,
        RequestedVia::Socket,
    )
    .await?;
    context.bus.publish_requested(&handoff);
    context.queue.requested(&handoff);
    Ok((handoff, chosen_by))
}

fn find(context: &ControlContext, id: i64) -> Result<Handoff, RpcError> {
    let handoff = context.store.handoff(id)?;
    handoff.ok_or_else(|| unknown(id))
}

fn unknown(id: i64) -> RpcError {
    not_found(&format!("handoff {id}"), "see `hermesctl handoffs`")
}

/// Resolves when the handoff has ended. It subscribes before it reads the store, so that it misses no end.
pub(in crate::control) async fn ended(context: &ControlContext, id: i64) -> Result<(), RpcError> {
    loop {
        let mut ending = context.bus.ending(id);
        match context.store.handoff_state_of(id)? {
            None => return Err(unknown(id)),
            Some(state) if state.is_final() => return Ok(()),
            Some(_) => ending.ended().await,
        }
    }
}

pub(super) async fn list(context: &ControlContext, wish: HandoffList) -> Answer {
    let session = match wish.session {
        Some(name) => Some(resolve(&context.store, &name)?.id),
        None => None,
    };
    let limit = wish.limit.unwrap_or(USUAL_LIST).min(LONGEST_LIST);
    let handoffs = context
        .store
        .list_handoffs(session.as_deref(), wish.in_flight, limit)
        .await?;
    answer(
        &handoffs
            .iter()
            .map(views::listed_handoff)
            .collect::<Vec<_>>(),
    )
}

pub(in crate::control) fn show(context: &ControlContext, id: i64) -> Answer {
    answer(&views::handoff(&find(context, id)?))
}

pub(super) async fn cancel(context: &ControlContext, id: i64) -> Answer {
    let handoff = find(context, id)?;
    let stopped = match handoff.state {
        HandoffState::Pending => {
            let withdrawn = context
                .store
                .withdraw_handoff(&handoff.session_id, "cancelled")
                .await?;
            if withdrawn {
                context.bus.publish_requested(&handoff);
                let Handoff {
                    session_id,
                    platform,
                    ..
                } = handoff;
                context.metrics.handoff_ended(&platform, Some("cancelled"));
                tracing::info!(
                    message_id = journal_ids::HANDOFF_FAILED,
                    handoff = id,
                    session = session_id,
                    platform,
                    reason = "cancelled",
                    "handoff failed"
                );
                context.bus.publish(Event::HandoffEnded {
                    id,
                    session_id,
                    platform,
                    state: HandoffState::Failed,
                    error: Some("cancelled".into()),
                });
            }
            // If it was claimed in the meantime, cancel it as a running one.
            withdrawn || stop_running(context, id).await?
        }
        HandoffState::Running => stop_running(context, id).await?,
        HandoffState::Completed | HandoffState::Failed => false,
    };
    if !stopped {
        let now = find(context, id)?;
        let message = format!(
            "handoff {id} can no longer be cancelled: its state is {}",
            now.state.as_str()
        );
        return Err(refused(
            RefusalKind::TooLate,
            message,
            "`hermesctl resume` brings the session back after a completed handoff",
        ));
    }
    ended(context, id).await?;
    show(context, id)
}

async fn stop_running(context: &ControlContext, id: i64) -> Result<bool, RpcError> {
    let asked = context.store.cancel_handoff(id).await?;
    if asked {
        context.queue.cancel(id);
    }
    Ok(asked)
}

pub(super) async fn retry(context: &ControlContext, id: i64) -> Answer {
    let handoff = find(context, id)?;
    if handoff.state != HandoffState::Failed {
        let message = format!(
            "handoff {id} is {}: only a failed handoff can be retried",
            handoff.state.as_str()
        );
        return Err(refused(
            RefusalKind::NotFailed,
            message,
            "see `hermesctl handoffs`",
        ));
    }
    let wish = HandoffWish {
        platform: handoff.platform,
        session: Some(handoff.session_id),
        note: handoff.note,
        after_turn: handoff.after_turn,
        ..HandoffWish::default()
    };
    answer(&views::handoff(&ask(context, &wish).await?.0))
}
