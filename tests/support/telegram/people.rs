//! The people in the chats: what they do there and to the bot.

use std::time::Duration;

use serde_json::{Value, json};

use super::limits::{RateLimit, VendorLimits};
use super::world::{ChatKind, Query, Rights, World, now};
use super::writing::{ADA, Person, found_in};
use super::{BotApi, methods};

impl BotApi {
    /// A private chat with a person who has started the bot. It has the id of the person.
    pub fn private(&self, person: &Person) -> i64 {
        self.change(|world| {
            let (id, name) = (person.id, person.name);
            world.put_chat(id, ChatKind::Private, name, person.username, Rights::Member);
            world.meet(id, person);
        });
        person.id
    }

    /// Whether private chats have topics, which is a setting of the bot.
    pub fn private_topics(&self, have: bool) {
        self.change(|world| world.private_topics = have);
    }

    pub fn group(&self, title: &str) -> i64 {
        self.change(|world| world.add_chat(ChatKind::Group, title, Rights::Member))
    }

    pub fn supergroup(&self, title: &str) -> i64 {
        self.change(|world| world.add_chat(ChatKind::Supergroup, title, Rights::Member))
    }

    pub fn forum(&self, title: &str, rights: Rights) -> i64 {
        self.change(|world| world.add_chat(ChatKind::Forum, title, rights))
    }

    /// A channel where the bot may post. The bot can call it by its name too.
    pub fn channel(&self, title: &str, name: &str) -> i64 {
        self.change(|world| {
            let id = world.add_chat(ChatKind::Channel, title, Rights::Admin);
            world.chat(id).username = Some(name.to_owned());
            id
        })
    }

    /// A person writes, in a topic or outside of topics. In a channel, the channel is the sender.
    pub fn says(&self, chat: i64, thread: Option<i64>, person: &Person, text: &str) -> i64 {
        self.writes(chat, person).thread(thread).text(text).send()
    }

    /// A person edits the text of a message.
    pub fn edits(&self, chat: i64, message: i64, text: &str) {
        self.change(|world| {
            let entry = world.chat(chat).messages.get_mut(&message);
            let value = &mut entry.expect("a message").value;
            value["text"] = json!(text);
            value["entities"] = json!(found_in(text));
            value["edit_date"] = json!(now());
            let value = value.clone();
            let kind = match value["chat"]["type"] == "channel" {
                true => "edited_channel_post",
                false => "edited_message",
            };
            world.mailbox.put(kind, value);
        });
    }

    /// A person edits the caption of a file.
    pub fn edits_caption(&self, chat: i64, message: i64, caption: &str) {
        self.change(|world| {
            let entry = world.chat(chat).messages.get_mut(&message);
            let value = &mut entry.expect("a message").value;
            value["caption"] = json!(caption);
            value["edit_date"] = json!(now());
            let value = value.clone();
            world.mailbox.put("edited_message", value);
        });
    }

    /// Several pictures as one album: a message each, the first with the caption.
    pub fn album(
        &self,
        chat: i64,
        thread: Option<i64>,
        person: &Person,
        caption: &str,
        pictures: &[&[u8]],
    ) -> Vec<i64> {
        let captions = std::iter::once(caption).chain(std::iter::repeat(""));
        self.at_once(|api| {
            let mut group = String::new();
            let mut messages = Vec::new();
            for (picture, caption) in pictures.iter().zip(captions) {
                if group.is_empty() {
                    group = format!("1380{}", api.world().files.len());
                }
                let writing = api.writes(chat, person).thread(thread).text(caption);
                let writing = writing.file("photo", "photo.jpg", picture);
                messages.push(writing.album(&group).send());
            }
            messages
        })
    }

    /// A person presses a button, given by its label or its data. Gives the id of the query.
    pub fn presses(&self, chat: i64, message: i64, person: &Person, button: &str) -> String {
        let data = self.change(|world| {
            let message = world.chat(chat).messages[&message].value.clone();
            let rows = message["reply_markup"]["inline_keyboard"].as_array();
            let mut buttons = rows.into_iter().flatten().flat_map(|row| row.as_array());
            let data = buttons.find_map(|row| {
                let is = |key: &str, b: &Value| b[key] == button;
                let mut row = row.iter();
                let found = row.find(|b| is("text", b) || is("callback_data", b))?;
                found["callback_data"].as_str().map(str::to_owned)
            });
            data.unwrap_or_else(|| panic!("no button {button} in {message}"))
        });
        self.presses_with(chat, message, person, &data)
    }

    /// The client of a person presses a button with data of its own.
    pub fn presses_with(&self, chat: i64, message: i64, person: &Person, data: &str) -> String {
        self.change(|world| {
            world.meet(chat, person);
            let message = world.chat(chat).messages[&message].value.clone();
            let id = format!("77{:016}", world.queries.len());
            world.queries.push(Query {
                id: id.clone(),
                answer: None,
            });
            let query = json!({
                "id": id,
                "from": person.value(),
                "message": message,
                "chat_instance": format!("{}", chat.wrapping_mul(7919)),
                "data": data,
            });
            world.mailbox.put("callback_query", query);
            id
        })
    }

    /// A person opens a topic. Gives its id.
    pub fn opens_topic(&self, chat: i64, person: &Person, name: &str) -> i64 {
        self.change(|world| {
            assert!(world.has_topics(chat), "no topics there");
            world.meet(chat, person);
            let message = world.open_topic(chat, name, 7_322_096, person.value());
            world.mailbox.put("message", message.clone());
            message["message_id"].as_i64().expect("a number")
        })
    }

    /// A person joins a group. The group gets a message about it.
    pub fn joins(&self, chat: i64, person: &Person) -> i64 {
        self.change(|world| {
            world.meet(chat, person);
            let (id, mut message) = world.head(chat, person.value(), None, None, now());
            message.insert("new_chat_members".to_owned(), json!([person.value()]));
            let message = Value::Object(message);
            world.insert_message(chat, id, None, false, message.clone());
            world.mailbox.put("message", message);
            id
        })
    }

    /// A group becomes a supergroup. Both get a message about it; the bot gets an update only if `told`. Gives the new id.
    pub fn upgrades(&self, group: i64, told: bool) -> i64 {
        self.change(|world| {
            let title = world.chat(group).title.clone();
            let new = world.add_chat(ChatKind::Supergroup, &title, Rights::Member);
            world.upgraded.insert(group, new);
            for (chat, field, other) in [
                (group, "migrate_to_chat_id", new),
                (new, "migrate_from_chat_id", group),
            ] {
                let (id, mut message) = world.head(chat, ADA.value(), None, None, now());
                message.insert(field.to_owned(), json!(other));
                let message = Value::Object(message);
                world.insert_message(chat, id, None, false, message.clone());
                if told {
                    world.mailbox.put("message", message);
                }
            }
            new
        })
    }

    /// All updates of `happens` arrive together, as after a break of the connection.
    pub fn at_once<T>(&self, happens: impl FnOnce(&BotApi) -> T) -> T {
        self.change(|world| world.mailbox.held_back = Some(Vec::new()));
        let happened = happens(self);
        self.change(|world| {
            let kept = world.mailbox.held_back.take().expect("kept back above");
            kept.into_iter()
                .for_each(|update| world.mailbox.number(update));
        });
        happened
    }

    /// All updates of `happens` arrive together, the last first.
    pub fn backwards<T>(&self, happens: impl FnOnce(&BotApi) -> T) -> T {
        self.at_once(|api| {
            let happened = happens(api);
            api.change(|world| {
                world
                    .mailbox
                    .held_back
                    .as_mut()
                    .expect("kept back")
                    .reverse()
            });
            happened
        })
    }

    /// The last update arrives again with the same id, although it was confirmed.
    pub fn repeat_last(&self) {
        self.change(|world| {
            let last = world.mailbox.all.last().expect("an update").clone();
            world.mailbox.again.push(last);
        });
    }

    /// An update of a kind that no library knows yet.
    pub fn something_new(&self) {
        self.change(|world| {
            let thought = json!({"from": ADA.value(), "thought": "forty-two"});
            world.mailbox.put("telepathy", thought);
        });
    }

    /// An update with any content, even of a kind that the bot does not want.
    pub fn brings(&self, kind: &str, content: Value) {
        self.change(|world| {
            let allowed = world.mailbox.allowed.take();
            world.mailbox.put(kind, content);
            world.mailbox.allowed = allowed;
        });
    }

    /// Refuses messages beyond these limits from now on.
    pub fn enforce_limits(&self, limits: VendorLimits) {
        self.change(|world| world.limiter.limits = limits);
    }

    /// Allows so many messages a second to all chats together.
    pub fn limit(&self, per_second: usize) {
        let limit = RateLimit::new(per_second, Duration::from_secs(1));
        self.change(|world| world.limiter.limits.overall = Some(limit));
    }

    /// Allows so many messages to each chat in any such time.
    pub fn limit_chat(&self, count: usize, within: Duration) {
        let limit = RateLimit::new(count, within);
        self.change(|world| {
            world.limiter.limits.group = Some(limit);
            world.limiter.limits.private_chat = Some(limit);
        });
    }

    /// Sets a webhook, as another program would. While there is one, polls are refused.
    pub fn webhook(&self, url: &str) {
        self.change(|world| url.clone_into(&mut world.webhook));
    }

    /// From now on `getFile` gives this path for all files.
    pub fn keeps_files_at(&self, path: &str) {
        self.change(|world| world.local_file = Some(path.to_owned()));
    }

    pub fn delete_topic(&self, chat: i64, thread: i64) {
        self.change(|world| world.delete_topic(chat, thread));
    }

    /// A person blocks the bot.
    pub fn block(&self, person: &Person) {
        self.bar(person.id, Some("bot was blocked by the user"));
    }

    pub fn unblock(&self, person: &Person) {
        self.bar(person.id, None);
    }

    /// A person removes the bot from a group.
    pub fn kick(&self, chat: i64) {
        let why = match self.change(|world| world.chat(chat).type_name()) {
            "group" => "bot was kicked from the group chat",
            "channel" => "bot was kicked from the channel chat",
            _ => "bot was kicked from the supergroup chat",
        };
        self.bar(chat, Some(why));
    }

    fn bar(&self, chat: i64, why: Option<&'static str>) {
        self.as_member(chat, |world| world.chat(chat).barred = why);
    }

    /// The bot is no longer an administrator.
    pub fn revoke_rights(&self, chat: i64) {
        self.as_member(chat, |world| world.chat(chat).rights = Rights::Member);
    }

    /// Changes the membership of the bot in a chat. The bot gets an update about it.
    fn as_member(&self, chat: i64, change: impl FnOnce(&mut World)) {
        self.change(|world| {
            let is = |world: &mut World| {
                let chat = world.chat(chat);
                methods::bot_as_member(chat.rights, chat.barred)
            };
            let old = is(world);
            change(world);
            let new = is(world);
            let by = match world.people.get(&chat) {
                Some(person) => person.value(),
                None => ADA.value(),
            };
            let told = json!({
                "chat": world.chat(chat).value(),
                "from": by,
                "date": now(),
                "old_chat_member": old,
                "new_chat_member": new,
            });
            world.mailbox.put("my_chat_member", told);
        });
    }
}
