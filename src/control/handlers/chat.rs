//! `chat.open`, `.say`, `.stop`, `.leave`: a connection that is a terminal.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::control::Desk;
use crate::control::handlers::{Answer, answer, refused};
use crate::protocol::{ChatOpen, ChatSay, ChatTurnView, ChatView, RpcError};
use crate::terminal::{Opening, Reason, Seat, Terminals};
use crate::turn::Heard;
use crate::views;

/// The seat of a connection, if it has taken one.
#[derive(Clone, Default)]
pub(in crate::control) struct Place(Arc<Mutex<Option<Arc<Seat>>>>);

impl Place {
    async fn seat(&self) -> Result<Arc<Seat>, RpcError> {
        let seat = self.0.lock().await.clone();
        seat.ok_or_else(|| refused("not_open", "no session is open here", "say chat.open first"))
    }

    pub(in crate::control) fn is_taken(&self) -> bool {
        // Whoever holds it is just sitting down or getting up.
        self.0.try_lock().map_or(true, |place| place.is_some())
    }

    /// The connection is over.
    pub(in crate::control) fn vacate(self, terminals: &Terminals) {
        terminals.abandon(async move { self.0.lock().await.take() });
    }
}

/// Whoever sits somewhere already gets up there when the new place is sure.
pub(super) async fn open(desk: &Desk, place: &Place, wish: ChatOpen) -> Answer {
    let mut sitting = place.0.lock().await;
    let reason = match wish.session {
        Some(_) => Reason::ResumedOther,
        None => Reason::NewSession,
    };
    let opened = desk
        .terminals
        .open(Opening {
            session: wish.session,
            title: wish.title,
            agent: wish.agent,
            tty: wish.tty,
            at: sitting.clone(),
        })
        .await?;
    let before = sitting.replace(opened.seat.clone());
    if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &opened.seat)) {
        desk.terminals.leave(&before, reason).await;
    }
    answer(&ChatView {
        session: views::session(&opened.session),
        resumed: opened.resumed,
        came_from: opened.came_from,
    })
}

pub(super) async fn say(desk: &Desk, place: &Place, wish: ChatSay) -> Answer {
    let seat = place.seat().await?;
    let outcome = desk.terminals.say(&seat, &wish.text).await?;
    answer(&ChatTurnView {
        session: seat.session_id(),
        reply: views::shortened(&outcome.reply),
        interrupted: outcome.interrupted,
        error: outcome.error,
        note: outcome.note,
    })
}

pub(super) async fn stop(place: &Place) -> Answer {
    let stopped = place.seat().await?.stop();
    answer(&serde_json::json!({"stopped": stopped}))
}

pub(super) async fn leave(desk: &Desk, place: &Place) -> Answer {
    if let Some(seat) = place.0.lock().await.take() {
        desk.terminals.leave(&seat, Reason::Closed).await;
    }
    answer(&serde_json::json!({}))
}

pub(super) async fn answer_question(desk: &Desk, place: &Place, wish: ChatSay) -> Answer {
    let seat = place.seat().await?;
    match desk.turns.questions.hear(seat.conversation(), &wish.text) {
        Heard::Answered(id) => answer(&serde_json::json!({"question": id.to_string()})),
        Heard::NotAnAnswer(question) => Err(refused("no_answer", question, "answer with a number")),
        Heard::NoQuestion => Err(refused(
            "no_question",
            "the agent has asked nothing, or waits no longer",
            "say it as a message",
        )),
    }
}
