//! What people write.

use axum::body::Bytes;
use serde_json::json;

use super::mentions::normalized;
use super::post::Draft;
use super::world::{FileState, World};
use super::{Person, Slack};

/// A message that a person is about to send.
pub struct Writing<'a> {
    slack: &'a Slack,
    channel: String,
    draft: Draft,
}

/// The blocks that Slack's own clients send with a text.
fn rich_text(text: &str) -> serde_json::Value {
    let mut elements = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("<@") {
        let Some((user, after)) = rest[at + 2..].split_once('>') else {
            break;
        };
        if at > 0 {
            elements.push(json!({"type": "text", "text": rest[..at]}));
        }
        elements.push(json!({"type": "user", "user_id": user}));
        rest = after;
    }
    if !rest.is_empty() {
        elements.push(json!({"type": "text", "text": rest}));
    }
    let section = json!({"type": "rich_text_section", "elements": elements});
    json!({"type": "rich_text", "block_id": "rIch0", "elements": [section]})
}

impl Writing<'_> {
    /// `<@U…>` in it mentions somebody. Other special characters are escaped as people's clients do.
    pub fn text(mut self, text: &str) -> Self {
        text.clone_into(&mut self.draft.text);
        self.draft.blocks = Some(vec![rich_text(text)]);
        self
    }

    /// A reply in the thread of this message.
    pub fn thread(mut self, root: &str) -> Self {
        self.draft.thread_ts = Some(root.to_owned());
        self
    }

    /// The reply is shown in the channel too.
    pub fn broadcast(mut self) -> Self {
        self.draft.broadcast = true;
        self
    }

    pub fn file(mut self, name: &str, bytes: &[u8]) -> Self {
        let (author, bytes) = (self.draft.author.clone(), Bytes::copy_from_slice(bytes));
        let channel = self.channel.clone();
        let id = self.slack.change(|world| {
            let team = world.channel(&channel).team.clone();
            world.add_file(&team, &author, name, bytes)
        });
        self.draft.files.push(id);
        self
    }

    /// Another bot, which [`Slack::other_bot`] has made, writes instead.
    pub fn by_other_bot(mut self, user: &str) -> Self {
        let bot = self.slack.world().users[user].bot_id.clone();
        self.draft.other_bot = Some(bot.expect("a bot"));
        user.clone_into(&mut self.draft.author);
        self
    }

    /// A note of Slack about what the person did, such as `channel_topic`.
    pub fn note(mut self, subtype: &'static str) -> Self {
        self.draft.subtype = Some(subtype);
        self.draft.blocks = None;
        self
    }

    /// Gives the `ts`.
    pub fn send(self) -> String {
        let (channel, draft) = (self.channel, self.draft);
        self.slack.change(|world| world.post(&channel, draft))
    }
}

impl Slack {
    /// A person is about to write in a channel.
    pub fn writes(&self, channel: &str, person: &Person) -> Writing<'_> {
        Writing {
            slack: self,
            channel: channel.to_owned(),
            draft: Draft {
                author: person.id.to_owned(),
                ..Draft::default()
            },
        }
    }

    pub fn says(&self, channel: &str, person: &Person, text: &str) -> String {
        self.writes(channel, person).text(text).send()
    }

    /// A person replies in a thread.
    pub fn replies(&self, channel: &str, root: &str, person: &Person, text: &str) -> String {
        self.writes(channel, person).thread(root).text(text).send()
    }

    /// A person edits their message.
    pub fn edits(&self, channel: &str, ts: &str, text: &str) {
        self.change(|world| {
            let message = world.message(channel, ts).expect("a message");
            let author = message.author.clone();
            let fields = json!({"text": normalized(text), "blocks": [rich_text(text)]});
            world.edit(channel, ts, &author, fields, true);
        });
    }

    pub fn deletes(&self, channel: &str, ts: &str) {
        self.change(|world| world.delete(channel, ts));
    }

    /// People delete a whole thread. Without replies, nothing is left of its root.
    pub fn deletes_thread(&self, channel: &str, root: &str) {
        self.change(|world| {
            let replies = world.channel(channel).replies(root);
            let replies: Vec<String> = replies.map(|(ts, _)| ts.clone()).collect();
            for ts in replies.iter().map(String::as_str).chain([root]) {
                world.delete(channel, ts);
            }
        });
    }

    /// A person deletes a file, and leaves the message that it came with.
    pub fn deletes_file(&self, id: &str) {
        self.change(|world| world.files.get_mut(id).expect("a file").state = FileState::Deleted);
    }

    /// A person reacts to a message.
    pub fn reacts(&self, channel: &str, ts: &str, person: &Person, emoji: &str) {
        self.change(|world| {
            world.react(channel, ts, person.id, emoji);
            let (event_ts, author) = (world.new_ts(), &world.channel(channel).messages[ts].author);
            let event = json!({
                "type": "reaction_added",
                "user": person.id,
                "reaction": emoji,
                "item_user": author,
                "item": {"type": "message", "channel": channel, "ts": ts},
                "event_ts": event_ts,
            });
            world.emit_in(channel, "reaction_added", event);
        });
    }

    /// A person opens the assistant. Gives the direct channel and the thread, whose root is a note of Slack.
    pub fn opens_assistant(&self, person: &Person) -> (String, String) {
        let channel = self.direct(person);
        let root = self.change(|world| {
            let draft = Draft {
                author: world.team_of(&channel).bot_user.clone(),
                text: "New Assistant Thread".to_owned(),
                subtype: Some("assistant_app_thread"),
                ..Draft::default()
            };
            let root = world.post(&channel, draft);
            tell_of_assistant(
                world,
                "assistant_thread_started",
                person,
                &channel,
                &root,
                None,
            );
            root
        });
        (channel, root)
    }

    /// A person looks at another channel while the assistant is open.
    pub fn looks_at(&self, person: &Person, channel: &str, root: &str, other: &str) {
        self.change(|world| {
            let name = "assistant_thread_context_changed";
            tell_of_assistant(world, name, person, channel, root, Some(other));
        });
    }
}

fn tell_of_assistant(
    world: &mut World,
    name: &str,
    person: &Person,
    channel: &str,
    root: &str,
    looks_at: Option<&str>,
) {
    let (ts, team) = (world.new_ts(), world.team_of(channel));
    let enterprise = team.enterprise.as_ref().map(|(id, _)| id);
    let mut context = json!({"team_id": team.id, "enterprise_id": enterprise});
    if let Some(other) = looks_at {
        context["channel_id"] = other.into();
    }
    let event = json!({
        "type": name,
        "assistant_thread": {
            "user_id": person.id,
            "context": context,
            "channel_id": channel,
            "thread_ts": root,
        },
        "event_ts": ts,
    });
    world.emit_in(channel, name, event);
}
