//! The addresses at which an app answers commands and presses, each a few times.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::blocks;
use super::errors::{self, ApiError};
use super::mentions::normalized;
use super::post::Draft;
use super::world::{Ephemeral, World};
use crate::support::fake::{Answer, Done, Refusal};

/// How often an address can be used, and for how long.
const USES: usize = 5;
const LIFETIME: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Clone)]
pub struct ResponseUrl {
    pub path: String,
    pub channel: String,
    pub user: String,
    /// The message with the button, or none for a command.
    pub message: Option<String>,
    pub thread_ts: Option<String>,
    pub uses: usize,
    pub until: Instant,
}

impl World {
    /// A new address. Gives it whole.
    pub fn add_response_url(
        &mut self,
        channel: &str,
        user: &str,
        message: Option<&str>,
        thread_ts: Option<String>,
    ) -> String {
        let kind = match message {
            Some(_) => "actions",
            None => "commands",
        };
        let team = &self.team_of(channel).id;
        let path = format!("/{kind}/{team}/{}/fake", self.responses.len() + 1);
        let url = format!("{}{path}", self.url);
        self.responses.push(ResponseUrl {
            path,
            channel: channel.to_owned(),
            user: user.to_owned(),
            message: message.map(str::to_owned),
            thread_ts,
            uses: 0,
            until: Instant::now() + LIFETIME,
        });
        url
    }

    /// Does what an answer asks for, be it to an address or within an acknowledgement.
    pub fn respond(&mut self, to: &ResponseUrl, answer: &Value) -> Result<(), ApiError> {
        let flag = |name: &str| answer[name].as_bool().unwrap_or_default();
        let team = self.team_of(&to.channel).clone();
        if let (true, Some(ts)) = (flag("delete_original"), &to.message) {
            self.delete(&to.channel, ts);
            return Ok(());
        }
        let checked = blocks::check(Ok(answer.get("blocks").cloned()))?;
        let text = answer["text"].as_str().unwrap_or_default();
        if text.is_empty() && checked.as_ref().is_none_or(Vec::is_empty) {
            return Err("no_text".into());
        }
        if let (true, Some(ts)) = (flag("replace_original"), &to.message) {
            let blocks = checked.map_or(Value::Null, Value::Array);
            let fields = json!({"text": normalized(text), "blocks": blocks});
            self.edit(&to.channel, ts, &team.bot_user, fields, true);
            return Ok(());
        }
        let thread_ts = answer["thread_ts"].as_str().map(str::to_owned);
        if answer["response_type"] == "in_channel" {
            let draft = Draft {
                author: team.bot_user,
                by_bot: true,
                text: text.to_owned(),
                blocks: checked,
                thread_ts,
                ..Draft::default()
            };
            self.post(&to.channel, draft);
            return Ok(());
        }
        let ts = self.new_ts();
        self.channel_mut(&to.channel).ephemerals.push(Ephemeral {
            ts,
            to: to.user.clone(),
            text: normalized(text),
            blocks: checked.map_or(Value::Null, Value::Array),
            thread_ts: thread_ts.or(to.thread_ts.clone()),
        });
        Ok(())
    }
}

/// An answer to an address.
pub fn answer(world: &mut World, path: &str, body: &Value) -> Result<Done, Refusal> {
    let mut known = world.responses.iter_mut();
    let known = known.find(|response| response.path == path);
    let known = known.ok_or_else(|| errors::refuse(404, "no_such_url"))?;
    if known.until < Instant::now() {
        return Err(errors::refuse(404, "expired_url"));
    }
    if known.uses >= USES {
        return Err(errors::refuse(404, "used_url"));
    }
    known.uses += 1;
    let to = known.clone();
    if let Err(error) = world.respond(&to, body) {
        return Err(errors::refuse(400, &error.name));
    }
    Ok(Done {
        result: body.clone(),
        answer: Answer::json(200, &json!({"ok": true})),
    })
}
