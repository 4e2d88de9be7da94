//! Waits until a person writes in a chat. Some vendors accept no message before that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use crate::domain::Source;

/// Platform and chat.
type ChatId = (String, String);

/// The chats that replies are being sent to. An entry exists while a [`WindowWait`] for its chat does.
#[derive(Default)]
pub(super) struct ClosedWindows {
    chats: Mutex<HashMap<ChatId, watch::Sender<u64>>>,
}

impl ClosedWindows {
    /// Counts the person's messages from now on.
    pub(super) fn when_they_write(self: &Arc<Self>, source: &Source) -> WindowWait {
        let chat = chat_of(source);
        let messages = self.locked().entry(chat.clone()).or_default().subscribe();
        WindowWait {
            windows: self.clone(),
            chat,
            messages: Some(messages),
        }
    }

    pub(super) fn open(&self, source: &Source) {
        if let Some(messages) = self.locked().get(&chat_of(source)) {
            messages.send_modify(|count| *count += 1);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<ChatId, watch::Sender<u64>>> {
        self.chats.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn chat_of(source: &Source) -> ChatId {
    let chat = source.chat_id.clone().unwrap_or_default();
    (source.platform.clone(), chat)
}

pub(super) struct WindowWait {
    windows: Arc<ClosedWindows>,
    chat: ChatId,
    messages: Option<watch::Receiver<u64>>,
}

impl WindowWait {
    /// Returns once the person has written since the wait was made.
    pub(super) async fn opened(mut self) {
        if let Some(messages) = &mut self.messages
            && messages.changed().await.is_err()
        {
            std::future::pending().await
        }
    }
}

impl Drop for WindowWait {
    fn drop(&mut self) {
        self.messages = None;
        let mut chats = self.windows.locked();
        if chats.get(&self.chat).is_some_and(|chat| chat.is_closed()) {
            chats.remove(&self.chat);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::domain::ChatType;

    fn is_ready(future: impl Future) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(pin!(future).poll(&mut context), Poll::Ready(_))
    }

    #[test]
    fn only_a_message_in_the_same_chat_after_the_wait_began_opens_it() {
        let windows = Arc::new(ClosedWindows::default());
        let dm = |chat: &str| Source::new("whatsapp_cloud", ChatType::Dm, chat);
        windows.open(&dm("1"));
        let first = windows.when_they_write(&dm("1"));
        windows.open(&dm("2"));
        let second = windows.when_they_write(&dm("1"));
        assert!(!is_ready(first.opened()));
        windows.open(&dm("1"));
        assert!(is_ready(second.opened()));
        assert!(windows.locked().is_empty());
    }
}
