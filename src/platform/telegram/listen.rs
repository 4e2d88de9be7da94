//! The long poll. What it brings is kept before Telegram is told that it arrived, so that nothing is lost between the two.

use std::time::Duration;

use serde_json::Value;
use teloxide::payloads::{DeleteWebhook, GetUpdates, GetUpdatesSetters};
use teloxide::types::AllowedUpdate;

use super::call::{call, explain, is_webhook};
use super::{NAME, Telegram, hear};
use crate::clock;
use crate::platform::{Line, PlatformError};

/// How much later than it should a poll may answer before its connection counts as deaf.
pub(super) const DEAF: Duration = Duration::from_secs(10);
/// After about a week without updates Telegram numbers them anew, perhaps lower; an older place to go on from would make us
/// deaf.
const CURSOR_LIVES: f64 = 6.0 * 86_400.0;
/// How long the rest of an album may take to follow its first picture.
const ALBUM_FOLLOWS: Duration = Duration::from_millis(600);
const ALBUM_TRIES: usize = 5;

/// How long the first poll of a line stays open: until one was answered, a line that had broken does not count as well again.
const FIRST_POLL: Duration = Duration::from_secs(5);

const WANTED: [AllowedUpdate; 5] = [
    AllowedUpdate::Message,
    AllowedUpdate::EditedMessage,
    AllowedUpdate::ChannelPost,
    AllowedUpdate::EditedChannelPost,
    AllowedUpdate::CallbackQuery,
];

impl Telegram {
    /// Listens until it no longer can, and returns why.
    pub(super) async fn poll(&self, line: &Line) -> PlatformError {
        let account = self.me().id.to_string();
        let mut offset = match self.store.cursor(NAME, &account).await {
            Ok(Some((value, at))) if clock::now() - at < CURSOR_LIVES => value.parse().ok(),
            Ok(_) => None,
            Err(error) => return PlatformError::NotYet(error.to_string()),
        };
        let mut wait = self.rules.poll.min(FIRST_POLL);
        loop {
            let updates = match self.updates(offset, wait).await {
                Ok(updates) => updates,
                Err(error) => return error,
            };
            line.alive();
            wait = self.rules.poll;
            let updates = match self.whole_albums(updates, offset).await {
                Ok(updates) => updates,
                Err(error) => return error,
            };
            let Some(last) = updates.iter().filter_map(hear::update_id).max() else {
                continue;
            };
            for incoming in hear::hear(&updates, &self.me(), &self.rules) {
                if let Err(error) = line.inbox.take(incoming).await {
                    return PlatformError::NotYet(error.to_string());
                }
            }
            let next = last + 1;
            let place = next.to_string();
            if let Err(error) = self.store.set_cursor(NAME, &account, &place).await {
                // They will come again, and be known.
                tracing::warn!(%error, platform = NAME, "the place in the updates was not kept");
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
        let answer = tokio::time::timeout(wait + deaf, call(&self.bot, wish)).await;
        let Ok(answer) = answer else {
            return Err(PlatformError::transient(format!(
                "the connection is deaf: no answer to a poll within {} s",
                (wait + deaf).as_secs()
            )));
        };
        match answer {
            Ok(Value::Array(updates)) => Ok(updates),
            Ok(_) => Ok(Vec::new()),
            Err(error) if is_webhook(&error) => {
                tracing::warn!(
                    platform = NAME,
                    "a webhook keeps the bot's messages from us; it is removed"
                );
                call(&self.bot, DeleteWebhook::new())
                    .await
                    .map_err(explain)?;
                Err(PlatformError::transient("a webhook was in the way"))
            }
            Err(error) => Err(explain(error)),
        }
    }

    /// Where a batch has an album in it, the rest of that is waited for; all of it is asked for again, since nothing of it is
    /// confirmed before all of it is kept.
    async fn whole_albums(
        &self,
        mut updates: Vec<Value>,
        offset: Option<i64>,
    ) -> Result<Vec<Value>, PlatformError> {
        for _ in 0..ALBUM_TRIES {
            if !hear::has_album(&updates) || updates.len() >= 100 {
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
