//! `chat.open`, `.say`, `.stop`, `.leave`: a connection that is a terminal.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::control::ControlContext;
use crate::control::handlers::{Answer, answer, refused};
use crate::domain::RefusalKind;
use crate::protocol::{ChatOpen, ChatSay, ChatTurnView, ChatView, RpcError};
use crate::terminal::{AttachedTerminal, Opening, Reason, Terminals};
use crate::turn::AnswerOutcome;
use crate::views;

/// The seat of a connection, if it has taken one.
#[derive(Clone, Default)]
pub(in crate::control) struct Place(Arc<Mutex<Option<Arc<AttachedTerminal>>>>);

impl Place {
    async fn seat(&self) -> Result<Arc<AttachedTerminal>, RpcError> {
        let seat = self.0.lock().await.clone();
        seat.ok_or_else(|| {
            refused(
                RefusalKind::NotOpen,
                "no session is open here",
                "say chat.open first",
            )
        })
    }

    pub(in crate::control) fn is_taken(&self) -> bool {
        // Whoever holds it is just attached down or getting up.
        self.0.try_lock().map_or(true, |place| place.is_some())
    }

    /// The connection is over.
    pub(in crate::control) fn vacate(self, terminals: &Terminals) {
        terminals.abandon(async move { self.0.lock().await.take() });
    }
}

/// Whoever sits somewhere already gets up there when the new place is sure.
pub(super) async fn open(context: &ControlContext, place: &Place, wish: ChatOpen) -> Answer {
    let mut attached = place.0.lock().await;
    let reason = match wish.session {
        Some(_) => Reason::ResumedOther,
        None => Reason::NewSession,
    };
    let opened = context
        .terminals
        .open(Opening {
            session: wish.session,
            title: wish.title,
            agent: wish.agent,
            tty: wish.tty,
            at: attached.clone(),
        })
        .await?;
    let before = attached.replace(opened.terminal.clone());
    if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, &opened.terminal)) {
        context.terminals.leave(&before, reason).await;
    }
    answer(&ChatView {
        session: views::session(&opened.session),
        resumed: opened.resumed,
        came_from: opened.came_from,
    })
}

pub(super) async fn say(context: &ControlContext, place: &Place, wish: ChatSay) -> Answer {
    let seat = place.seat().await?;
    let outcome = context.terminals.say(&seat, &wish.text).await?;
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

pub(super) async fn leave(context: &ControlContext, place: &Place) -> Answer {
    if let Some(seat) = place.0.lock().await.take() {
        context.terminals.leave(&seat, Reason::Closed).await;
    }
    answer(&serde_json::json!({}))
}

pub(super) async fn answer_question(
    context: &ControlContext,
    place: &Place,
    wish: ChatSay,
) -> Answer {
    let seat = place.seat().await?;
    match context
        .turns
        .questions
        .hear(seat.conversation(), &wish.text)
    {
        AnswerOutcome::Answered(id) => answer(&serde_json::json!({"question": id.to_string()})),
        AnswerOutcome::NotAnAnswer(question) => Err(refused(
            RefusalKind::NoAnswer,
            question,
            "answer with a number",
        )),
        AnswerOutcome::NoQuestion => Err(refused(
            RefusalKind::NoQuestion,
            "the agent has asked nothing, or waits no longer",
            "say it as a message",
        )),
    }
}
