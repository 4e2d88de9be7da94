//! The methods `reactions.*`.

use serde_json::{Value, json};

use super::chat::is_ts;
use super::errors::{Answered, ApiError};
use super::request::Call;
use super::world::World;

/// Emoji that there are, without skin tones. A test that needs another adds it here.
const EMOJI: &[&str] = &[
    "+1",
    "-1",
    "eyes",
    "heavy_check_mark",
    "hourglass",
    "hourglass_flowing_sand",
    "red_circle",
    "robot_face",
    "thumbsup",
    "tada",
    "warning",
    "wave",
    "white_check_mark",
    "x",
];

/// The message and the emoji of a call.
fn target(world: &World, call: &Call) -> Result<(String, String, String), ApiError> {
    let name = call.need("name")?;
    let name = name.trim_matches(':').to_owned();
    let (channel, ts) = match (call.filled("channel"), call.filled("timestamp")) {
        (Some(channel), Some(ts)) => (channel, ts),
        _ => return Err("no_item_specified".into()),
    };
    let channel = world.visible(call, &channel)?;
    if !is_ts(&ts) {
        return Err("bad_timestamp".into());
    }
    if !EMOJI.contains(&name.as_str()) {
        return Err("invalid_name".into());
    }
    if world.channel(&channel).archived {
        return Err("is_archived".into());
    }
    let bot = &world.teams[&call.team].bot_user;
    if !world.channel(&channel).members.contains(bot) {
        return Err("not_in_channel".into());
    }
    match world.message(&channel, &ts) {
        Some(message) if !message.is_tombstone => Ok((channel, ts, name)),
        _ => Err("message_not_found".into()),
    }
}

impl World {
    fn reactions(&mut self, channel: &str, ts: &str) -> &mut Vec<Value> {
        let messages = &mut self.channel_mut(channel).messages;
        let value = &mut messages.get_mut(ts).expect("a message").value;
        if value.get("reactions").is_none() {
            value["reactions"] = json!([]);
        }
        value["reactions"].as_array_mut().expect("a list")
    }

    /// Says whether it is new.
    pub fn react(&mut self, channel: &str, ts: &str, user: &str, name: &str) -> bool {
        let all = self.reactions(channel, ts);
        let Some(reaction) = all.iter_mut().find(|reaction| reaction["name"] == name) else {
            all.push(json!({"name": name, "users": [user], "count": 1}));
            return true;
        };
        let users = reaction["users"].as_array_mut().expect("a list");
        if users.iter().any(|one| one == user) {
            return false;
        }
        users.push(user.into());
        reaction["count"] = users.len().into();
        true
    }

    /// Says whether there was such a reaction.
    fn take_back(&mut self, channel: &str, ts: &str, user: &str, name: &str) -> bool {
        let all = self.reactions(channel, ts);
        let Some(reaction) = all.iter_mut().find(|reaction| reaction["name"] == name) else {
            return false;
        };
        let users = reaction["users"].as_array_mut().expect("a list");
        let before = users.len();
        users.retain(|one| one != user);
        let left = users.len();
        reaction["count"] = left.into();
        all.retain(|reaction| reaction["count"] != 0);
        left < before
    }
}

pub fn add(world: &mut World, call: &Call) -> Answered {
    let (channel, ts, name) = target(world, call)?;
    let bot = world.teams[&call.team].bot_user.clone();
    match world.react(&channel, &ts, &bot, &name) {
        true => Ok(json!({})),
        false => Err("already_reacted".into()),
    }
}

pub fn remove(world: &mut World, call: &Call) -> Answered {
    let (channel, ts, name) = target(world, call)?;
    let bot = world.teams[&call.team].bot_user.clone();
    match world.take_back(&channel, &ts, &bot, &name) {
        true => Ok(json!({})),
        false => Err("no_reaction".into()),
    }
}
