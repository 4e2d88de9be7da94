//! What people write.

use std::time::Duration;

use axum::body::Bytes;
use serde_json::json;

use super::post::Draft;
use super::world::Id;
use super::{Discord, Person};

/// A message that a person is about to send.
pub struct Writing<'a> {
    discord: &'a Discord,
    channel: Id,
    draft: Draft,
}

impl Writing<'_> {
    /// `<@id>` in it mentions somebody.
    pub fn text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.draft.content);
        self
    }

    /// It was written some time ago.
    pub fn ago(mut self, ago: Duration) -> Self {
        self.draft.id = Some(self.discord.change(|world| world.id_of(ago)));
        self
    }

    pub fn reply_to(mut self, message: Id) -> Self {
        self.draft.kind = 19;
        self.draft.reference = Some((self.channel, Some(message)));
        self
    }

    pub fn file(mut self, name: &str, bytes: &[u8]) -> Self {
        let bytes = Bytes::copy_from_slice(bytes);
        self.draft.files.push((name.to_owned(), bytes));
        self
    }

    /// A webhook writes instead of the person. It has an id of its own.
    pub fn by_webhook(mut self) -> Self {
        let id = self.discord.change(|world| world.next_id());
        self.draft.author = id;
        self.draft.webhook = Some(id);
        let author = json!({
            "id": id.to_string(),
            "username": "Build",
            "discriminator": "0000",
            "avatar": null,
            "bot": true,
        });
        self.draft.shown_author = Some(author);
        self
    }

    /// Another bot writes instead of the person.
    pub fn by_other_bot(mut self) -> Self {
        let id = self.discord.change(|world| world.next_id());
        self.draft.author = id;
        let author = json!({
            "id": id.to_string(),
            "username": "other-bot",
            "discriminator": "1717",
            "global_name": null,
            "avatar": null,
            "bot": true,
        });
        self.draft.shown_author = Some(author);
        self
    }

    /// A message of Discord about what the person did, of this type: 6 for a pin, 7 for a new member.
    pub fn system(mut self, kind: u8) -> Self {
        self.draft.kind = kind;
        self
    }

    pub fn send(self) -> Id {
        let (channel, draft) = (self.channel, self.draft);
        self.discord.change(|world| world.post(channel, draft))
    }
}

impl Discord {
    /// A person is about to write in a channel, a thread or a direct channel.
    pub fn writes(&self, channel: Id, person: &Person) -> Writing<'_> {
        let draft = Draft {
            author: person.id,
            ..Draft::default()
        };
        Writing {
            discord: self,
            channel,
            draft,
        }
    }

    pub fn says(&self, channel: Id, person: &Person, text: &str) -> Id {
        self.writes(channel, person).text(text).send()
    }

    /// A person edits the text of a message.
    pub fn edits(&self, channel: Id, message: Id, text: &str) {
        self.change(|world| world.edit_message(channel, message, json!({"content": text})));
    }

    pub fn deletes_message(&self, channel: Id, message: Id) {
        self.change(|world| world.delete_message(channel, message));
    }
}
