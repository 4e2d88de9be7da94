//! Topics: who may open, change and delete them, and what goes with them.

use serde_json::{Value, json};

use super::methods::open_chat;
use super::request::Params;
use super::rules::bad;
use super::world::{ChatKind, Rights, Topic, World, bot};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

pub fn create(world: &mut World, params: &Params) -> Answer {
    let chat = chat_with_topics(world, params)?;
    let name = params.text("name").expect("checked");
    if !may(world, chat, Rights::can_manage_topics) {
        return Err(bad("not enough rights to create a topic"));
    }
    check_name(name)?;
    let colors = [
        7_322_096, 16_766_590, 13_338_331, 9_367_192, 16_749_490, 16_478_047,
    ];
    let color = params.int("icon_color").unwrap_or(colors[0]);
    if !colors.contains(&color) {
        return Err(bad("invalid forum topic icon color specified"));
    }
    world.count_topic(chat)?;
    let message = world.open_topic(chat, name, color, bot());
    Ok(json!({
        "message_thread_id": message["message_thread_id"],
        "name": name,
        "icon_color": color,
    }))
}

/// Needs the right to manage topics, unless the bot has opened the topic.
pub fn rename(world: &mut World, params: &Params) -> Answer {
    let chat = chat_with_topics(world, params)?;
    let denied = "not enough rights to edit the topic";
    let topic = topic_to_manage(world, chat, params, denied)?;
    let name = params.text("name").unwrap_or(&topic.name).to_owned();
    check_name(&name)?;
    change(world, chat, Topic { name, ..topic })
}

/// Needs the right to manage topics, unless the bot has opened the topic. The documentation names forums only, so a topic of a
/// private chat can be neither closed nor reopened.
pub fn set_closed(world: &mut World, params: &Params, closed: bool) -> Answer {
    let chat = chat_with_topics(world, params)?;
    if world.chats[&chat].kind == ChatKind::Private {
        return Err(bad("the chat is not a forum"));
    }
    let denied = "not enough rights to close or open the topic";
    let topic = topic_to_manage(world, chat, params, denied)?;
    change(world, chat, Topic { closed, ..topic })
}

/// Deletes the topic with all its messages. In a forum this needs the right to delete messages, for topics of the bot too: the
/// documentation makes no exception. A person can delete a topic of their own without the right, if it has at most eleven
/// messages and none of other people. No source says whether a bot can.
pub fn delete(world: &mut World, params: &Params) -> Answer {
    let chat = chat_with_topics(world, params)?;
    if !may(world, chat, Rights::can_delete_messages) {
        return Err(bad("not enough rights to delete the topic"));
    }
    let thread = topic_of(world, chat, params)?.thread;
    world.delete_topic(chat, thread);
    Ok(json!(true))
}

fn chat_with_topics(world: &World, params: &Params) -> Result<i64, Refusal> {
    let chat = open_chat(world, params)?;
    match world.has_topics(chat) {
        true => Ok(chat),
        false => Err(bad("the chat is not a forum")),
    }
}

/// Whether the bot has a right there. It needs none in a private chat.
fn may(world: &World, chat: i64, right: impl Fn(Rights) -> bool) -> bool {
    let chat = &world.chats[&chat];
    chat.kind == ChatKind::Private || right(chat.rights)
}

/// The general topic has no entry: the documentation names other methods for it, and it cannot be deleted.
fn topic_of(world: &World, chat: i64, params: &Params) -> Result<Topic, Refusal> {
    let thread = params.int("message_thread_id").expect("checked");
    if thread <= 0 {
        return Err(bad("invalid forum topic identifier specified"));
    }
    let topic = world.chats[&chat].topics.get(&thread);
    topic.cloned().ok_or_else(|| bad("TOPIC_ID_INVALID"))
}

fn topic_to_manage(
    world: &World,
    chat: i64,
    params: &Params,
    denied: &str,
) -> Result<Topic, Refusal> {
    let topic = topic_of(world, chat, params)?;
    match topic.by_bot || may(world, chat, Rights::can_manage_topics) {
        true => Ok(topic),
        false => Err(bad(denied)),
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    match name.trim().chars().count() {
        0 => Err(bad("TOPIC_NAME_EMPTY")),
        1..=128 => Ok(()),
        _ => Err(bad("TOPIC_TITLE_TOO_LONG")),
    }
}

fn change(world: &mut World, chat: i64, changed: Topic) -> Answer {
    let thread = changed.thread;
    if world.chats[&chat].topics[&thread] == changed {
        return Err(bad("TOPIC_NOT_MODIFIED"));
    }
    world.count_message(chat)?;
    world.chat(chat).topics.insert(thread, changed);
    Ok(json!(true))
}
