//! Events: which of them the app gets, and the envelope that they come in.

use serde_json::{Value, json};

use super::APP_ID;
use super::app::scopes_of;
use super::sockets::Kind;
use super::world::{ChannelKind, Standing, World};

impl World {
    /// Tells the app of something in a channel, if the bot is a member there.
    pub fn emit_in(&mut self, channel: &str, subscription: &str, event: Value) {
        let holder = self.channel(channel);
        let team = holder.team.clone();
        if holder.members.contains(&self.teams[&team].bot_user) {
            self.emit(&team, subscription, event);
        }
    }

    /// Tells the app of a message.
    pub fn emit_message(&mut self, channel: &str, event: Value) {
        let family = self.channel(channel).kind.family();
        self.emit_in(channel, &format!("message.{family}"), event);
    }

    /// Tells the app of something in a workspace, if it subscribes to that and has the scope.
    pub fn emit(&mut self, team: &str, subscription: &str, event: Value) {
        let installed = &self.teams[team];
        let scopes = scopes_of(subscription);
        let permitted =
            scopes.is_empty() || scopes.iter().any(|scope| installed.scopes.contains(*scope));
        let alive = installed.standing == Standing::Valid || scopes.is_empty();
        if !alive || !permitted || !self.app.events.contains(subscription) {
            return;
        }
        let enterprise = installed.enterprise.as_ref().map(|(id, _)| id.clone());
        let authorization = json!({
            "enterprise_id": enterprise,
            "team_id": team,
            "user_id": installed.bot_user,
            "is_bot": true,
            "is_enterprise_install": false,
        });
        let id = format!("Ev07FAKE{:06X}", self.number());
        let payload = json!({
            "token": "verification-token-of-old",
            "team_id": team,
            "context_team_id": team,
            "context_enterprise_id": enterprise,
            "api_app_id": APP_ID,
            "event": event,
            "type": "event_callback",
            "event_id": id,
            "event_time": super::world::seconds(),
            "authorizations": [authorization],
            "is_ext_shared_channel": false,
            "event_context": format!("4-{id}"),
        });
        self.sockets.push(Kind::Event, payload);
    }

    /// Somebody joins a channel. The app hears of it as a member or as the one who joins.
    pub fn join(&mut self, channel: &str, user: &str, inviter: Option<&str>) {
        let holder = self.channel_mut(channel);
        if !holder.members.insert(user.to_owned()) {
            return;
        }
        let (team, kind) = (holder.team.clone(), holder.kind);
        let ts = self.new_ts();
        let letter = match kind {
            ChannelKind::Public => "C",
            _ => "G",
        };
        let mut event = json!({
            "type": "member_joined_channel",
            "user": user,
            "channel": channel,
            "channel_type": letter,
            "team": team,
            "event_ts": ts,
        });
        let subtype = match kind {
            ChannelKind::Private => "group_join",
            _ => "channel_join",
        };
        let draft = super::post::Draft {
            author: user.to_owned(),
            text: format!("<@{user}> has joined the channel"),
            subtype: Some(subtype),
            ..Default::default()
        };
        if let Some(inviter) = inviter {
            event["inviter"] = inviter.into();
        }
        self.post(channel, draft);
        self.emit_in(channel, "member_joined_channel", event);
    }

    /// Removes the bot from a channel.
    pub fn remove_bot(&mut self, channel: &str) {
        let team = self.team_of(channel).clone();
        let holder = self.channel_mut(channel);
        holder.members.remove(&team.bot_user);
        let name = match holder.kind {
            ChannelKind::Public => "channel_left",
            _ => "group_left",
        };
        let ts = self.new_ts();
        let event = json!({"type": name, "channel": channel, "event_ts": ts});
        self.emit(&team.id, name, event);
    }

    pub fn archive(&mut self, channel: &str, archived: bool, user: &str) {
        let ts = self.new_ts();
        let holder = self.channel_mut(channel);
        holder.archived = archived;
        let name = match (holder.kind, archived) {
            (ChannelKind::Public, true) => "channel_archive",
            (ChannelKind::Public, false) => "channel_unarchive",
            (_, true) => "group_archive",
            (_, false) => "group_unarchive",
        };
        let event = json!({"type": name, "channel": channel, "user": user, "event_ts": ts});
        self.emit_in(channel, name, event);
    }
}
