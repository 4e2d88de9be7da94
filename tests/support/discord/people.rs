//! The people in the guilds: what they do there and to the bot.

use serde_json::{Value, json};

use super::permissions::EVERYONE;
use super::sessions::{Event, GUILDS};
use super::threads::NewThread;
use super::world::{ChannelKind, Guild, Id, Overwrite, Role, Whom, World};
use super::{BOT_ID, Discord};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Person {
    pub id: Id,
    pub name: &'static str,
    pub username: &'static str,
}

/// Tests allow her.
pub const ADA: Person = Person {
    id: 310_000_000_000_000_042,
    name: "Ada",
    username: "ada_lovelace",
};

/// A member of the same guilds whom no test allows.
pub const BEN: Person = Person {
    id: 320_000_000_000_000_043,
    name: "Ben",
    username: "ben_b",
};

/// The owner of all guilds, who does what needs permissions.
const OWNER: Person = Person {
    id: 330_000_000_000_000_044,
    name: "Olive",
    username: "olive",
};

impl Person {
    pub fn value(&self) -> Value {
        json!({
            "id": self.id.to_string(),
            "username": self.username,
            "discriminator": "0",
            "global_name": self.name,
            "avatar": null,
            "public_flags": 0,
        })
    }
}

impl World {
    fn add_role(&mut self, guild: Id, name: &str, permissions: u64, managed: bool) -> Id {
        let id = self.next_id();
        let role = Role {
            id,
            name: name.to_owned(),
            permissions,
            mentionable: false,
            managed,
        };
        let guild = self.guilds.get_mut(&guild).expect("a guild");
        guild.roles.insert(id, role);
        id
    }

    /// Deletes a channel or thread and tells all sessions. Gives what they were told.
    pub fn delete_channel(&mut self, id: Id) -> Event {
        let channel = self.channel(id);
        let seen = self.permissions(BOT_ID, channel) != 0;
        let (name, data) = match &channel.thread {
            None => ("CHANNEL_DELETE", self.channel_value(channel)),
            Some(_) => {
                let data = json!({
                    "id": id.to_string(),
                    "guild_id": channel.guild.map(|id| id.to_string()),
                    "parent_id": channel.parent.map(|id| id.to_string()),
                    "type": channel.kind as u8,
                });
                ("THREAD_DELETE", data)
            }
        };
        self.remove_channel(id);
        let event = Event {
            name,
            data,
            intents: GUILDS,
        };
        if seen {
            self.dispatch(None, event.clone());
        }
        event
    }
}

impl Discord {
    /// A guild with Ada, Ben and the bot, whose role has no permissions beyond those of everybody.
    pub fn guild(&self, name: &str) -> Id {
        self.change(|world| {
            let id = world.next_id();
            for person in [OWNER, ADA, BEN] {
                world.people.insert(person.id, person);
            }
            let mut guild = Guild {
                id,
                name: name.to_owned(),
                owner: OWNER.id,
                roles: Default::default(),
                members: Default::default(),
            };
            // The role of everybody has the id of the guild.
            let everyone = Role {
                id,
                name: "@everyone".to_owned(),
                permissions: EVERYONE,
                mentionable: false,
                managed: false,
            };
            guild.roles.insert(id, everyone);
            for member in [OWNER.id, ADA.id, BEN.id] {
                guild.members.insert(member, Default::default());
            }
            world.guilds.insert(id, guild);
            let role = world.add_role(id, "Hermes", 0, true);
            let guild = world.guilds.get_mut(&id).expect("put above");
            guild.members.insert(BOT_ID, [role].into());
            let data = world.guild_create(&world.guilds[&id]);
            let event = Event {
                name: "GUILD_CREATE",
                data,
                intents: GUILDS,
            };
            world.dispatch(None, event);
            id
        })
    }

    /// A channel of any kind but threads and direct ones.
    pub fn channel(&self, guild: Id, kind: ChannelKind, name: &str) -> Id {
        self.change(|world| {
            let id = world.add_channel(Some(guild), kind, name);
            world.tell_of_channel("CHANNEL_CREATE", id);
            id
        })
    }

    pub fn text_channel(&self, guild: Id, name: &str) -> Id {
        self.channel(guild, ChannelKind::Text, name)
    }

    /// Puts a channel into a category and gives it a place there.
    pub fn arranges(&self, channel: Id, category: Option<Id>, position: i64) {
        self.change(|world| {
            let channel = world.channel_mut(channel);
            (channel.parent, channel.position) = (category, position);
        });
    }

    /// The direct channel of a person with the bot. They have met in a guild or share none.
    pub fn direct(&self, person: &Person) -> Id {
        self.change(|world| {
            world.people.insert(person.id, *person);
            world.direct(person.id)
        })
    }

    /// A person accepts no direct messages of the bot.
    pub fn closes_direct(&self, person: &Person) {
        self.change(|world| world.closed_to_bot.insert(person.id));
    }

    pub fn role(&self, guild: Id, name: &str, permissions: u64) -> Id {
        self.change(|world| world.add_role(guild, name, permissions, false))
    }

    /// Whether anybody can mention a role.
    pub fn mentionable(&self, guild: Id, role: Id, is: bool) {
        self.change(|world| {
            let guild = world.guilds.get_mut(&guild).expect("a guild");
            guild.roles.get_mut(&role).expect("a role").mentionable = is;
        });
    }

    /// Gives a role to a person or to the bot.
    pub fn gives_role(&self, guild: Id, user: Id, role: Id) {
        self.change(|world| {
            let guild = world.guilds.get_mut(&guild).expect("a guild");
            guild.members.get_mut(&user).expect("a member").insert(role);
        });
    }

    /// What a role may do in all channels. The role of everybody has the id of the guild.
    pub fn permits(&self, guild: Id, role: Id, permissions: u64) {
        self.change(|world| {
            let guild = world.guilds.get_mut(&guild).expect("a guild");
            guild.roles.get_mut(&role).expect("a role").permissions = permissions;
        });
    }

    /// What the bot's own role may do in all channels, beyond what everybody may.
    pub fn permits_bot(&self, guild: Id, permissions: u64) {
        let role = {
            let world = self.world();
            let mut roles = world.guilds[&guild].roles.values();
            roles.find(|role| role.managed).expect("the bot's role").id
        };
        self.permits(guild, role, permissions);
    }

    /// Allows and denies permissions in one channel.
    pub fn overwrites(&self, channel: Id, whom: Whom, allow: u64, deny: u64) {
        self.change(|world| {
            let overwrites = &mut world.channel_mut(channel).overwrites;
            overwrites.retain(|overwrite| overwrite.whom != whom);
            overwrites.push(Overwrite { whom, allow, deny });
            world.tell_of_channel("CHANNEL_UPDATE", channel);
        });
    }

    /// A tag for the posts of a forum.
    pub fn tag(&self, forum: Id, name: &str) -> Id {
        self.change(|world| {
            let id = world.next_id();
            world.channel_mut(forum).tags.insert(id, name.to_owned());
            id
        })
    }

    /// All posts of a forum have to have a tag.
    pub fn requires_tags(&self, forum: Id) {
        self.change(|world| world.channel_mut(forum).requires_tag = true);
    }

    /// A person opens a public thread. Gives its id.
    pub fn opens_thread(&self, channel: Id, person: &Person, name: &str) -> Id {
        let kind = match self.world().channel(channel).kind {
            ChannelKind::Announcement => ChannelKind::AnnouncementThread,
            _ => ChannelKind::PublicThread,
        };
        self.opens(channel, person, name, kind)
    }

    /// A person opens a private thread, which the bot does not see. Gives its id.
    pub fn opens_private_thread(&self, channel: Id, person: &Person, name: &str) -> Id {
        self.opens(channel, person, name, ChannelKind::PrivateThread)
    }

    fn opens(&self, parent: Id, person: &Person, name: &str, kind: ChannelKind) -> Id {
        self.change(|world| {
            world.open_thread(NewThread {
                parent,
                kind,
                name: name.to_owned(),
                owner: person.id,
                auto_archive: 4320,
                tags: Vec::new(),
                on: None,
            })
        })
    }

    /// A person archives a thread, and may lock it.
    pub fn archives(&self, thread: Id, locks: bool) {
        self.change(|world| {
            let state = world.channel_mut(thread).thread.as_mut().expect("a thread");
            state.archived = true;
            state.locked = locks;
            let told = world.tell_of_channel("THREAD_UPDATE", thread);
            world.gateway.last_of_people = Some(told);
        });
    }

    /// A person locks a thread and leaves it open.
    pub fn locks(&self, thread: Id) {
        self.change(|world| {
            let state = world.channel_mut(thread).thread.as_mut().expect("a thread");
            state.locked = true;
            let told = world.tell_of_channel("THREAD_UPDATE", thread);
            world.gateway.last_of_people = Some(told);
        });
    }

    /// A person unlocks a thread and opens it.
    pub fn unlocks(&self, thread: Id) {
        self.change(|world| {
            let state = world.channel_mut(thread).thread.as_mut().expect("a thread");
            (state.locked, state.archived) = (false, false);
            world.tell_of_channel("THREAD_UPDATE", thread);
        });
    }

    /// A person deletes a channel or a thread.
    pub fn deletes_channel(&self, channel: Id) {
        self.change(|world| {
            let told = world.delete_channel(channel);
            world.gateway.last_of_people = Some(told);
        });
    }

    /// A person opens the invitation and chooses a guild. The bot gets its role with these permissions.
    pub fn invites_bot(&self, guild: Id, permissions: u64) {
        self.change(|world| {
            let known = world.guilds.get_mut(&guild).expect("a guild");
            known.roles.retain(|_, role| !role.managed);
            let role = world.add_role(guild, "Hermes", permissions, true);
            let known = world.guilds.get_mut(&guild).expect("a guild");
            known.members.insert(BOT_ID, [role].into());
            let data = world.guild_create(&world.guilds[&guild]);
            let event = Event {
                name: "GUILD_CREATE",
                data,
                intents: GUILDS,
            };
            world.dispatch(None, event);
        });
    }

    /// A person removes the bot from a guild.
    pub fn kicks_bot(&self, guild: Id) {
        self.change(|world| {
            let members = &mut world.guilds.get_mut(&guild).expect("a guild").members;
            members.remove(&BOT_ID);
            let event = Event {
                name: "GUILD_DELETE",
                data: json!({"id": guild.to_string()}),
                intents: GUILDS,
            };
            world.dispatch_of_people(None, event);
        });
    }

    /// A guild cannot be reached for a while, although the bot is still in it.
    pub fn outage(&self, guild: Id) {
        self.change(|world| {
            let event = Event {
                name: "GUILD_DELETE",
                data: json!({"id": guild.to_string(), "unavailable": true}),
                intents: GUILDS,
            };
            world.dispatch(None, event);
        });
    }

    /// The outage of a guild is over.
    pub fn outage_ends(&self, guild: Id) {
        self.change(|world| {
            let event = Event {
                name: "GUILD_CREATE",
                data: world.guild_create(&world.guilds[&guild]),
                intents: GUILDS,
            };
            world.dispatch(None, event);
        });
    }
}
