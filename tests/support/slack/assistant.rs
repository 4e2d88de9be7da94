//! The methods `assistant.threads.*`.

use serde_json::json;

use super::chat::is_ts;
use super::errors::{Answered, ApiError};
use super::request::Call;
use super::world::{ThreadExtras, World};

/// The thread of a call.
fn thread<'a>(world: &'a mut World, call: &Call) -> Result<&'a mut ThreadExtras, ApiError> {
    let channel = world.visible(call, &call.need("channel_id")?)?;
    let bot = &world.teams[&call.team].bot_user;
    if !world.channel(&channel).members.contains(bot) {
        return Err("channel_not_found".into());
    }
    let thread = call.need("thread_ts")?;
    if !is_ts(&thread) || world.root_of(&channel, &thread).is_none() {
        return Err("invalid_thread_ts".into());
    }
    Ok(world
        .channel_mut(&channel)
        .extras
        .entry(thread)
        .or_default())
}

pub fn set_status(world: &mut World, call: &Call) -> Answered {
    let messages = call.json("loading_messages").ok().flatten();
    let messages = messages.and_then(|list| list.as_array().map(Vec::len));
    if messages.is_some_and(|count| count > 10) {
        return Err(ApiError::invalid(
            "loading_messages",
            "no more than 10 items allowed",
        ));
    }
    thread(world, call)?.status = call.need("status")?;
    Ok(json!({}))
}

pub fn set_title(world: &mut World, call: &Call) -> Answered {
    thread(world, call)?.title = call.need("title")?;
    Ok(json!({}))
}

pub fn set_suggested_prompts(world: &mut World, call: &Call) -> Answered {
    let prompts = call.json("prompts").ok().flatten();
    let prompts = prompts.and_then(|list| list.as_array().cloned());
    let prompts = prompts.ok_or_else(|| ApiError::invalid("prompts", "must be a list"))?;
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let both = prompts
        .iter()
        .map(|prompt| Some((text(&prompt["title"])?, text(&prompt["message"])?)));
    let both: Option<Vec<_>> = both.collect();
    let both = both.ok_or_else(|| ApiError::invalid("prompts", "missing title or message"))?;
    thread(world, call)?.prompts = both;
    Ok(json!({}))
}
