//! `handoff.request`, `.wait`, `.list`, `.show`, `.cancel`, `.retry`.

use crate::control::Desk;
use crate::control::handlers::{Answer, LONGEST_LIST, USUAL_LIST, answer, not_found, refused};
use crate::domain::{Handoff, HandoffState, RequestedVia};
use crate::events::Event;
use crate::handoff::request::{self, Wish};
use crate::journal_ids;
use crate::protocol::{HandoffList, HandoffRequest, RpcError};
use crate::sessions::Terminal;
use crate::sessions::{ChosenBy, resolve};
use crate::views;

pub(super) async fn request(desk: &Desk, wish: HandoffRequest) -> Answer {
    let wish = Wish {
        platform: wish.platform,
        session: wish.session,
        note: wish.note,
        tty: wish.tty,
        terminal: Terminal {
            ids: wish.terminals,
            since: wish.terminal_since,
        },
        after_turn: wish.after_turn,
        force: wish.force,
    };
    if let Some(session) = &wish.session {
        desk.terminals.ensure_row(session).await?;
    }
    let (handoff, chosen_by) = ask(desk, &wish).await?;
    answer(&views::requested_handoff(&handoff, chosen_by))
}

async fn ask(desk: &Desk, wish: &Wish) -> Result<(Handoff, Option<ChosenBy>), RpcError> {
    desk.store.expect_write();
    let is_busy = |session: &str| desk.turns.is_busy(session);
    let (handoff, chosen_by) = request::request(
        &desk.store,
        &desk.platforms,
        is_busy,
        wish,
        RequestedVia::Socket,
    )
    .await?;
    desk.bus.tell_requested(&handoff);
    desk.queue.requested(&handoff);
    Ok((handoff, chosen_by))
}

fn find(desk: &Desk, id: i64) -> Result<Handoff, RpcError> {
    let handoff = desk.store.handoff(id)?;
    handoff.ok_or_else(|| unknown(id))
}

fn unknown(id: i64) -> RpcError {
    not_found(&format!("handoff {id}"), "see `hermesctl handoffs`")
}

/// Resolves when the handoff has ended. Listens before it looks, so that no end falls in between.
pub(in crate::control) async fn ended(desk: &Desk, id: i64) -> Result<(), RpcError> {
    loop {
        let mut ending = desk.bus.ending(id);
        match desk.store.handoff_state_of(id)? {
            None => return Err(unknown(id)),
            Some(state) if state.is_final() => return Ok(()),
            Some(_) => ending.told().await,
        }
    }
}

pub(super) async fn list(desk: &Desk, wish: HandoffList) -> Answer {
    let session = match wish.session {
        Some(name) => Some(resolve(&desk.store, &name)?.id),
        None => None,
    };
    let limit = wish.limit.unwrap_or(USUAL_LIST).min(LONGEST_LIST);
    let handoffs = desk
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

pub(in crate::control) fn show(desk: &Desk, id: i64) -> Answer {
    answer(&views::handoff(&find(desk, id)?))
}

pub(super) async fn cancel(desk: &Desk, id: i64) -> Answer {
    let handoff = find(desk, id)?;
    let stopped = match handoff.state {
        HandoffState::Pending => {
            let withdrawn = desk
                .store
                .withdraw_handoff(&handoff.session_id, "cancelled")
                .await?;
            if withdrawn {
                desk.bus.tell_requested(&handoff);
                let Handoff {
                    session_id,
                    platform,
                    ..
                } = handoff;
                desk.metrics.handoff_ended(&platform, Some("cancelled"));
                tracing::info!(
                    message_id = journal_ids::HANDOFF_FAILED,
                    handoff = id,
                    session = session_id,
                    platform,
                    reason = "cancelled",
                    "handoff failed"
                );
                desk.bus.tell(Event::HandoffEnded {
                    id,
                    session_id,
                    platform,
                    state: HandoffState::Failed,
                    error: Some("cancelled".into()),
                });
            }
            // It may have been claimed in this moment; then it is stopped like any running one.
            withdrawn || stop_running(desk, id).await?
        }
        HandoffState::Running => stop_running(desk, id).await?,
        HandoffState::Completed | HandoffState::Failed => false,
    };
    if !stopped {
        let now = find(desk, id)?;
        let message = format!(
            "handoff {id} can no longer be cancelled: it is {}",
            now.state.as_str()
        );
        return Err(refused(
            "too_late",
            message,
            "a completed handoff is undone by taking the session back",
        ));
    }
    ended(desk, id).await?;
    show(desk, id)
}

async fn stop_running(desk: &Desk, id: i64) -> Result<bool, RpcError> {
    let asked = desk.store.cancel_handoff(id).await?;
    if asked {
        desk.queue.cancel(id);
    }
    Ok(asked)
}

pub(super) async fn retry(desk: &Desk, id: i64) -> Answer {
    let handoff = find(desk, id)?;
    if handoff.state != HandoffState::Failed {
        let message = format!(
            "handoff {id} is {}, and only a failed one can be tried again",
            handoff.state.as_str()
        );
        return Err(refused("not_failed", message, "see `hermesctl handoffs`"));
    }
    let wish = Wish {
        platform: handoff.platform,
        session: Some(handoff.session_id),
        note: handoff.note,
        after_turn: handoff.after_turn,
        ..Wish::default()
    };
    answer(&views::handoff(&ask(desk, &wish).await?.0))
}
