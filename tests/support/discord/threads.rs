//! The routes of threads: opening them, and their members.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::checks;
use super::errors;
use super::form::{Form, present};
use super::messages::{allow, may_write, visible};
use super::permissions::{
    CREATE_PRIVATE_THREADS, CREATE_PUBLIC_THREADS, MANAGE_THREADS, READ_MESSAGE_HISTORY,
    SEND_MESSAGES,
};
use super::post::Draft;
use super::routes::Call;
use super::sessions::{GUILD_MEMBERS, message_intents};
use super::values::{message_event, thread_member};
use super::world::{ChannelKind, Id, Thread, World, now};
use super::{BOT_ID, post};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

/// The minutes of silence after which a thread can be archived.
pub const AUTO_ARCHIVE: [i64; 4] = [60, 1440, 4320, 10080];

/// The flag of a message that a thread begins with.
const HAS_THREAD: u64 = 1 << 5;

pub fn perform(world: &mut World, call: &Call) -> Answer {
    let channel = visible(world, call.id(0)?)?;
    match call.name {
        "POST /channels/{}/threads" => open(world, channel, call),
        "POST /channels/{}/messages/{}/threads" => open_on_message(world, channel, call),
        name => {
            if world.channel(channel).thread.is_none() {
                return Err(errors::WRONG_CHANNEL_TYPE.into());
            }
            match name {
                "GET /channels/{}/thread-members" => list_members(world, channel),
                "GET /channels/{}/thread-members/{}" => member(world, channel, call),
                "PUT /channels/{}/thread-members/{}" => add_member(world, channel, call),
                _ => remove_member(world, channel, call),
            }
        }
    }
}

/// A thread that is to be opened.
pub struct NewThread {
    pub parent: Id,
    pub kind: ChannelKind,
    pub name: String,
    pub owner: Id,
    pub auto_archive: i64,
    pub tags: Vec<Id>,
    /// The message that it begins with. The thread has its id.
    pub on: Option<Id>,
}

/// The name and the time of silence.
fn common(form: &mut Form, fields: &Map<String, Value>) -> (String, i64) {
    let name = form.text_of(fields, "", "name", (1, 100));
    if name.is_none() {
        form.required("name");
    }
    let minutes = form.choice(fields, "", "auto_archive_duration", &AUTO_ARCHIVE);
    (
        name.unwrap_or_default().trim().to_owned(),
        minutes.unwrap_or(4320),
    )
}

fn refuse_too_many(world: &World, channel: Id) -> Result<(), Refusal> {
    let guild = world.channel(channel).guild.expect("threads are in guilds");
    let is_full = world.active_threads(guild).count() >= world.most_active_threads;
    match (is_full, world.channel(channel).kind) {
        (true, ChannelKind::Announcement) => Err(errors::TOO_MANY_ANNOUNCEMENT_THREADS.into()),
        (true, _) => Err(errors::TOO_MANY_THREADS.into()),
        (false, _) => Ok(()),
    }
}

fn open(world: &mut World, channel: Id, call: &Call) -> Answer {
    let parent = world.channel(channel).kind;
    if parent.has_posts() {
        return open_post(world, channel, call);
    }
    if !matches!(parent, ChannelKind::Text | ChannelKind::Announcement) {
        return Err(errors::WRONG_CHANNEL_TYPE.into());
    }
    let mut form = Form::default();
    let (name, auto_archive) = common(&mut form, call.fields());
    let kind = form.choice(call.fields(), "", "type", &[10, 11, 12]);
    form.flag(call.fields(), "", "invitable");
    form.check()?;
    let (kind, wanted) = match kind {
        Some(10) => (ChannelKind::AnnouncementThread, CREATE_PUBLIC_THREADS),
        Some(11) => (ChannelKind::PublicThread, CREATE_PUBLIC_THREADS),
        // Without a type, the thread is private.
        _ => (ChannelKind::PrivateThread, CREATE_PRIVATE_THREADS),
    };
    // Threads of announcements are public, and of their own type.
    let of_announcements = kind == ChannelKind::AnnouncementThread;
    if of_announcements != (parent == ChannelKind::Announcement) {
        return Err(errors::WRONG_CHANNEL_TYPE.into());
    }
    allow(world, channel, wanted)?;
    refuse_too_many(world, channel)?;
    let thread = world.open_thread(NewThread {
        parent: channel,
        kind,
        name,
        owner: BOT_ID,
        auto_archive,
        tags: Vec::new(),
        on: None,
    });
    Ok(world.channel_value(world.channel(thread)))
}

/// A post in a forum is a thread with its first message.
fn open_post(world: &mut World, channel: Id, call: &Call) -> Answer {
    let mut form = Form::default();
    let (name, auto_archive) = common(&mut form, call.fields());
    let listed = form.list(call.fields(), "", "applied_tags", 5);
    let mut tags = Vec::new();
    let mut unknown = false;
    for (n, tag) in listed.into_iter().flatten().enumerate() {
        let at = format!("applied_tags.{n}");
        if let Some(tag) = form.id_of(tag, &at) {
            unknown |= !world.channel(channel).tags.contains_key(&tag);
            tags.push(tag);
        }
    }
    let message = present(call.fields(), "message");
    let message = match message {
        Some(message) => form.object(message, "message"),
        None => {
            form.required("message");
            None
        }
    };
    form.check()?;
    let message = message.expect("checked above");
    if unknown {
        return Err(errors::UNKNOWN_TAG.into());
    }
    allow(world, channel, SEND_MESSAGES)?;
    let draft = checks::message(world, call, message)?;
    if world.channel(channel).requires_tag && tags.is_empty() {
        return Err(errors::TAG_REQUIRED.into());
    }
    refuse_too_many(world, channel)?;
    let thread = world.open_thread(NewThread {
        parent: channel,
        kind: ChannelKind::PublicThread,
        name,
        owner: BOT_ID,
        auto_archive,
        tags,
        on: None,
    });
    let first = Draft {
        id: Some(thread),
        ..draft
    };
    let id = world.post(thread, first);
    let mut value = world.channel_value(world.channel(thread));
    value["message"] = world.channel(thread).messages[&id].value.clone();
    Ok(value)
}

fn open_on_message(world: &mut World, channel: Id, call: &Call) -> Answer {
    let message = call.id(1)?;
    let mut form = Form::default();
    let (name, auto_archive) = common(&mut form, call.fields());
    form.check()?;
    let kind = match world.channel(channel).kind {
        ChannelKind::Text => ChannelKind::PublicThread,
        ChannelKind::Announcement => ChannelKind::AnnouncementThread,
        _ => return Err(errors::WRONG_CHANNEL_TYPE.into()),
    };
    let known = world.channel(channel).messages.get(&message);
    let known = known.ok_or(errors::UNKNOWN_MESSAGE)?;
    if !post::is_written(&known.value) {
        return Err(errors::SYSTEM_MESSAGE.into());
    }
    if world.channels.contains_key(&message) {
        return Err(errors::HAS_THREAD.into());
    }
    allow(world, channel, CREATE_PUBLIC_THREADS | READ_MESSAGE_HISTORY)?;
    refuse_too_many(world, channel)?;
    let thread = world.open_thread(NewThread {
        parent: channel,
        kind,
        name,
        owner: BOT_ID,
        auto_archive,
        tags: Vec::new(),
        on: Some(message),
    });
    Ok(world.channel_value(world.channel(thread)))
}

impl World {
    /// Opens a thread, with the message that tells of it. Gives its id.
    pub fn open_thread(&mut self, new: NewThread) -> Id {
        let id = match new.on {
            Some(message) => message,
            None => self.next_id(),
        };
        let guild = self.channel(new.parent).guild;
        self.put_channel(id, guild, new.kind, &new.name);
        let channel = self.channel_mut(id);
        channel.parent = Some(new.parent);
        channel.thread = Some(Thread {
            owner: new.owner,
            archived: false,
            locked: false,
            auto_archive: new.auto_archive,
            members: BTreeMap::from([(new.owner, now())]),
            created: now(),
            tags: new.tags,
        });
        let mut data = self.channel_value(self.channel(id));
        data["newly_created"] = json!(true);
        let event = super::sessions::Event {
            name: "THREAD_CREATE",
            data,
            intents: super::sessions::GUILDS,
        };
        self.dispatch(Some(id), event);
        let told_in = match (new.on, new.kind) {
            // The thread begins with a pointer to the message.
            (Some(_), _) => Some((id, 21, (new.parent, new.on))),
            (None, ChannelKind::PrivateThread) => None,
            _ if self.channel(new.parent).kind.has_posts() => None,
            // The channel tells that there is a thread.
            _ => Some((new.parent, 18, (id, None))),
        };
        if let Some(message) = new.on {
            self.tell_of_thread(new.parent, message);
        }
        if let Some((channel, kind, reference)) = told_in {
            let content = match kind {
                18 => new.name.clone(),
                _ => String::new(),
            };
            let draft = Draft {
                author: new.owner,
                kind,
                content,
                reference: Some(reference),
                ..Draft::default()
            };
            self.post(channel, draft);
        }
        id
    }
}

impl World {
    /// A message shows that there is a thread on it. That is no edit.
    fn tell_of_thread(&mut self, channel: Id, message: Id) {
        let thread = self.channel_value(self.channel(message));
        let entry = self.channel_mut(channel).messages.get_mut(&message);
        let entry = entry.expect("a message");
        let flags = entry.value["flags"].as_u64().unwrap_or_default();
        entry.value["flags"] = json!(flags | HAS_THREAD);
        entry.value["thread"] = thread;
        let (author, value) = (entry.author, entry.value.clone());
        let place = self.channel(channel);
        let event = super::sessions::Event {
            name: "MESSAGE_UPDATE",
            data: message_event(self, place, author, &value),
            intents: message_intents(place.guild),
        };
        self.dispatch(Some(channel), event);
    }
}

/// The user of a path, which may be the bot itself.
fn user_of(call: &Call) -> Result<Id, Refusal> {
    match call.parts[1].as_str() {
        "@me" => Ok(BOT_ID),
        _ => call.id(1),
    }
}

fn list_members(world: &World, id: Id) -> Answer {
    if world.gateway.portal & GUILD_MEMBERS == 0 {
        return Err(errors::MISSING_ACCESS.into());
    }
    let channel = world.channel(id);
    let thread = channel.thread.as_ref().expect("a thread");
    let members = thread.members.keys();
    let members: Vec<Value> = members.map(|user| thread_member(channel, *user)).collect();
    Ok(json!(members))
}

fn member(world: &World, id: Id, call: &Call) -> Answer {
    let channel = world.channel(id);
    let user = user_of(call)?;
    let thread = channel.thread.as_ref().expect("a thread");
    match thread.members.contains_key(&user) {
        true => Ok(thread_member(channel, user)),
        false => Err(errors::UNKNOWN_MEMBER.into()),
    }
}

fn add_member(world: &mut World, id: Id, call: &Call) -> Answer {
    let user = user_of(call)?;
    let guild = world.channel(id).guild.expect("threads are in guilds");
    if !world.guilds[&guild].members.contains_key(&user) {
        return Err(errors::UNKNOWN_MEMBER.into());
    }
    let thread = world.channel(id).thread.as_ref().expect("a thread");
    if thread.archived {
        return Err(errors::ARCHIVED.into());
    }
    if user != BOT_ID {
        may_write(world, id)?;
        // Nobody can be brought into a thread whose channel they do not see.
        let parent = world.channel(id).parent.expect("a parent");
        if world.permissions(user, world.channel(parent)) == 0 {
            return Err(errors::MISSING_ACCESS.into());
        }
    }
    let thread = world.channel_mut(id).thread.as_mut().expect("a thread");
    let is_new = thread.members.insert(user, now()).is_none();
    // The thread tells who was brought into it.
    if is_new && user != BOT_ID {
        let draft = Draft {
            author: BOT_ID,
            kind: 1,
            content: format!("<@{user}>"),
            ..Draft::default()
        };
        world.post(id, draft);
    }
    Ok(Value::Null)
}

fn remove_member(world: &mut World, id: Id, call: &Call) -> Answer {
    let user = user_of(call)?;
    let thread = world.channel(id).thread.as_ref().expect("a thread");
    if thread.archived {
        return Err(errors::ARCHIVED.into());
    }
    let owns_private =
        thread.owner == BOT_ID && world.channel(id).kind == ChannelKind::PrivateThread;
    if user != BOT_ID && !owns_private {
        allow(world, id, MANAGE_THREADS)?;
    }
    let thread = world.channel_mut(id).thread.as_mut().expect("a thread");
    match thread.members.remove(&user) {
        Some(_) => Ok(Value::Null),
        None => Err(errors::UNKNOWN_MEMBER.into()),
    }
}
