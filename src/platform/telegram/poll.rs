//! Receives updates by long poll. Each update is stored before it is confirmed to Telegram, so none is lost.

use std::pin::pin;
use std::time::Duration;

use serde_json::Value;
use teloxide_core::payloads::{GetUpdates, GetUpdatesSetters};
use teloxide_core::types::AllowedUpdate;
use tokio::time::Instant;

use crate::clock;
use crate::platform::telegram::diagnose::REMOVE_WEBHOOK;
use crate::platform::telegram::failure::Failure;
use crate::platform::telegram::{NAME, Telegram, parse};
use crate::platform::{InboundEvent, ListenContext, PlatformError};
use crate::store::StoreError;

/// How late the answer to a poll may be before its connection counts as dead.
const DEAF: Duration = Duration::from_secs(10);
/// After about a week without updates, Telegram may restart their numbers at a lower value. With an older cursor we
/// would receive nothing.
const CURSOR_LIVES: f64 = 6.0 * 86_400.0;
/// How long to wait for the next pieces of an album.
const ALBUM_FOLLOWS: Duration = Duration::from_millis(600);
const ALBUM_TRIES: usize = 5;

/// How long the first poll of a connection stays open. Its answer shows that a broken connection works again.
const FIRST_POLL: Duration = Duration::from_secs(5);

/// The shortest time between two polls without updates.
const NOTHING_PAUSE: Duration = Duration::from_secs(1);

const WANTED: [AllowedUpdate; 5] = [
    AllowedUpdate::Message,
    AllowedUpdate::EditedMessage,
    AllowedUpdate::ChannelPost,
    AllowedUpdate::EditedChannelPost,
    AllowedUpdate::CallbackQuery,
];

impl Telegram {
    /// Polls until an error ends the connection, and returns that error.
    pub(super) async fn poll(&self, context: &ListenContext) -> PlatformError {
        let account = self.me().id.to_string();
        let mut offset = match self.context.cursor(&account).await {
            Ok(Some(cursor)) if clock::now() - cursor.at < CURSOR_LIVES => {
                cursor.value.parse().ok()
            }
            Ok(_) => None,
            Err(error) => return error,
        };
        let mut wait = self.rules.poll.min(FIRST_POLL);
        loop {
            let asked = Instant::now();
            let updates = match self.updates_and_moves(context, offset, wait).await {
                Ok(updates) => updates,
                Err(error) => return error,
            };
            context.alive();
            wait = self.rules.poll;
            let updates = match self.whole_albums(updates, offset).await {
                Ok(updates) => updates,
                Err(error) => return error,
            };
            let Some(last) = updates.iter().filter_map(parse::update_id).max() else {
                tokio::time::sleep_until(asked + NOTHING_PAUSE).await;
                continue;
            };
            if let Err(error) = self.report_moves(context).await {
                return PlatformError::Storage(error.to_string());
            }
            for incoming in parse::events(&updates, &self.me(), &self.moves) {
                if let Err(error) = context.inbox.accept(incoming).await {
                    return PlatformError::Storage(error.to_string());
                }
            }
            let next = last + 1;
            let place = next.to_string();
            if let Err(error) = self.context.set_cursor(&account, &place).await {
                // Telegram repeats the updates, and `inbound` drops the duplicates.
                tracing::warn!(%error, platform = NAME, "cursor not stored");
            }
            offset = Some(next);
        }
    }

    async fn updates(
        &self,
        offset: Option<i64>,
        wait: Duration,
    ) -> Result<Vec<Value>, PlatformError> {
        let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
        let mut wish = GetUpdates::new()
            .timeout(seconds)
            .limit(100)
            .allowed_updates(WANTED);
        if let Some(offset) = offset {
            wish = wish.offset(i32::try_from(offset).unwrap_or(i32::MAX));
        }
        let deaf = DEAF.min(wait.max(Duration::from_secs(2)));
        let patience = wait + deaf;
        // The client's own timeout is later, so that this error is reported.
        let asking = self.api.call_within(wish, patience + DEAF);
        let Ok(answer) = tokio::time::timeout(patience, asking).await else {
            return Err(PlatformError::transient(format!(
                "the connection is dead: no answer to a poll within {} s",
                patience.as_secs()
            )));
        };
        match answer {
            Ok(Value::Array(updates)) => Ok(updates),
            Ok(_) => Ok(Vec::new()),
            Err(failure) => Err(self.why_not(failure).await),
        }
    }

    /// Why a poll failed. No failure is permanent here, because the next connection checks the token.
    async fn why_not(&self, failure: Failure) -> PlatformError {
        // The webhook shows which of the two conflicts it is.
        if failure.is_conflict()
            && let Ok(Some(host)) = self.webhook_host().await
        {
            return PlatformError::transient(format!(
                "a webhook at {host} takes this bot's messages: {REMOVE_WEBHOOK}"
            ));
        }
        match PlatformError::from(failure) {
            PlatformError::Permanent(reason) | PlatformError::Gone(reason) => {
                PlatformError::transient(reason)
            }
            error => error,
        }
    }

    /// The next updates. Reports moved groups at once while it waits.
    async fn updates_and_moves(
        &self,
        context: &ListenContext,
        offset: Option<i64>,
        wait: Duration,
    ) -> Result<Vec<Value>, PlatformError> {
        let mut polling = pin!(self.updates(offset, wait));
        loop {
            tokio::select! {
                updates = &mut polling => return updates,
                () = self.moves.news() => {
                    if let Err(error) = self.report_moves(context).await {
                        return Err(PlatformError::Storage(error.to_string()));
                    }
                }
            }
        }
    }

    async fn report_moves(&self, context: &ListenContext) -> Result<(), StoreError> {
        let mut unreported = self.moves.unreported();
        while let Some((from, to)) = unreported.pop() {
            let moved = InboundEvent::Moved {
                platform: NAME,
                from: from.clone(),
                to: to.clone(),
            };
            if let Err(error) = context.inbox.accept(moved).await {
                unreported.push((from, to));
                self.moves.report_again(unreported);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Waits for the rest of an album in the batch. Asks for the whole batch again, which works because nothing of it
    /// is confirmed yet.
    async fn whole_albums(
        &self,
        mut updates: Vec<Value>,
        offset: Option<i64>,
    ) -> Result<Vec<Value>, PlatformError> {
        for _ in 0..ALBUM_TRIES {
            if !parse::has_album(&updates) || updates.len() >= 100 {
                break;
            }
            tokio::time::sleep(ALBUM_FOLLOWS).await;
            let again = self.updates(offset, Duration::ZERO).await?;
            let grown = again.len() > updates.len();
            updates = again;
            if !grown {
                break;
            }
        }
        Ok(updates)
    }
}
