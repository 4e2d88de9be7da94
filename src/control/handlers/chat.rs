//! Handles `chat.open`, `.say`, `.answer`, `.stop` and `.leave`, which make a connection a terminal.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::control::ControlContext;
use crate::control::handlers::{Answer, answer, refused};
use crate::domain::RefusalKind;
use crate::protocol::{ChatOpen, ChatSay, ChatTurnView, ChatView, RpcError};
use crate::terminal::{AttachedTerminal, Opening, Reason, Terminals};
use crate::turn::AnswerOutcome;
use crate::views;

/// The attached terminal of a connection, if there is one.
#[derive(Clone, Default)]
pub(in crate::control) struct TerminalSlot(Arc<Mutex<Option<Arc<AttachedTerminal>>>>);

impl TerminalSlot {
    async fn attached(&self) -> Result<Arc<AttachedTerminal>, RpcError> {
        let attached = self.0.lock().await.clone();
        attached.ok_or_else(|| {
            refused(
                RefusalKind::NotOpen,
                "no session is open on this connection",
                "send chat.open first",
            )
        })
    }

    pub(in crate::control) fn is_attached(&self) -> bool {
        // A request that holds the lock attaches or detaches right now.
        self.0.try_lock().map_or(true, |slot| slot.is_some())
    }

    /// Call it when the connection ends.
    pub(in crate::control) fn detach(self, terminals: &Terminals) {
        terminals.abandon(async move { self.0.lock().await.take() });
    }
}

/// A terminal that is attached already leaves its session after the new one is open.
pub(super) async fn open(context: &ControlContext, slot: &TerminalSlot, wish: ChatOpen) -> Answer {
    let mut attached = slot.0.lock().await;
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
            cwd: wish.cwd,
            here: wish.here,
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
        agent: context.terminals.agent_name(&opened.terminal),
    })
}

pub(super) async fn say(context: &ControlContext, slot: &TerminalSlot, wish: ChatSay) -> Answer {
    let terminal = slot.attached().await?;
    let outcome = context.terminals.say(&terminal, &wish.text).await?;
    answer(&ChatTurnView {
        session: terminal.session_id(),
        reply: views::shortened(&outcome.reply),
        interrupted: outcome.interrupted,
        error: outcome.error,
        note: outcome.note,
    })
}

pub(super) async fn stop(slot: &TerminalSlot) -> Answer {
    let stopped = slot.attached().await?.stop();
    answer(&serde_json::json!({"stopped": stopped}))
}

pub(super) async fn leave(context: &ControlContext, slot: &TerminalSlot) -> Answer {
    if let Some(terminal) = slot.0.lock().await.take() {
        context.terminals.leave(&terminal, Reason::Closed).await;
    }
    answer(&serde_json::json!({}))
}

pub(super) async fn answer_question(
    context: &ControlContext,
    slot: &TerminalSlot,
    wish: ChatSay,
) -> Answer {
    let terminal = slot.attached().await?;
    match context
        .turns
        .questions
        .answer_in_words(terminal.conversation(), &wish.text)
    {
        AnswerOutcome::Answered(id) => answer(&serde_json::json!({"question": id.to_string()})),
        AnswerOutcome::NotAnAnswer(question) => Err(refused(
            RefusalKind::NoAnswer,
            question,
            "answer with a number",
        )),
        AnswerOutcome::NoQuestion => Err(refused(
            RefusalKind::NoQuestion,
            "no question is open",
            "send it as a message",
        )),
    }
}
