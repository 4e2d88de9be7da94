//! Telegram's part of the contract that all platforms keep: a forum whose bot may manage topics.

use serde_json::Value;

use crate::platform::contract::{Contract, Speaker, contract};
use crate::support::Home;
use crate::support::bot::Bot;
use crate::support::fake::{FakeServer, Place};
use crate::support::telegram::{ADA, BEN, BotMessage, Rights, World};

struct Forum {
    bot: Bot,
}

fn number(id: &Option<String>) -> Option<i64> {
    Some(id.as_ref()?.parse().expect("a number"))
}

impl Forum {
    fn messages_of_bot(&self, place: &Place) -> Vec<BotMessage> {
        let chat = number(&place.chat).expect("a chat");
        self.bot.api.messages_in(chat, number(&place.thread))
    }
}

impl Contract for Forum {
    const PLATFORM: &'static str = "telegram";
    const SEND: &'static str = "sendMessage";
    const RECOGNISES_REPEATS: bool = false;
    type World = World;

    fn start() -> Forum {
        Forum {
            bot: Bot::at_home(|api| api.forum("Work", Rights::TopicsAdmin)),
        }
    }

    fn home(&self) -> &Home {
        &self.bot.home
    }

    fn server(&self) -> &FakeServer<World> {
        &self.bot.api
    }

    fn until_listening(&self) {
        self.bot.api.until_polled();
    }

    fn threads(&self) -> Vec<Place> {
        let topics = self.bot.api.topics(self.bot.chat).into_iter();
        topics
            .map(|topic| Place {
                chat: Some(self.bot.chat.to_string()),
                thread: Some(topic.thread.to_string()),
            })
            .collect()
    }

    fn around(&self, thread: &Place) -> Place {
        Place {
            chat: thread.chat.clone(),
            thread: None,
        }
    }

    fn says(&self, place: &Place, who: Speaker, text: &str) {
        let person = match who {
            Speaker::Allowed => &ADA,
            Speaker::Stranger => &BEN,
        };
        let chat = number(&place.chat).expect("a chat");
        self.bot.api.says(chat, number(&place.thread), person, text);
    }

    fn repeats_last_event(&self) {
        self.bot.api.repeat_last();
    }

    fn deletes(&self, thread: &Place) {
        let topic = number(&thread.thread).expect("a topic");
        self.bot.api.delete_topic(self.bot.chat, topic);
    }

    fn messages(&self, place: &Place) -> Vec<String> {
        let messages = self.messages_of_bot(place).into_iter();
        messages.map(|message| message.text).collect()
    }

    fn notified(&self) -> Vec<String> {
        let places = self.threads();
        let messages = places.iter().flat_map(|place| self.messages_of_bot(place));
        messages.flat_map(|message| mentions(&message)).collect()
    }
}

/// The vendor finds names in the text without its tags, but not in code. A link to a person notifies that person too.
fn mentions(message: &BotMessage) -> Vec<String> {
    let text: Vec<u16> = message.text.encode_utf16().collect();
    let entities = message.entities.as_array().cloned().unwrap_or_default();
    let number = |value: &Value| usize::try_from(value.as_u64().expect("a number")).expect("small");
    let is_code = |at: usize| {
        entities.iter().any(|entity| {
            let start = number(&entity["offset"]);
            let code = ["code", "pre"].map(Value::from);
            code.contains(&entity["type"])
                && (start..start + number(&entity["length"])).contains(&at)
        })
    };
    let is_word = |unit: &u16| {
        char::from_u32((*unit).into()).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut found: Vec<String> = (0..text.len())
        .filter(|at| text[*at] == u16::from(b'@') && !is_code(*at))
        .filter(|at| *at == 0 || !is_word(&text[*at - 1]))
        .map(|at| {
            text[at + 1..]
                .iter()
                .copied()
                .take_while(|u| is_word(u))
                .collect()
        })
        .filter(|name: &Vec<u16>| name.len() >= 4)
        .map(|name| String::from_utf16_lossy(&name))
        .collect();
    if message.source.contains("tg://user?id=") && message.source.contains("<a href") {
        found.push("a person, by a link".into());
    }
    found
}

contract!(Forum);
