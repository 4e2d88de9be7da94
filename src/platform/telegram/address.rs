//! Converts Telegram's chats, topics and people to sources. A handoff and the person's next message must get the same
//! session key.

use serde_json::Value;
use teloxide_core::types::{
    Chat, ChatId, ChatKind, Message, MessageId, PublicChatKind, Recipient, ThreadId, User,
};

use crate::domain::{ChatType, Source};
use crate::domain::{HomeChannel, ThreadOutcome};
use crate::platform::telegram::NAME;

/// The topic that every forum has. Its messages do not carry this id, and sends must not carry it either.
pub(super) const GENERAL: &str = "1";

/// The place and the author of a message.
pub(super) fn of_message(message: &Message) -> Source {
    of(message, message.from.as_ref())
}

/// The place of a message, with a given person, such as one who pressed a button.
pub(super) fn of(message: &Message, user: Option<&User>) -> Source {
    let chat = &message.chat;
    let chat_type = chat_type(chat);
    let chat_id = chat.id.0.to_string();
    // The author of a post in a channel is the channel itself.
    let user_id = match user {
        Some(user) => Some(user.id.0.to_string()),
        None if chat_type == ChatType::Group => None,
        None => Some(chat_id.clone()),
    };
    let name = chat.title().map(str::to_owned);
    Source {
        chat_name: name.or_else(|| user.map(User::full_name)),
        thread_id: thread(message),
        user_id,
        user_name: user.map(User::full_name),
        ..Source::new(NAME, chat_type, &chat_id)
    }
}

fn chat_type(chat: &Chat) -> ChatType {
    match &chat.kind {
        ChatKind::Private(_) => ChatType::Dm,
        ChatKind::Public(public) => match public.kind {
            PublicChatKind::Channel(_) => ChatType::Channel,
            PublicChatKind::Group | PublicChatKind::Supergroup(_) => ChatType::Group,
        },
    }
}

fn is_forum(chat: &Chat) -> bool {
    match &chat.kind {
        ChatKind::Public(public) => {
            matches!(&public.kind, PublicChatKind::Supergroup(group) if group.is_forum)
        }
        ChatKind::Private(_) => false,
    }
}

/// The topic of a message. Replies outside of topics also carry a thread id, which only names the message they reply
/// to.
fn thread(message: &Message) -> Option<String> {
    let id = message.thread_id.filter(|_| message.is_topic_message);
    let general = || is_forum(&message.chat).then(|| GENERAL.to_owned());
    id.map(|id| id.0.0.to_string()).or_else(general)
}

/// The kind of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) chat_type: ChatType,
    pub(super) forum: bool,
}

impl Kind {
    /// From the answer of `getChat`.
    pub(super) fn of(chat: &Value) -> Kind {
        let chat_type = match chat.get("type").and_then(Value::as_str) {
            Some("private") => ChatType::Dm,
            Some("channel") => ChatType::Channel,
            _ => ChatType::Group,
        };
        Kind {
            chat_type,
            forum: chat.get("is_forum").and_then(Value::as_bool) == Some(true),
        }
    }

    /// The home chat itself, if no new topic can be opened.
    pub(super) fn home(self, home: &HomeChannel, reason: String) -> ThreadOutcome {
        let general = self.forum && self.chat_type == ChatType::Group;
        let thread_id = home.thread_id.clone();
        ThreadOutcome::Chat {
            reason,
            within: Some(self.chat_type),
            thread_id: thread_id.or_else(|| general.then(|| GENERAL.to_owned())),
        }
    }
}

/// The source of the person's next message in the home.
pub(super) fn of_home(home: &HomeChannel, opened: &ThreadOutcome) -> Source {
    let guessed = match home.chat_id.starts_with(['-', '@']) {
        true => ChatType::Group,
        false => ChatType::Dm,
    };
    let chat_type = opened.within().unwrap_or(guessed);
    let (thread_id, name) = match opened {
        ThreadOutcome::Thread { id, title, .. } => (Some(id.clone()), Some(title.clone())),
        ThreadOutcome::Chat { thread_id, .. } => (thread_id.clone(), home.name.clone()),
    };
    Source {
        chat_name: name,
        thread_id,
        user_id: match chat_type {
            ChatType::Group | ChatType::Thread => home.owner.clone(),
            ChatType::Dm | ChatType::Channel => Some(home.chat_id.clone()),
        },
        ..Source::new(NAME, chat_type, &home.chat_id)
    }
}

/// The private chat with a person, which has their id.
pub(super) fn private(user_id: &str) -> Source {
    Source {
        user_id: Some(user_id.to_owned()),
        ..Source::new(NAME, ChatType::Dm, user_id)
    }
}

pub(super) fn recipient(source: &Source) -> Recipient {
    let id = source.chat_id.as_deref().unwrap_or_default();
    match id.parse() {
        Ok(id) => Recipient::Id(ChatId(id)),
        Err(_) => Recipient::ChannelUsername(id.to_owned()),
    }
}

/// The topic to send to. `None` for General, which a send must not name.
pub(super) fn topic(source: &Source) -> Option<ThreadId> {
    any_topic(source).filter(|_| {
        source.chat_type != ChatType::Group || source.thread_id.as_deref() != Some(GENERAL)
    })
}

/// The topic for the typing indicator, which names General like every other topic.
pub(super) fn any_topic(source: &Source) -> Option<ThreadId> {
    let id = source.thread_id.as_deref()?.parse().ok()?;
    Some(ThreadId(MessageId(id)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::{KeyRules, session_key};

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Spot {
        PrivateTopic,
        Private,
        ForumTopic,
        General,
        Group,
        Supergroup,
        Channel,
    }

    const SPOTS: [Spot; 7] = [
        Spot::PrivateTopic,
        Spot::Private,
        Spot::ForumTopic,
        Spot::General,
        Spot::Group,
        Spot::Supergroup,
        Spot::Channel,
    ];

    impl Spot {
        fn is_topic(self) -> bool {
            matches!(self, Spot::PrivateTopic | Spot::ForumTopic)
        }

        /// The chat, as `getChat` and every message describe it.
        fn chat(self, id: i64) -> Value {
            match self {
                Spot::PrivateTopic | Spot::Private => {
                    json!({"id": id, "type": "private", "first_name": "Ada"})
                }
                Spot::ForumTopic | Spot::General => {
                    json!({"id": -id, "type": "supergroup", "title": "Work", "is_forum": true})
                }
                Spot::Group => json!({"id": -id, "type": "group", "title": "Work"}),
                Spot::Supergroup => json!({"id": -id, "type": "supergroup", "title": "Work"}),
                Spot::Channel => json!({"id": -id, "type": "channel", "title": "Work"}),
            }
        }

        /// The person's next message there. A reply outside of topics carries a thread id that is no topic.
        fn message(self, chat: &Value, user: u64, topic: i64, reply: Option<i64>) -> Value {
            let mut message =
                json!({"message_id": 99, "date": 1_700_000_000, "chat": chat, "text": "hello"});
            if self == Spot::Channel {
                message["sender_chat"] = chat.clone();
            } else {
                message["from"] = json!({"id": user, "is_bot": false, "first_name": "Ada"});
            }
            if self.is_topic() {
                message["message_thread_id"] = json!(topic);
                message["is_topic_message"] = json!(true);
            } else if let Some(reply) = reply {
                message["message_thread_id"] = json!(reply);
            }
            message
        }
    }

    proptest! {
        /// A handoff binds the key of the person's next message, in every kind of home.
        #[test]
        fn both_roads_lead_to_one_key(
            spot in prop::sample::select(SPOTS.to_vec()),
            id in 1i64..5_000_000_000,
            other in 1u64..5_000_000_000,
            topic in 2i64..100_000,
            reply in prop::option::of(2i64..100_000),
            bits in prop::array::uniform2(any::<bool>()),
        ) {
            let rules = KeyRules { group_per_user: bits[0], thread_per_user: bits[1], ..KeyRules::default() };
            let chat = spot.chat(id);
            let user = match spot {
                Spot::PrivateTopic | Spot::Private => id as u64,
                _ => other,
            };
            let home = HomeChannel {
                chat_id: chat["id"].to_string(),
                name: None,
                thread_id: None,
                owner: Some(user.to_string()),
            };
            let kind = Kind::of(&chat);
            let opened = match spot.is_topic() {
                true => ThreadOutcome::Thread {
                    id: topic.to_string(),
                    title: "t".into(),
                    repeated: false,
                    within: Some(kind.chat_type),
                },
                false => kind.home(&home, "no topic".into()),
            };
            // As the journal returns it after a restart.
            let opened = serde_json::from_str(&serde_json::to_string(&opened).unwrap()).unwrap();
            let bound = session_key(&of_home(&home, &opened), &rules);

            let message: Message = serde_json::from_value(spot.message(&chat, user, topic, reply)).unwrap();
            prop_assert_eq!(bound, session_key(&of_message(&message), &rules), "{:?}", spot);
        }
    }

    #[test]
    fn general_is_left_out_of_sends_and_named_in_signs() {
        let general = Source {
            thread_id: Some(GENERAL.into()),
            ..Source::new(NAME, ChatType::Group, "-100")
        };
        assert_eq!(topic(&general), None);
        assert!(any_topic(&general).is_some());
        let private = Source {
            chat_type: ChatType::Dm,
            ..general
        };
        assert!(topic(&private).is_some());
    }
}
