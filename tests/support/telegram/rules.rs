//! What the vendor refuses, in the vendor's words. Parameters that a method does not have are refused too: the vendor would
//! ignore them, and they are mistakes.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::request::Params;
use crate::support::fake::{Answer, Refusal};

pub const CONFLICT: &str = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";

/// A refusal in the vendor's format.
pub fn refuse(status: u16, description: impl Into<String>) -> Refusal {
    refuse_with(status, description.into(), None)
}

fn refuse_with(status: u16, description: String, parameters: Option<Value>) -> Refusal {
    let mut body = json!({
        "ok": false,
        "error_code": status,
        "description": description,
    });
    if let Some(parameters) = parameters {
        body["parameters"] = parameters;
    }
    Refusal {
        description,
        answer: Answer::json(status, &body),
    }
}

/// The request is wrong, for this reason.
pub fn bad(why: impl std::fmt::Display) -> Refusal {
    refuse(400, format!("Bad Request: {why}"))
}

/// The group has become this supergroup.
pub fn upgraded(migrate_to: i64) -> Refusal {
    let description = "Bad Request: group chat was upgraded to a supergroup chat";
    let parameters = json!({"migrate_to_chat_id": migrate_to});
    refuse_with(400, description.to_owned(), Some(parameters))
}

/// The vendor counts in whole seconds.
pub fn too_many_requests(retry_after: Duration) -> Refusal {
    let seconds = retry_after.as_secs_f64().ceil().max(1.0) as u64;
    let description = format!("Too Many Requests: retry after {seconds}");
    refuse_with(429, description, Some(json!({"retry_after": seconds})))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    /// A number, or `@name`.
    Chat,
    Text,
    Flag,
    Object,
    List,
    /// An upload, or the id of a file that is there already.
    File,
}

use Kind::{Chat, File, Flag, Int, List, Object, Text};

/// A parameter: its name, its kind, and whether it has to be there.
pub type Parameter = (&'static str, Kind, bool);

const fn must(name: &'static str, kind: Kind) -> Parameter {
    (name, kind, true)
}

const fn may(name: &'static str, kind: Kind) -> Parameter {
    (name, kind, false)
}

/// The parameters of all methods that send a message.
const SENDING: [Parameter; 11] = [
    must("chat_id", Chat),
    may("business_connection_id", Text),
    may("message_thread_id", Int),
    may("direct_messages_topic_id", Int),
    may("disable_notification", Flag),
    may("protect_content", Flag),
    may("allow_paid_broadcast", Flag),
    may("message_effect_id", Text),
    may("suggested_post_parameters", Object),
    may("reply_parameters", Object),
    may("reply_markup", Object),
];

/// Further parameters of all methods that send a file.
const CAPTION: [Parameter; 3] = [
    may("caption", Text),
    may("parse_mode", Text),
    may("caption_entities", List),
];

/// The parameters of all methods about one message.
const MESSAGE: [Parameter; 2] = [must("chat_id", Chat), must("message_id", Int)];

const TOPIC: [Parameter; 2] = [must("chat_id", Chat), must("message_thread_id", Int)];

/// The methods that are served, as the documentation spells them, each with its parameters.
const METHODS: &[(&str, &[&[Parameter]])] = &[
    ("getMe", &[]),
    ("getWebhookInfo", &[]),
    ("deleteWebhook", &[&[may("drop_pending_updates", Flag)]]),
    (
        "getUpdates",
        &[&[
            may("offset", Int),
            may("limit", Int),
            may("timeout", Int),
            may("allowed_updates", List),
        ]],
    ),
    (
        "setMyCommands",
        &[&[
            must("commands", List),
            may("scope", Object),
            may("language_code", Text),
        ]],
    ),
    (
        "sendMessage",
        &[
            &SENDING,
            &[
                must("text", Text),
                may("parse_mode", Text),
                may("entities", List),
                may("link_preview_options", Object),
            ],
        ],
    ),
    (
        "sendDocument",
        &[
            &SENDING,
            &CAPTION,
            &[
                must("document", File),
                may("thumbnail", File),
                may("disable_content_type_detection", Flag),
            ],
        ],
    ),
    (
        "sendPhoto",
        &[
            &SENDING,
            &CAPTION,
            &[
                must("photo", File),
                may("show_caption_above_media", Flag),
                may("has_spoiler", Flag),
            ],
        ],
    ),
    (
        "sendAudio",
        &[
            &SENDING,
            &CAPTION,
            &[
                must("audio", File),
                may("thumbnail", File),
                may("duration", Int),
                may("performer", Text),
                may("title", Text),
            ],
        ],
    ),
    (
        "sendVoice",
        &[
            &SENDING,
            &CAPTION,
            &[must("voice", File), may("duration", Int)],
        ],
    ),
    (
        "sendVideo",
        &[
            &SENDING,
            &CAPTION,
            &[
                must("video", File),
                may("thumbnail", File),
                may("cover", File),
                may("start_timestamp", Int),
                may("duration", Int),
                may("width", Int),
                may("height", Int),
                may("show_caption_above_media", Flag),
                may("has_spoiler", Flag),
                may("supports_streaming", Flag),
            ],
        ],
    ),
    (
        "editMessageText",
        &[
            &MESSAGE,
            &[
                must("text", Text),
                may("business_connection_id", Text),
                may("parse_mode", Text),
                may("entities", List),
                may("link_preview_options", Object),
                may("reply_markup", Object),
            ],
        ],
    ),
    (
        "editMessageReplyMarkup",
        &[
            &MESSAGE,
            &[
                may("business_connection_id", Text),
                may("reply_markup", Object),
            ],
        ],
    ),
    ("deleteMessage", &[&MESSAGE]),
    (
        "setMessageReaction",
        &[&MESSAGE, &[may("reaction", List), may("is_big", Flag)]],
    ),
    (
        "sendChatAction",
        &[&[
            must("chat_id", Chat),
            must("action", Text),
            may("message_thread_id", Int),
            may("business_connection_id", Text),
        ]],
    ),
    (
        "createForumTopic",
        &[&[
            must("chat_id", Chat),
            must("name", Text),
            may("icon_color", Int),
            may("icon_custom_emoji_id", Text),
        ]],
    ),
    (
        "editForumTopic",
        &[
            &TOPIC,
            &[may("name", Text), may("icon_custom_emoji_id", Text)],
        ],
    ),
    ("closeForumTopic", &[&TOPIC]),
    ("reopenForumTopic", &[&TOPIC]),
    ("deleteForumTopic", &[&TOPIC]),
    ("getChat", &[&[must("chat_id", Chat)]]),
    (
        "getChatMember",
        &[&[must("chat_id", Chat), must("user_id", Int)]],
    ),
    ("getFile", &[&[must("file_id", Text)]]),
    (
        "answerCallbackQuery",
        &[&[
            must("callback_query_id", Text),
            may("text", Text),
            may("show_alert", Flag),
            may("url", Text),
            may("cache_time", Int),
        ]],
    ),
];

/// The method as the documentation spells it, with its parameters. The vendor ignores case.
pub fn method(name: &str) -> Option<(&'static str, Vec<Parameter>)> {
    let known = METHODS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some((known.0, known.1.concat()))
}

/// Looks into the objects that parameters can be.
pub fn objects(method: &str, params: &Params) -> Result<(), Refusal> {
    if let Some(reply) = params.object("reply_parameters") {
        let keys = [
            "message_id",
            "chat_id",
            "allow_sending_without_reply",
            "quote",
            "quote_parse_mode",
            "quote_entities",
            "quote_position",
            "checklist_task_id",
        ];
        only("reply_parameters", reply, &keys)?;
        if !reply.get("message_id").is_some_and(Value::is_i64) {
            return Err(bad("reply_parameters: message_id has to be an Integer"));
        }
    }
    if let Some(preview) = params.object("link_preview_options") {
        let keys = [
            "is_disabled",
            "url",
            "prefer_small_media",
            "prefer_large_media",
            "show_above_text",
        ];
        only("link_preview_options", preview, &keys)?;
    }
    if let Some(markup) = params.object("reply_markup") {
        match markup.get("inline_keyboard") {
            Some(rows) => keyboard(rows)?,
            // The other keyboards belong to new messages.
            None if method.starts_with("send") => {
                let known = ["keyboard", "remove_keyboard", "force_reply"];
                if !known.iter().any(|key| markup.contains_key(*key)) {
                    return Err(bad("object expected as reply markup"));
                }
            }
            None => return Err(bad("inline keyboard expected")),
        }
    }
    Ok(())
}

fn only(what: &str, object: &Map<String, Value>, keys: &[&str]) -> Result<(), Refusal> {
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(bad(format!("{what}: unknown field \"{key}\""))),
        None => Ok(()),
    }
}

fn keyboard(rows: &Value) -> Result<(), Refusal> {
    const SAYING: [&str; 3] = ["text", "icon_custom_emoji_id", "style"];
    const DOING: [&str; 10] = [
        "url",
        "callback_data",
        "web_app",
        "login_url",
        "switch_inline_query",
        "switch_inline_query_current_chat",
        "switch_inline_query_chosen_chat",
        "copy_text",
        "callback_game",
        "pay",
    ];
    let not = |what: &str| bad(format!("can't parse inline keyboard button: {what}"));
    let rows = rows
        .as_array()
        .ok_or_else(|| bad("field \"inline_keyboard\" must be of type Array"))?;
    for row in rows {
        let row = row
            .as_array()
            .ok_or_else(|| bad("field \"inline_keyboard\" must be an Array of Arrays"))?;
        for button in row {
            let button = button.as_object().ok_or_else(|| not("Object expected"))?;
            let (saying, doing): (Vec<&str>, Vec<&str>) = button
                .keys()
                .map(String::as_str)
                .partition(|key| SAYING.contains(key));
            if let Some(key) = doing.iter().find(|key| !DOING.contains(key)) {
                return Err(not(&format!("unknown field \"{key}\"")));
            }
            if !saying.contains(&"text") || !button["text"].is_string() {
                return Err(not("Field \"text\" must be of type String"));
            }
            if doing.len() != 1 {
                return Err(not("Text buttons are unallowed in the inline keyboard"));
            }
            if let Some(data) = button.get("callback_data") {
                let data = data.as_str().unwrap_or_default();
                if data.is_empty() || data.len() > 64 {
                    return Err(bad("BUTTON_DATA_INVALID"));
                }
            }
        }
    }
    Ok(())
}

pub const ACTIONS: [&str; 11] = [
    "typing",
    "upload_photo",
    "record_video",
    "upload_video",
    "record_voice",
    "upload_voice",
    "upload_document",
    "choose_sticker",
    "find_location",
    "record_video_note",
    "upload_video_note",
];

/// All reactions, separated by blanks.
pub const REACTIONS: &str = "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 🌚 🌭 💯 🤣 ⚡ 🍌 \
    🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡";
