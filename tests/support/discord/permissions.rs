//! Permissions, computed as Discord documents it.

use super::world::{Channel, ChannelKind, Guild, Id, Whom, World};

pub const CREATE_INSTANT_INVITE: u64 = 1 << 0;
pub const ADMINISTRATOR: u64 = 1 << 3;
pub const MANAGE_CHANNELS: u64 = 1 << 4;
pub const ADD_REACTIONS: u64 = 1 << 6;
pub const VIEW_CHANNEL: u64 = 1 << 10;
pub const SEND_MESSAGES: u64 = 1 << 11;
pub const MANAGE_MESSAGES: u64 = 1 << 13;
pub const EMBED_LINKS: u64 = 1 << 14;
pub const ATTACH_FILES: u64 = 1 << 15;
pub const READ_MESSAGE_HISTORY: u64 = 1 << 16;
pub const MENTION_EVERYONE: u64 = 1 << 17;
pub const CONNECT: u64 = 1 << 20;
pub const USE_APPLICATION_COMMANDS: u64 = 1 << 31;
pub const MANAGE_THREADS: u64 = 1 << 34;
pub const CREATE_PUBLIC_THREADS: u64 = 1 << 35;
pub const CREATE_PRIVATE_THREADS: u64 = 1 << 36;
pub const SEND_MESSAGES_IN_THREADS: u64 = 1 << 38;

/// All permissions that Discord defines.
pub const ALL: u64 = (1 << 53) - 1;

/// What everybody may do in a new guild.
pub const EVERYONE: u64 = CREATE_INSTANT_INVITE
    | ADD_REACTIONS
    | VIEW_CHANNEL
    | SEND_MESSAGES
    | EMBED_LINKS
    | ATTACH_FILES
    | READ_MESSAGE_HISTORY
    | MENTION_EVERYONE
    | CONNECT
    | USE_APPLICATION_COMMANDS
    | CREATE_PUBLIC_THREADS
    | CREATE_PRIVATE_THREADS
    | SEND_MESSAGES_IN_THREADS;

/// What the two sides of a direct message may do there.
const DIRECT: u64 = ADD_REACTIONS
    | VIEW_CHANNEL
    | SEND_MESSAGES
    | EMBED_LINKS
    | ATTACH_FILES
    | READ_MESSAGE_HISTORY
    | MENTION_EVERYONE;

impl Guild {
    /// What a member may do before the overwrites of a channel.
    pub fn base_permissions(&self, user: Id) -> u64 {
        let Some(roles) = self.members.get(&user) else {
            return 0;
        };
        if user == self.owner {
            return ALL;
        }
        // The role of everybody has the id of the guild.
        let of = |role: &Id| self.roles[role].permissions;
        let base = roles.iter().fold(of(&self.id), |sum, role| sum | of(role));
        match base & ADMINISTRATOR {
            0 => base,
            _ => ALL,
        }
    }
}

impl World {
    /// What a user may do in a channel. A thread inherits from its parent.
    pub fn permissions(&self, user: Id, channel: &Channel) -> u64 {
        let Some(guild) = channel.guild else {
            let is_side = user == super::BOT_ID || channel.recipient == Some(user);
            return if is_side { DIRECT } else { 0 };
        };
        let guild = &self.guilds[&guild];
        let base = guild.base_permissions(user);
        if base == ALL || base == 0 {
            return base;
        }
        let parent = channel.thread.as_ref().and(channel.parent);
        let source = parent.and_then(|id| self.channels.get(&id));
        let overwrites = &source.unwrap_or(channel).overwrites;
        let roles = &guild.members[&user];
        let mut allowed = base;
        for everyone in overwrites {
            if everyone.whom == Whom::Role(guild.id) {
                allowed = (allowed & !everyone.deny) | everyone.allow;
            }
        }
        let (mut allow, mut deny) = (0, 0);
        for overwrite in overwrites {
            if matches!(overwrite.whom, Whom::Role(role) if roles.contains(&role)) {
                allow |= overwrite.allow;
                deny |= overwrite.deny;
            }
        }
        allowed = (allowed & !deny) | allow;
        for own in overwrites {
            if own.whom == Whom::Member(user) {
                allowed = (allowed & !own.deny) | own.allow;
            }
        }
        // Who does not see a channel can do nothing in it.
        if allowed & VIEW_CHANNEL == 0 || !self.sees_thread(user, allowed, channel) {
            return 0;
        }
        // Nor can who may not join a voice channel, but they see it.
        if channel.kind == ChannelKind::Voice && allowed & CONNECT == 0 {
            return VIEW_CHANNEL;
        }
        let may_speak = match channel.thread {
            Some(_) => SEND_MESSAGES_IN_THREADS,
            None => SEND_MESSAGES,
        };
        if allowed & may_speak == 0 {
            allowed &= !(MENTION_EVERYONE | ATTACH_FILES | EMBED_LINKS);
        }
        allowed
    }

    /// Private threads are for their members, and for those who manage threads.
    fn sees_thread(&self, user: Id, allowed: u64, channel: &Channel) -> bool {
        match &channel.thread {
            Some(thread) if channel.kind == ChannelKind::PrivateThread => {
                thread.members.contains_key(&user) || allowed & MANAGE_THREADS != 0
            }
            _ => true,
        }
    }

    pub fn can(&self, user: Id, channel: &Channel, wanted: u64) -> bool {
        self.permissions(user, channel) & wanted == wanted
    }
}
