//! The updates that wait for the bot, and the long poll that fetches them.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::BotState;
use super::request::Params;
use super::rules::{self, bad};
use crate::support::fake::Refusal;

#[derive(Default)]
pub struct Mailbox {
    last: i64,
    /// Not confirmed yet.
    pub pending: VecDeque<Value>,
    /// The next poll gets these too, whatever it confirms.
    pub again: Vec<Value>,
    /// All updates so far.
    pub all: Vec<Value>,
    /// The kinds that the bot wants. Without a list it gets those that need no request.
    pub allowed: Option<Vec<String>>,
    /// Updates that are to arrive together.
    pub held_back: Option<Vec<Value>>,
    /// The number of the last poll, and of the one that waits.
    pub poll: u64,
    pub waiting: Option<u64>,
}

impl Mailbox {
    /// Numbers an update and lets it wait for the bot, if the bot wants this kind.
    pub fn put(&mut self, kind: &str, content: Value) {
        let mut update = json!({});
        update[kind] = content;
        match &mut self.held_back {
            Some(kept) => kept.push(update),
            None => self.number(update),
        }
    }

    pub fn number(&mut self, content: Value) {
        let kind = content.as_object().and_then(|c| c.keys().next().cloned());
        let kind = kind.expect("a kind");
        let wanted = match &self.allowed {
            Some(kinds) => kinds.contains(&kind),
            None => !["chat_member", "message_reaction", "message_reaction_count"]
                .contains(&kind.as_str()),
        };
        if wanted {
            self.last = self.last.max(730_000_000) + 1;
            let mut update = json!({"update_id": self.last});
            update[&kind] = content[&kind].clone();
            self.pending.push_back(update.clone());
            self.all.push(update);
        }
    }
}

/// A poll that waits. It no longer does when this is dropped.
struct WaitingPoll<'a>(&'a BotState, u64);

impl Drop for WaitingPoll<'_> {
    fn drop(&mut self) {
        let mailbox = &mut self.0.world().mailbox;
        if mailbox.waiting == Some(self.1) {
            mailbox.waiting = None;
        }
    }
}

pub async fn get(state: &BotState, params: &Params) -> Result<Value, Refusal> {
    let limit = params.int("limit").unwrap_or(100);
    let offset = params.int("offset").unwrap_or(0);
    let timeout = params.int("timeout").unwrap_or(0).clamp(0, 50) as u64;
    if !(1..=100).contains(&limit) {
        return Err(bad("limit has to be between 1 and 100"));
    }
    if offset < 0 {
        return Err(bad("negative offsets are not served here"));
    }
    let poll = {
        let mut world = state.world();
        if !world.webhook.is_empty() {
            return Err(rules::refuse(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
            ));
        }
        let mailbox = &mut world.mailbox;
        mailbox
            .pending
            .retain(|update| update["update_id"].as_i64() >= Some(offset));
        if let Some(kinds) = params.list("allowed_updates") {
            let kinds: Option<Vec<String>> = kinds
                .iter()
                .map(|kind| kind.as_str().map(str::to_owned))
                .collect();
            let kinds = kinds.ok_or_else(|| bad("allowed_updates has to be a list of strings"))?;
            // An empty list means the default kinds.
            mailbox.allowed = Some(kinds).filter(|kinds| !kinds.is_empty());
        }
        mailbox.poll += 1;
        mailbox.poll
    };
    // A poll that waits already learns that there is another.
    state.wake_clients();
    let deadline = Instant::now() + Duration::from_secs(timeout);
    let _waiting = WaitingPoll(state, poll);
    let found = state.wait_for(deadline, |world| {
        let mailbox = &mut world.mailbox;
        if mailbox.poll != poll {
            return Some(Err(rules::refuse(409, rules::CONFLICT)));
        }
        let batch = batch(mailbox, limit as usize);
        if !batch.is_empty() || Instant::now() >= deadline {
            return Some(Ok(json!(batch)));
        }
        mailbox.waiting = Some(poll);
        None
    });
    found.await.unwrap_or(Ok(json!([])))
}

fn batch(mailbox: &mut Mailbox, limit: usize) -> Vec<Value> {
    let again = std::mem::take(&mut mailbox.again);
    let fresh = mailbox.pending.iter().cloned();
    again.into_iter().chain(fresh).take(limit).collect()
}
