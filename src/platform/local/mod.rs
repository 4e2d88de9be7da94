//! The embedded platform. Its chats are in the store. `hermesctl attach` reads and writes them.

mod descriptor;

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    AdapterContext, BuildError, Capabilities, Dedup, OutboundMessage, Platform, PlatformError,
};
use crate::config::PlatformConfig;
use crate::domain::{ChatType, Source};
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::events::{Bus, Event};
use crate::store::{LocalMessage, Store, StoreError};
pub use descriptor::DESCRIPTOR;

pub const NAME: &str = "local";

pub struct Local {
    store: Store,
    bus: Bus,
}

impl Local {
    pub fn new(store: Store, bus: Bus) -> Local {
        Local { store, bus }
    }
}

pub fn build(
    _settings: &PlatformConfig,
    context: AdapterContext,
) -> Result<Arc<dyn Platform>, BuildError> {
    let (store, bus) = (context.embedded_chats().clone(), context.events().clone());
    Ok(Arc::new(Local::new(store, bus)))
}

/// The source of a message in a local chat. One person talks there, so every chat is a private one.
pub fn source(chat_id: &str, thread_id: Option<&str>) -> Source {
    let mut source = Source::new(NAME, ChatType::Dm, chat_id);
    source.thread_id = thread_id.filter(|t| !t.is_empty()).map(str::to_owned);
    source
}

pub fn message_event(message: &LocalMessage) -> Event {
    Event::LocalMessage {
        id: message.id,
        chat_id: message.chat_id.clone(),
        thread_id: message.thread_id.clone(),
        author: message.author.clone(),
        text: message.text.clone(),
        at: message.at,
    }
}

#[async_trait]
impl Platform for Local {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            threads: true,
            send_dedup: Dedup::Always,
            thread_dedup: Dedup::Always,
            buttons: false,
            files: false,
        }
    }

    async fn connect(&self) -> Result<(), PlatformError> {
        Ok(())
    }

    async fn open_thread(
        &self,
        home: &HomeChannel,
        title: &str,
        open_key: &str,
    ) -> Result<ThreadOutcome, PlatformError> {
        let id = self
            .store
            .open_local_thread(&home.chat_id, title, open_key)
            .await
            .map_err(explain)?;
        Ok(ThreadOutcome::Thread {
            id: id.to_string(),
            title: title.to_owned(),
            repeated: false,
            within: None,
        })
    }

    fn destination(&self, home: &HomeChannel, opened: &ThreadOutcome) -> Source {
        let (thread, name) = match opened {
            ThreadOutcome::Thread { id, title, .. } => (Some(id.as_str()), Some(title.clone())),
            ThreadOutcome::Chat { .. } => (home.thread_id.as_deref(), home.name.clone()),
        };
        Source {
            chat_name: name,
            ..source(&home.chat_id, thread)
        }
    }

    fn precedes(&self, message_id: &str, other: &str) -> Option<bool> {
        super::by_number(message_id, other)
    }

    async fn send(
        &self,
        to: &Source,
        what: OutboundMessage<'_>,
        send_key: &str,
    ) -> Result<String, PlatformError> {
        let message = self
            .store
            .send_local(to, what.text, send_key)
            .await
            .map_err(explain)?;
        self.bus.publish(message_event(&message));
        Ok(message.id.to_string())
    }
}

fn explain(error: StoreError) -> PlatformError {
    match error.is_transient() {
        true => PlatformError::Storage(error.to_string()),
        false => PlatformError::Permanent(error.to_string()),
    }
}
