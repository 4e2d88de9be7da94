//! The methods: what they do to the world.

use std::time::Duration;

use serde_json::{Value, json};

use super::BOT_ID;
use super::request::Params;
use super::rules::{self, bad};
use super::world::{ChatKind, Menu, Rights, World, bot, now};
use super::{send, topics};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

/// A bot cannot fetch larger files.
const FETCHABLE: u64 = 20 << 20;

/// Does everything but `getUpdates`.
pub fn perform(world: &mut World, method: &str, params: &Params) -> Answer {
    match method {
        "getMe" => Ok(me(world)),
        "getWebhookInfo" => Ok(json!({
            "url": world.webhook,
            "has_custom_certificate": false,
            "pending_update_count": world.mailbox.pending.len(),
        })),
        "deleteWebhook" => {
            world.webhook.clear();
            if params.flag("drop_pending_updates") {
                world.mailbox.pending.clear();
            }
            Ok(json!(true))
        }
        "setMyCommands" => set_my_commands(world, params),
        "sendMessage" => send::message(world, params),
        "sendDocument" => send::file(world, "document", params),
        "sendPhoto" => send::file(world, "photo", params),
        "sendAudio" => send::file(world, "audio", params),
        "sendVoice" => send::file(world, "voice", params),
        "sendVideo" => send::file(world, "video", params),
        "editMessageText" => send::edit_text(world, params),
        "editMessageReplyMarkup" => send::edit_markup(world, params),
        "deleteMessage" => delete_message(world, params),
        "setMessageReaction" => set_reaction(world, params),
        "sendChatAction" => chat_action(world, params),
        "createForumTopic" => topics::create(world, params),
        "editForumTopic" => topics::rename(world, params),
        "closeForumTopic" => topics::set_closed(world, params, true),
        "reopenForumTopic" => topics::set_closed(world, params, false),
        "deleteForumTopic" => topics::delete(world, params),
        "getChat" => get_chat(world, params),
        "getChatMember" => get_member(world, params),
        "getFile" => get_file(world, params),
        "answerCallbackQuery" => answer_query(world, params),
        other => panic!("{other} is in the list of methods and has no code"),
    }
}

fn me(world: &World) -> Value {
    let mut me = bot();
    let more = [
        ("can_join_groups", true),
        ("can_read_all_group_messages", true),
        ("supports_inline_queries", false),
        ("can_connect_to_business", false),
        ("has_main_web_app", false),
        ("has_topics_enabled", world.private_topics),
        ("allows_users_to_create_topics", world.private_topics),
    ];
    for (name, is) in more {
        me[name] = json!(is);
    }
    me
}

/// The chat of a call. The bot has to know it.
pub fn chat_of(world: &World, params: &Params) -> Result<i64, Refusal> {
    let named = |name: &str| {
        let mut chats = world.chats.values();
        chats.find(|chat| {
            chat.kind != ChatKind::Private
                && chat
                    .username
                    .as_ref()
                    .is_some_and(|u| u.eq_ignore_ascii_case(name))
        })
    };
    if let Some(new) = params.int("chat_id").and_then(|id| world.upgraded.get(&id)) {
        return Err(rules::upgraded(*new));
    }
    let id = match (params.int("chat_id"), params.text("chat_id")) {
        (Some(id), _) => Some(id).filter(|id| world.chats.contains_key(id)),
        (None, Some(name)) => named(&name[1..]).map(|chat| chat.id),
        (None, None) => None,
    };
    id.ok_or_else(|| bad("chat not found"))
}

/// The chat of a call, if the bot may act there.
pub fn open_chat(world: &World, params: &Params) -> Result<i64, Refusal> {
    let id = chat_of(world, params)?;
    let chat = &world.chats[&id];
    match chat.barred {
        Some(why) => Err(rules::refuse(403, format!("Forbidden: {why}"))),
        None if chat.kind == ChatKind::Channel && !chat.rights.is_admin() => {
            Err(bad("need administrator rights in the channel chat"))
        }
        None => Ok(id),
    }
}

fn set_my_commands(world: &mut World, params: &Params) -> Answer {
    let commands = params.list("commands").expect("checked");
    if commands.len() > 100 {
        return Err(bad("BOT_COMMANDS_TOO_MUCH"));
    }
    let mut list = Vec::new();
    for command in commands {
        let text = |key: &str| command[key].as_str().unwrap_or_default().to_owned();
        let (name, description) = (text("command"), text("description"));
        let spelt = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > 32 || !name.chars().all(spelt) {
            return Err(bad("BOT_COMMAND_INVALID"));
        }
        if !(1..=256).contains(&description.chars().count()) {
            return Err(bad("BOT_COMMAND_DESCRIPTION_INVALID"));
        }
        list.push((name, description));
    }
    let scope = params.object("scope").map_or("default", |scope| {
        scope
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default()
    });
    let known = [
        "default",
        "all_private_chats",
        "all_group_chats",
        "all_chat_administrators",
        "chat",
        "chat_administrators",
        "chat_member",
    ];
    if !known.contains(&scope) {
        return Err(bad(
            "can't parse BotCommandScope: unsupported type specified",
        ));
    }
    let language = params.text("language_code").unwrap_or_default();
    world
        .menus
        .retain(|menu| (menu.scope.as_str(), menu.language.as_str()) != (scope, language));
    world.menus.push(Menu {
        scope: scope.to_owned(),
        language: language.to_owned(),
        commands: list,
    });
    Ok(json!(true))
}

/// Older messages stay.
const DELETABLE: Duration = Duration::from_secs(48 * 3600);

fn delete_message(world: &mut World, params: &Params) -> Answer {
    let chat = open_chat(world, params)?;
    let id = params.int("message_id").expect("checked");
    let chat = world.chat(chat);
    let Some(entry) = chat.messages.get(&id) else {
        return Err(bad("message to delete not found"));
    };
    let allowed = match chat.kind {
        ChatKind::Private => true,
        ChatKind::Group => entry.by_bot || chat.rights.is_admin(),
        // In a channel, only administrators come this far, and all of them may post here.
        ChatKind::Supergroup | ChatKind::Forum | ChatKind::Channel => {
            entry.by_bot || chat.rights.can_delete_messages()
        }
    };
    if !allowed || entry.value.get("forum_topic_created").is_some() {
        return Err(bad("message can't be deleted"));
    }
    let sent = entry.value["date"].as_i64().expect("a date");
    if now() - sent >= DELETABLE.as_secs() as i64 {
        return Err(bad("message can't be deleted for everyone"));
    }
    chat.messages.remove(&id);
    Ok(json!(true))
}

fn set_reaction(world: &mut World, params: &Params) -> Answer {
    let chat = open_chat(world, params)?;
    let id = params.int("message_id").expect("checked");
    let Some(entry) = world.chat(chat).messages.get_mut(&id) else {
        return Err(bad("message to react not found"));
    };
    let wanted = params.list("reaction").cloned().unwrap_or_default();
    if wanted.len() > 1 {
        return Err(bad("REACTIONS_TOO_MANY"));
    }
    let mut reactions = Vec::new();
    for reaction in &wanted {
        let emoji = reaction["emoji"].as_str().unwrap_or_default();
        let known = rules::REACTIONS
            .split_whitespace()
            .any(|known| known == emoji);
        if reaction["type"] != "emoji" || !known {
            return Err(bad("REACTION_INVALID"));
        }
        reactions.push(emoji.to_owned());
    }
    entry.reactions = reactions;
    Ok(json!(true))
}

fn chat_action(world: &mut World, params: &Params) -> Answer {
    let chat = open_chat(world, params)?;
    let action = params.text("action").expect("checked").to_owned();
    if !rules::ACTIONS.contains(&action.as_str()) {
        return Err(bad("wrong parameter action in request"));
    }
    // Unlike messages, actions can name the general topic.
    let general =
        world.chats[&chat].kind == ChatKind::Forum && params.int("message_thread_id") == Some(1);
    let thread = match general {
        true => None,
        false => send::thread_of(world, chat, params)?,
    };
    world.chat(chat).actions.push((thread, action));
    Ok(json!(true))
}

fn get_chat(world: &World, params: &Params) -> Answer {
    let chat = &world.chats[&chat_of(world, params)?];
    let mut value = chat.value();
    value["accent_color_id"] = json!(2);
    value["max_reaction_count"] = json!(11);
    value["accepted_gift_types"] = json!({
        "unlimited_gifts": false,
        "limited_gifts": false,
        "unique_gifts": false,
        "premium_subscription": false,
        "gifts_from_channels": false,
    });
    Ok(value)
}

fn get_member(world: &World, params: &Params) -> Answer {
    let chat = chat_of(world, params)?;
    let user = params.int("user_id").expect("checked");
    if user == BOT_ID {
        return Ok(bot_as_member(
            world.chats[&chat].rights,
            world.chats[&chat].barred,
        ));
    }
    let person = world.people.get(&user);
    let person = person.ok_or_else(|| bad("PARTICIPANT_ID_INVALID"))?;
    let status = match world.is_member(chat, user) {
        true => "member",
        false => "left",
    };
    Ok(json!({"user": person.value(), "status": status}))
}

/// The membership of the bot, in the format of the vendor.
pub fn bot_as_member(rights: Rights, barred: Option<&str>) -> Value {
    let mut member = json!({"user": bot(), "status": "member"});
    if barred.is_some() {
        member["status"] = json!("kicked");
        member["until_date"] = json!(0);
    } else if rights.is_admin() {
        member["status"] = json!("administrator");
        let can = [
            "can_manage_chat",
            "can_invite_users",
            "can_pin_messages",
            "can_post_messages",
        ];
        let cannot = [
            "can_be_edited",
            "is_anonymous",
            "can_change_info",
            "can_manage_video_chats",
            "can_restrict_members",
            "can_promote_members",
            "can_post_stories",
            "can_edit_stories",
            "can_delete_stories",
        ];
        can.iter().for_each(|right| member[*right] = json!(true));
        cannot
            .iter()
            .for_each(|right| member[*right] = json!(false));
        member["can_manage_topics"] = json!(rights.can_manage_topics());
        member["can_delete_messages"] = json!(rights.can_delete_messages());
    }
    member
}

fn get_file(world: &World, params: &Params) -> Answer {
    let id = params.text("file_id").expect("checked");
    let file = world.files.iter().find(|file| file.id == id);
    let file = file.ok_or_else(|| bad("wrong file_id or the file is temporarily unavailable"))?;
    if file.size > FETCHABLE {
        return Err(bad("file is too big"));
    }
    let mut value = file.value();
    value["file_path"] = json!(world.local_file.as_ref().unwrap_or(&file.path));
    Ok(value)
}

fn answer_query(world: &mut World, params: &Params) -> Answer {
    let id = params.text("callback_query_id").expect("checked");
    let text = params.text("text").unwrap_or_default();
    let query = world.queries.iter_mut().find(|query| query.id == id);
    let query = query.filter(|query| query.answer.is_none());
    let Some(query) = query else {
        return Err(bad(
            "query is too old and response timeout expired or query ID is invalid",
        ));
    };
    if text.chars().count() > 200 {
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    query.answer = Some((text.to_owned(), params.flag("show_alert")));
    Ok(json!(true))
}
