//! Handles chats that have ended: releases their sessions, and says so once where people can still read it.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::domain::{EndReason, EndedPlace, HomeChannel, Source};
use crate::events::Event;
use crate::inbound::Inner;
use crate::journal_ids;
use crate::platform::{Platform, PlatformError, thread_word};
use crate::store::retry_while_busy;
use crate::store::{BoundChat, ChatsEnd, ReleasedChats, StoreError};

impl Inner {
    /// Releases the sessions of all chats in a place that has ended. A repeated event finds none.
    pub(super) async fn chats_ended(
        self: &Arc<Self>,
        platform: &'static str,
        place: &EndedPlace,
        reason: EndReason,
    ) -> Result<(), StoreError> {
        let find = || self.store.chats_in(platform, place);
        let (mut chats, mut handoffs) = (Vec::new(), Vec::new());
        for chat in retry_while_busy(&self.stop, find).await? {
            match chat.handoff {
                Some(id) => handoffs.push(id),
                None => chats.push(chat),
            }
        }
        for id in handoffs {
            let later = self
                .clone()
                .when_settled(id, platform, place.clone(), reason);
            tokio::spawn(later);
        }
        if chats.is_empty() {
            return Ok(());
        }
        let tell = match self.platforms.adapter(platform) {
            Some(adapter) => self.place_to_tell(&adapter, &chats, place, reason).await,
            None => None,
        };
        let end = ChatsEnd {
            platform: platform.to_owned(),
            reason,
            word: thread_word(platform).to_owned(),
            chats,
            tell,
        };
        let release = || self.store.end_chats(&end);
        let released = retry_while_busy(&self.stop, release).await?;
        self.publish_release(platform, reason, end.tell.is_some(), &released);
        if let Some(note) = released.note {
            self.post(note);
        }
        Ok(())
    }

    fn publish_release(
        &self,
        platform: &str,
        reason: EndReason,
        told: bool,
        released: &ReleasedChats,
    ) {
        for chat in &released.chats {
            let (session, key, reason) = (&chat.session_id, &chat.key, reason.as_str());
            let message_id = journal_ids::CHAT_ENDED;
            match told {
                true => tracing::info!(
                    message_id,
                    platform,
                    session,
                    key,
                    reason,
                    "chat ended, its session is on no chat now"
                ),
                false => tracing::warn!(
                    message_id,
                    platform,
                    session,
                    key,
                    reason,
                    "chat ended, its session is on no chat now, and no chat is left to say so"
                ),
            }
            self.bus.publish(Event::SessionReleased {
                session_id: chat.session_id.clone(),
                platform: platform.to_owned(),
                chat_id: chat.source.chat_id.clone(),
                reason,
                told,
            });
        }
    }

    /// The chat around those that ended, else the home channel. `None`: neither is left.
    async fn place_to_tell(
        &self,
        adapter: &Arc<dyn Platform>,
        chats: &[BoundChat],
        place: &EndedPlace,
        reason: EndReason,
    ) -> Option<Source> {
        let is_left = |chat: &Source| !place.contains(chat);
        if reason != EndReason::Removed {
            let mut around = chats.iter().filter_map(|chat| adapter.parent(&chat.source));
            if let Some(around) = around.find(is_left) {
                return Some(around);
            }
        }
        let home = self.platforms.home(adapter.name())?;
        let HomeChannel {
            chat_id, thread_id, ..
        } = &home;
        let is_ended = |id: &String| *place == EndedPlace::Chat(id.clone());
        if is_ended(chat_id) || thread_id.as_ref().is_some_and(is_ended) {
            return None;
        }
        match adapter.find_home(&home).await {
            Ok(home) => Some(home).filter(is_left),
            Err(PlatformError::Permanent(reason) | PlatformError::Gone(reason)) => {
                tracing::debug!(reason, "home channel cannot be told that a chat ended");
                None
            }
            // The note waits until the platform answers.
            Err(_) => {
                let unopened = crate::domain::ThreadOutcome::chat("not opened");
                Some(adapter.destination(&home, &unopened)).filter(is_left)
            }
        }
    }

    /// A handoff fails if its chat ends. If it was completed before, its chat is released then.
    fn when_settled(
        self: Arc<Self>,
        handoff: i64,
        platform: &'static str,
        place: EndedPlace,
        reason: EndReason,
    ) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let mut ending = self.bus.ending(handoff);
            let look = || async { self.store.handoff(handoff) };
            match retry_while_busy(&self.draining, look).await {
                Ok(Some(handoff)) if handoff.ended_at.is_none() => tokio::select! {
                    () = ending.ended() => {}
                    () = self.draining.cancelled() => return,
                },
                Ok(_) => {}
                Err(_) => return,
            }
            if let Err(error) = self.chats_ended(platform, &place, reason).await {
                tracing::error!(%error, platform, "chats that have ended are not released");
            }
        })
    }
}
