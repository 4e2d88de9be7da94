//! The messages of a channel and of a thread, for the app to read.

use serde_json::{Value, json};

use super::chat::is_ts;
use super::errors::{Answered, ApiError};
use super::pages::page;
use super::request::Call;
use super::world::{Channel, World};

/// A message with as much of its metadata as the call asks for.
fn shown(channel: &Channel, ts: &str, all_metadata: bool) -> Value {
    let mut value = channel.shown(ts);
    if let Some(metadata) = &channel.messages[ts].metadata {
        value["metadata"] = match all_metadata {
            true => metadata.clone(),
            false => json!({"event_type": metadata["event_type"]}),
        };
    }
    value
}

/// Whether a time lies between `oldest` and `latest`.
struct Span {
    oldest: Option<String>,
    latest: Option<String>,
    inclusive: bool,
}

impl Span {
    fn of(call: &Call) -> Result<Span, ApiError> {
        let time = |name: &str, error: &'static str| match call.filled(name) {
            Some(ts) if is_ts(&ts) => Ok(Some(ts)),
            // A time of whole seconds is one too.
            Some(ts) if ts.chars().all(|c| c.is_ascii_digit()) => Ok(Some(format!("{ts:0>10}"))),
            Some(_) => Err(ApiError::from(error)),
            None => Ok(None),
        };
        Ok(Span {
            oldest: time("oldest", "invalid_ts_oldest")?,
            latest: time("latest", "invalid_ts_latest")?,
            inclusive: call.flag("inclusive"),
        })
    }

    fn has(&self, ts: &str) -> bool {
        let after = self.oldest.as_deref().is_none_or(|oldest| ts > oldest);
        let before = self.latest.as_deref().is_none_or(|latest| ts < latest);
        let edge = [&self.oldest, &self.latest];
        let edge = edge.into_iter().flatten().any(|edge| edge == ts);
        (after && before) || (self.inclusive && edge)
    }
}

fn member(world: &World, call: &Call, channel: &Channel) -> Result<(), ApiError> {
    let bot = &world.teams[&call.team].bot_user;
    match channel.members.contains(bot) {
        true => Ok(()),
        false => Err("not_in_channel".into()),
    }
}

fn answer(messages: Vec<Value>, next: String) -> Value {
    let mut answer = json!({"messages": messages, "has_more": !next.is_empty()});
    if !next.is_empty() {
        answer["response_metadata"] = json!({"next_cursor": next});
    }
    answer
}

/// The newest message is the first. Replies are in their threads.
pub fn history(world: &World, call: &Call) -> Answered {
    let channel = world.readable(call, "history")?;
    member(world, call, channel)?;
    let limit = call.limit(100, 999)?;
    let (span, all) = (Span::of(call)?, call.flag("include_all_metadata"));
    let messages = channel.messages.iter().rev();
    let on_top = messages.filter(|(ts, message)| {
        let root = message.value["thread_ts"].as_str();
        let is_reply = root.is_some_and(|root| root != *ts);
        (!is_reply || message.value["subtype"] == "thread_broadcast") && span.has(ts)
    });
    let mut items = on_top.map(|(ts, _)| (ts.clone(), shown(channel, ts, all)));
    let (messages, next) = page(&mut items, call, "next_ts", limit)?;
    let mut answer = answer(messages, next);
    answer["pin_count"] = 0.into();
    answer["channel_actions_ts"] = Value::Null;
    answer["channel_actions_count"] = 0.into();
    Ok(answer)
}

/// The root is the first message, and then come the replies from the oldest on.
pub fn replies(world: &World, call: &Call) -> Answered {
    let channel = world.readable(call, "history")?;
    member(world, call, channel)?;
    let limit = call.limit(1000, 1000)?;
    let (span, all) = (Span::of(call)?, call.flag("include_all_metadata"));
    let root = call.need("ts")?;
    if !channel.messages.contains_key(&root) {
        return Err("thread_not_found".into());
    }
    let replies = channel.replies(&root).map(|(ts, _)| ts);
    let replies = replies.filter(|ts| span.has(ts));
    let all_of_them = std::iter::once(&root).chain(replies);
    let mut items = all_of_them.map(|ts| (ts.clone(), shown(channel, ts, all)));
    let (messages, next) = page(&mut items, call, "next_ts", limit)?;
    Ok(answer(messages, next))
}
