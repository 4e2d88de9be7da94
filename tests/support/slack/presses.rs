//! Buttons that people press, and commands that they run.

use serde_json::json;

use super::blocks::buttons;
use super::sockets::Kind;
use super::{APP_ID, Person, Slack};

impl Slack {
    /// A person presses a button of a message, named by its label or by its `action_id`.
    pub fn presses(&self, channel: &str, ts: &str, person: &Person, button: &str) {
        self.change(|world| {
            let action_ts = world.new_ts();
            let holder = world.channel(channel);
            let message = holder.shown(ts);
            let all = buttons(&message["blocks"]);
            let found = all.iter().find(|(_, element)| {
                element["text"]["text"] == button || element["action_id"] == button
            });
            let (block, element) = found.unwrap_or_else(|| panic!("no button {button}"));
            let mut action = json!({
                "type": "button",
                "block_id": block["block_id"],
                "action_id": element["action_id"],
                "text": element["text"],
                "action_ts": action_ts,
            });
            if let Some(value) = element.get("value") {
                action["value"] = value.clone();
            }
            let name = match holder.name.as_str() {
                "" => "directmessage",
                name => name,
            };
            let (name, thread) = (name.to_owned(), message["thread_ts"].as_str());
            let mut container = json!({
                "type": "message",
                "message_ts": ts,
                "channel_id": channel,
                "is_ephemeral": false,
            });
            if let Some(thread) = thread {
                container["thread_ts"] = thread.into();
            }
            let thread = thread.map(str::to_owned);
            let url = world.add_response_url(channel, person.id, Some(ts), thread);
            let team = world.team_of(channel);
            let payload = json!({
                "type": "block_actions",
                "user": {"id": person.id, "username": person.name, "name": person.name, "team_id": team.id},
                "api_app_id": APP_ID,
                "token": "verification-token-of-old",
                "container": container,
                "trigger_id": format!("{}.fake", action_ts),
                "team": {"id": team.id, "domain": team.domain},
                "enterprise": team.enterprise.as_ref().map(|(id, name)| json!({"id": id, "name": name})),
                "is_enterprise_install": false,
                "channel": {"id": channel, "name": name},
                "message": message,
                "state": {"values": {}},
                "response_url": url,
                "actions": [action],
            });
            world.sockets.push(Kind::Interaction, payload);
        });
    }

    /// A person runs a command of the app. Commands do not work in threads.
    pub fn runs(&self, channel: &str, person: &Person, command: &str, text: &str) {
        self.change(|world| {
            assert!(world.app.commands.contains(command), "no command {command}");
            let trigger = world.new_ts();
            let url = world.add_response_url(channel, person.id, None, None);
            let to = world.responses.last().expect("added above").clone();
            let (team, holder) = (world.team_of(channel), world.channel(channel));
            if !team.scopes.contains("commands") {
                return;
            }
            let name = match holder.name.as_str() {
                "" => "directmessage",
                name => name,
            };
            let payload = json!({
                "token": "verification-token-of-old",
                "team_id": team.id,
                "team_domain": team.domain,
                "channel_id": channel,
                "channel_name": name,
                "user_id": person.id,
                "user_name": person.name,
                "command": command,
                "text": text,
                "api_app_id": APP_ID,
                "is_enterprise_install": "false",
                "response_url": url,
                "trigger_id": format!("{trigger}.fake"),
            });
            world.sockets.push(Kind::Command(to), payload);
        });
    }

    /// The app has this command too.
    pub fn registers(&self, command: &str) {
        self.change(|world| world.app.commands.insert(command.to_owned()));
    }
}
