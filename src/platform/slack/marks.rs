//! Marks messages with the keys of the intents that sent them, and finds them again. Slack has no key that makes a
//! repeated call one, but it keeps metadata with each message.

use std::collections::HashMap;

use serde_json::Value;
use slack_morphism::prelude::SlackMessageMetadata;

use super::Slack;
use super::address::{micros, ts_at};
use super::failure::Failure;
use crate::platform::PlatformError;
use crate::platform::key_hash::key_hash;

/// The metadata of messages, and of the messages that begin the threads of handoffs.
pub(super) const DELIVERY: &str = "hermesd_delivery";
pub(super) const THREAD: &str = "hermesd_thread";
/// The name in the store of the number that distinguishes this database from others.
const INSTALLATION: &str = "installation";
/// Slack's clock may differ from ours.
const CLOCKS_DIFFER: f64 = 900.0;
const PAGE: usize = 200;
/// The most messages that are read to find one.
const MOST_SEARCHED: usize = 2000;

impl Slack {
    /// The mark for a key. Another database may have used the same key in the same channel.
    pub(super) async fn mark(&self, key: &str) -> Result<String, PlatformError> {
        let installation = self.installation.get_or_try_init(|| async {
            if let Some(cursor) = self.context.cursor(INSTALLATION).await? {
                return Ok(cursor.value);
            }
            let mut random = [0; 12];
            getrandom::fill(&mut random)
                .map_err(|error| PlatformError::Storage(format!("no random numbers: {error}")))?;
            let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
            self.context.set_cursor(INSTALLATION, &id).await?;
            Ok::<_, PlatformError>(id)
        });
        Ok(key_hash(&format!("{}:{key}", installation.await?)))
    }

    /// The time of the bot's message with this mark.
    pub(super) async fn find_marked(
        &self,
        channel: &str,
        thread: Option<&str>,
        mark: &str,
        since: f64,
    ) -> Result<Option<String>, Failure> {
        let is_marked = |message: &Value| message["metadata"]["event_payload"]["id"] == mark;
        let found = self.find_own(channel, thread, since, is_marked).await?;
        Ok(found.and_then(|message| Some(message["ts"].as_str()?.to_owned())))
    }

    /// The first of the bot's messages since then that is the wanted one.
    pub(super) async fn find_own(
        &self,
        channel: &str,
        thread: Option<&str>,
        since: f64,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Option<Value>, Failure> {
        let oldest = ts_at(since - CLOCKS_DIFFER);
        let messages = self
            .messages(channel, thread, &oldest, MOST_SEARCHED)
            .await?;
        let me = self.me();
        let mut own = messages.into_iter().filter(|message| me.wrote(message));
        Ok(own.find(wanted))
    }

    /// The messages of a channel or of a thread after a time, the oldest first, with their metadata.
    pub(super) async fn messages(
        &self,
        channel: &str,
        thread: Option<&str>,
        oldest: &str,
        most: usize,
    ) -> Result<Vec<Value>, Failure> {
        let limit = PAGE.to_string();
        let (mut found, mut cursor) = (Vec::new(), String::new());
        while found.len() < most {
            let mut params = vec![
                ("channel", channel),
                ("oldest", oldest),
                ("limit", &limit),
                ("include_all_metadata", "true"),
            ];
            if !cursor.is_empty() {
                params.push(("cursor", &cursor));
            }
            let method = match thread {
                Some(ts) => {
                    params.push(("ts", ts));
                    "conversations.replies"
                }
                None => "conversations.history",
            };
            let mut page = self.api.ask(method, &params).await?;
            if let Value::Array(messages) = page["messages"].take() {
                found.extend(messages);
            }
            let next = page["response_metadata"]["next_cursor"].as_str();
            cursor = next.unwrap_or_default().to_owned();
            if cursor.is_empty() {
                break;
            }
        }
        // The first message of a thread is in each answer.
        let (time, after) = (
            |message: &Value| micros(message["ts"].as_str()?),
            micros(oldest),
        );
        found.retain(|message| time(message) > after);
        found.sort_by_key(time);
        found.dedup_by_key(|message| time(message));
        Ok(found)
    }
}

/// Metadata with these fields.
pub(super) fn metadata(event: &str, fields: &[(&str, &str)]) -> SlackMessageMetadata {
    let fields = fields.iter();
    let fields: HashMap<String, String> = fields
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    SlackMessageMetadata::new(event.to_owned()).with_event_payload(fields)
}
