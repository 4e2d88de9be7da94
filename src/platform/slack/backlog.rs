//! Fetches the messages of the time without a connection from the history of their chats.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;

use super::address::{Kind, time_of, ts_at};
use super::failure::Failure;
use super::listen::Position;
use super::{NAME, Slack};
use crate::domain::{ChatType, Source};
use crate::platform::{InboundEvent, ListenContext, PlatformError};

/// Events of several channels may arrive in another order than their times, so the backlog begins this much earlier.
const OVERLAP: f64 = 60.0;
/// The most messages of one chat that are fetched after an absence.
const MOST_MISSED: usize = 1000;
/// The most chats whose history is read after an absence. Each costs a call, and Slack allows about fifty in a minute.
const MOST_CHATS: usize = 40;
const AT_ONCE: usize = 4;
/// The longest wait that Slack may ask for, before the rest is left for the next time.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The history of a channel, or of a thread in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct History {
    channel: String,
    thread: Option<String>,
    is_private: bool,
}

impl Slack {
    /// Accepts what was said without us in the chats that are on a session, in the order in which it was said. In private
    /// chats, what was said outside of threads too.
    pub(super) async fn fetch_missed(
        &self,
        context: &ListenContext,
        position: &mut Position,
    ) -> Result<(), PlatformError> {
        let Some(last) = position.message.as_deref().and_then(time_of) else {
            return Ok(());
        };
        let oldest = ts_at(last - OVERLAP);
        let bound = self.context.bound_chats(MOST_CHATS).await?;
        let (ours, oldest) = (self.me().workspace, oldest.as_str());
        let histories = histories(bound.iter().filter(|chat| is_of(chat, &ours)));
        let read = stream::iter(histories)
            .map(|history| async move {
                let messages = self.read_history(&history, oldest).await;
                (history, messages)
            })
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>();
        let mut missed = Vec::new();
        for (history, messages) in read.await {
            match messages {
                Ok(messages) => missed.extend(messages.into_iter().map(|mut message| {
                    message["channel"] = history.channel.clone().into();
                    if history.is_private && Kind::of_id(&history.channel).is_none() {
                        message["channel_type"] = "mpim".into();
                    }
                    message
                })),
                Err(failure) if failure.is_final() => {
                    tracing::debug!(
                        ?failure,
                        ?history,
                        platform = NAME,
                        "history of a chat cannot be read"
                    );
                }
                Err(failure) => return Err(failure.into()),
            }
        }
        missed.sort_by_key(|message| super::address::micros(message["ts"].as_str()?));
        for message in &missed {
            let accepted = self.accept(context, message, InboundEvent::Message).await?;
            if let Some(ts) = accepted {
                position.advance(&ts);
            }
        }
        Ok(())
    }

    /// Waits if Slack asks for it.
    async fn read_history(&self, history: &History, oldest: &str) -> Result<Vec<Value>, Failure> {
        let (channel, thread) = (&history.channel, history.thread.as_deref());
        loop {
            match self.messages(channel, thread, oldest, MOST_MISSED).await {
                Err(Failure::Wait(pause)) if pause <= LONGEST_WAIT => {
                    tokio::time::sleep(pause).await;
                }
                read => return read,
            }
        }
    }
}

/// A chat of another workspace cannot be read with this token.
fn is_of(chat: &Source, workspace: &str) -> bool {
    chat.scope_id.as_deref().is_none_or(|of| of == workspace)
}

/// The histories of these chats. Each person may have a session of their own in a chat, so each history is named once.
fn histories<'a>(chats: impl Iterator<Item = &'a Source>) -> Vec<History> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |history: History| {
        if seen.insert(history.clone()) {
            found.push(history);
        }
    };
    for chat in chats {
        let Some(channel) = chat.chat_id.clone() else {
            continue;
        };
        let is_private = chat.chat_type == ChatType::Dm;
        let history = |thread| History {
            channel: channel.clone(),
            thread,
            is_private,
        };
        add(history(chat.thread_id.clone()));
        if is_private {
            add(history(None));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_read_once_and_private_chats_outside_of_threads_too() {
        let of = |chat_type, chat: &str, thread: Option<&str>| Source {
            thread_id: thread.map(str::to_owned),
            ..Source::new(NAME, chat_type, chat)
        };
        let chats = [
            of(ChatType::Group, "C1", Some("1.1")),
            of(ChatType::Group, "C1", Some("1.1")),
            of(ChatType::Dm, "D1", Some("2.1")),
            of(ChatType::Dm, "D1", Some("2.2")),
        ];
        let read = histories(chats.iter());
        let read: Vec<(&str, Option<&str>)> = read
            .iter()
            .map(|history| (history.channel.as_str(), history.thread.as_deref()))
            .collect();
        assert_eq!(
            read,
            [
                ("C1", Some("1.1")),
                ("D1", Some("2.1")),
                ("D1", None),
                ("D1", Some("2.2"))
            ]
        );
    }
}
