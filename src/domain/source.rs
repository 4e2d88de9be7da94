//! The origin or destination of a message: a chat, and the thread and the person in it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChatType {
    Dm,
    Group,
    Channel,
    Thread,
}

impl ChatType {
    pub const ALL: [ChatType; 4] = [
        ChatType::Dm,
        ChatType::Group,
        ChatType::Channel,
        ChatType::Thread,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ChatType::Dm => "dm",
            ChatType::Group => "group",
            ChatType::Channel => "channel",
            ChatType::Thread => "thread",
        }
    }

    pub fn parse(text: &str) -> Option<ChatType> {
        Self::ALL.into_iter().find(|t| t.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub platform: String,
    pub chat_type: ChatType,
    pub chat_id: Option<String>,
    /// A second id of the same chat. On Signal it is a group's id without its prefix.
    pub chat_id_alt: Option<String>,
    pub chat_name: Option<String>,
    pub thread_id: Option<String>,
    pub user_id: Option<String>,
    /// A second id of the same person. Keys prefer it.
    pub user_id_alt: Option<String>,
    pub user_name: Option<String>,
    pub chat_topic: Option<String>,
    /// The workspace, guild or server that the chat belongs to.
    pub scope_id: Option<String>,
    pub parent_chat_id: Option<String>,
    pub message_id: Option<String>,
    pub profile: Option<String>,
    /// Other fields that Hermes wrote. They are written back unchanged.
    pub others: Map<String, Value>,
}

/// The fields of an origin that [`Source`] has.
const KNOWN: [&str; 15] = [
    "platform",
    "chat_id",
    "chat_id_alt",
    "chat_name",
    "chat_type",
    "user_id",
    "user_id_alt",
    "user_name",
    "thread_id",
    "chat_topic",
    "scope_id",
    "guild_id",
    "parent_chat_id",
    "message_id",
    "profile",
];

impl Source {
    pub fn new(platform: &str, chat_type: ChatType, chat_id: &str) -> Self {
        Source {
            platform: platform.to_owned(),
            chat_type,
            chat_id: Some(chat_id.to_owned()),
            chat_id_alt: None,
            chat_name: None,
            thread_id: None,
            user_id: None,
            user_id_alt: None,
            user_name: None,
            chat_topic: None,
            scope_id: None,
            parent_chat_id: None,
            message_id: None,
            profile: None,
            others: Map::new(),
        }
    }

    /// The `origin` object of a routing entry, in Hermes' format: eight keys always, the others only if they are set.
    pub fn to_origin(&self) -> Value {
        let mut origin = Map::new();
        origin.insert("platform".into(), json!(self.platform));
        origin.insert("chat_id".into(), json!(self.chat_id));
        origin.insert("chat_name".into(), json!(self.chat_name));
        origin.insert("chat_type".into(), json!(self.chat_type.as_str()));
        origin.insert("user_id".into(), json!(self.user_id));
        origin.insert("user_name".into(), json!(self.user_name));
        origin.insert("thread_id".into(), json!(self.thread_id));
        origin.insert("chat_topic".into(), json!(self.chat_topic));
        let optional = [
            ("chat_id_alt", &self.chat_id_alt),
            ("user_id_alt", &self.user_id_alt),
            ("scope_id", &self.scope_id),
            // Hermes writes the scope under its older name too.
            ("guild_id", &self.scope_id),
            ("parent_chat_id", &self.parent_chat_id),
            ("message_id", &self.message_id),
            ("profile", &self.profile),
        ];
        for (name, value) in optional {
            if let Some(text) = value {
                origin.insert(name.into(), json!(text));
            }
        }
        origin.extend(self.others.clone());
        Value::Object(origin)
    }

    /// The reverse of [`Source::to_origin`]. `None` if the platform or the chat type is missing.
    pub fn from_origin(origin: &Value) -> Option<Self> {
        let text = |name: &str| match origin.get(name)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(n) => Some(n.to_string()),
            _ => None,
        };
        Some(Source {
            platform: text("platform")?,
            chat_type: ChatType::parse(&text("chat_type")?)?,
            chat_id: text("chat_id"),
            chat_id_alt: text("chat_id_alt"),
            chat_name: text("chat_name"),
            thread_id: text("thread_id"),
            user_id: text("user_id"),
            user_id_alt: text("user_id_alt"),
            user_name: text("user_name"),
            chat_topic: text("chat_topic"),
            scope_id: text("scope_id").or_else(|| text("guild_id")),
            parent_chat_id: text("parent_chat_id"),
            message_id: text("message_id"),
            profile: text("profile"),
            others: origin
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| !KNOWN.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hermes_has_written_of_a_source_is_written_back() {
        let origin = json!({
            "platform": "discord", "chat_id": "301", "chat_id_alt": "x", "chat_name": null, "chat_type": "thread",
            "user_id": "42", "user_name": null, "thread_id": "301", "chat_topic": null, "scope_id": "9000",
            "guild_id": "9000", "parent_chat_id": "100", "auto_thread_created": true,
            "auto_thread_initial_name": "Plans",
        });
        let source = Source::from_origin(&origin).unwrap();
        assert_eq!(source.chat_id_alt.as_deref(), Some("x"));
        assert_eq!(source.to_origin(), origin);
    }
}
