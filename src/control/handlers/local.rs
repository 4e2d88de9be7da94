//! Handles `local.threads`, `local.read` and `local.say`: the chats of the embedded platform.

use crate::control::ControlContext;
use crate::control::handlers::{Answer, LONGEST_LIST, answer, not_found, refused};
use crate::domain::LONGEST_MESSAGE;
use crate::domain::RefusalKind;
use crate::platform::{Availability, local};
use crate::protocol::{LocalRead, LocalSay, RpcError};
use crate::views;

/// The default limit of `local.read`.
const DEFAULT_SCROLLBACK: usize = 200;

pub(super) async fn threads(context: &ControlContext) -> Answer {
    let threads = context.store.local_threads(LONGEST_LIST).await?;
    answer(
        &threads
            .into_iter()
            .map(views::local_thread)
            .collect::<Vec<_>>(),
    )
}

pub(super) async fn read(context: &ControlContext, wish: LocalRead) -> Answer {
    let (chat, thread) = chat_and_thread(context, wish.thread).await?;
    let limit = wish.limit.unwrap_or(DEFAULT_SCROLLBACK).min(LONGEST_LIST);
    let messages = context
        .store
        .local_messages(
            &chat,
            thread.as_deref().unwrap_or_default(),
            wish.after,
            limit,
        )
        .await?;
    answer(&views::local_messages(messages))
}

pub(super) async fn say(context: &ControlContext, wish: LocalSay) -> Answer {
    if let Availability::Off(reason) = context.platforms.availability(local::NAME) {
        return Err(refused(
            RefusalKind::PlatformOff,
            format!("local is not available: {reason}"),
            "see `hermesctl platforms`",
        ));
    }
    if wish.text.trim().is_empty() {
        return Err(refused(
            RefusalKind::Empty,
            "the message is empty",
            "type some text",
        ));
    }
    if wish.text.chars().count() > LONGEST_MESSAGE {
        return Err(refused(
            RefusalKind::TooLong,
            format!("the message is longer than {LONGEST_MESSAGE} characters"),
            "send it in parts",
        ));
    }
    let (chat, thread) = chat_and_thread(context, wish.thread).await?;
    let said = context
        .chats
        .say_local(&chat, thread.as_deref(), &wish.text)
        .await?;
    answer(&views::local_message(said))
}

/// The chat and the thread with this number. Without a number, the home chat itself.
async fn chat_and_thread(
    context: &ControlContext,
    thread: Option<i64>,
) -> Result<(String, Option<String>), RpcError> {
    let Some(id) = thread else {
        return Ok((context.local_home.clone(), None));
    };
    match context.store.local_thread(id).await? {
        Some(thread) => Ok((thread.chat_id, Some(id.to_string()))),
        None => Err(not_found(
            &format!("thread {id}"),
            "see `hermesctl attach local --list`",
        )),
    }
}
