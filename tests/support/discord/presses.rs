//! People press buttons and run commands.

use std::time::Instant;

use serde_json::{Value, json};

use super::interactions::Interaction;
use super::permissions::{ADMINISTRATOR, USE_APPLICATION_COMMANDS};
use super::sessions::Event;
use super::world::{Command, Id, World};
use super::{APPLICATION_ID, BOT_ID, Discord, Person};

/// What became of an interaction.
#[derive(Debug, Clone)]
pub struct InteractionRecord {
    /// The type of the first answer.
    pub answered: Option<i64>,
    /// What only the person was shown, in order.
    pub whispers: Vec<String>,
}

impl World {
    /// Whether a person is offered a command in a channel.
    fn offers(&self, command: &Command, channel: Id, person: Id) -> bool {
        let place = self.channel(channel);
        let value = &command.value;
        let Some(guild) = place.guild else {
            return match value["contexts"].as_array() {
                Some(contexts) => contexts.contains(&json!(1)),
                None => value["dm_permission"] == true,
            };
        };
        let contexts = value["contexts"].as_array();
        let allowed = self.permissions(person, place);
        let needed = value["default_member_permissions"].as_str();
        let needed: u64 = needed.map_or(0, |bits| bits.parse().expect("checked"));
        // The bits 0 are for administrators alone.
        let is_closed = value["default_member_permissions"] == "0";
        let base = self.guilds[&guild].base_permissions(person);
        contexts.is_none_or(|contexts| contexts.contains(&json!(0)))
            && allowed & USE_APPLICATION_COMMANDS != 0
            && base & needed == needed
            && (!is_closed || base & ADMINISTRATOR != 0)
    }

    fn offered(&self, channel: Id, person: &Person, name: &str) -> Option<&Command> {
        let guild = self.channel(channel).guild;
        let fits = |of: Option<Id>| of.is_none() || of == guild;
        let mut commands = self.commands.iter().filter(|c| c.name == name);
        commands.find(|c| fits(c.guild) && self.offers(c, channel, person.id))
    }

    /// Tells all sessions of an interaction. Gives its id.
    fn interact(
        &mut self,
        person: &Person,
        channel: Id,
        message: Option<Id>,
        kind: u8,
        data: Value,
    ) -> Id {
        let id = self.next_id();
        let token = format!(
            "interaction-{id}-{:x}",
            id.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        );
        let place = self.channel(channel);
        let of_bot = self.permissions(BOT_ID, place);
        let mut event = json!({
            "id": id.to_string(),
            "application_id": APPLICATION_ID.to_string(),
            "type": kind,
            "data": data,
            "channel": self.channel_value(place),
            "channel_id": channel.to_string(),
            "token": token,
            "version": 1,
            "app_permissions": of_bot.to_string(),
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": self.upload_limit,
            "context": 1,
        });
        match place.guild {
            Some(guild) => {
                let permissions = self.permissions(person.id, place);
                let mut member = self.member(guild, person.id).expect("a member");
                member["permissions"] = json!(permissions.to_string());
                event["member"] = member;
                event["guild_id"] = json!(guild.to_string());
                event["guild"] =
                    json!({"id": guild.to_string(), "locale": "en-US", "features": []});
                event["guild_locale"] = json!("en-US");
                event["context"] = json!(0);
                event["authorizing_integration_owners"] = json!({"0": guild.to_string()});
            }
            None => event["user"] = person.value(),
        }
        if let Some(message) = message {
            event["message"] = place.messages[&message].value.clone();
        }
        self.interactions.push(Interaction {
            id,
            token,
            at: Instant::now(),
            channel,
            message,
            answered: None,
            original: None,
            whispers: Vec::new(),
        });
        let event = Event {
            name: "INTERACTION_CREATE",
            data: event,
            intents: 0,
        };
        // Interactions arrive even from channels that the bot does not see.
        self.dispatch_of_people(None, event);
        id
    }
}

impl Discord {
    /// A person presses a button, given by its label or its key. Gives the id of the interaction.
    pub fn presses(&self, channel: Id, message: Id, person: &Person, button: &str) -> Id {
        self.change(|world| {
            let value = world.channel(channel).messages[&message].value.clone();
            let rows = value["components"].as_array().into_iter().flatten();
            let mut buttons =
                rows.flat_map(|row| row["components"].as_array().into_iter().flatten());
            let found = buttons.find(|b| b["label"] == button || b["custom_id"] == button);
            let found = found.unwrap_or_else(|| panic!("no button {button} in {value}"));
            assert!(found["disabled"] != true, "{button} is disabled in {value}");
            let data = json!({"component_type": 2, "custom_id": found["custom_id"], "id": 2});
            world.interact(person, channel, Some(message), 3, data)
        })
    }

    /// A person presses a button that another device still shows.
    pub fn presses_with(&self, channel: Id, message: Id, person: &Person, key: &str) -> Id {
        let data = json!({"component_type": 2, "custom_id": key, "id": 2});
        self.change(|world| world.interact(person, channel, Some(message), 3, data))
    }

    /// A person runs a command with options of text. Gives the id of the interaction.
    pub fn runs(&self, channel: Id, person: &Person, name: &str, options: &[(&str, &str)]) -> Id {
        self.change(|world| {
            let command = world.offered(channel, person, name);
            let command = command.unwrap_or_else(|| panic!("no command {name} for {person:?}"));
            let options = options.iter().map(|(name, value)| {
                let known = command.value["options"].as_array().into_iter().flatten();
                let mut known = known.filter(|option| option["type"] == 3);
                assert!(
                    known.any(|option| option["name"] == *name),
                    "no option {name}"
                );
                json!({"name": name, "type": 3, "value": value})
            });
            let options: Vec<Value> = options.collect();
            let mut data = json!({"id": command.id.to_string(), "name": name, "type": 1});
            if !options.is_empty() {
                data["options"] = json!(options);
            }
            if let Some(guild) = command.guild {
                data["guild_id"] = json!(guild.to_string());
            }
            world.interact(person, channel, None, 2, data)
        })
    }

    /// Whether a person is offered a command in a channel.
    pub fn offers(&self, person: &Person, channel: Id, name: &str) -> bool {
        self.world().offered(channel, person, name).is_some()
    }

    pub fn interaction(&self, id: Id) -> InteractionRecord {
        let world = self.world();
        let mut all = world.interactions.iter();
        let interaction = all.find(|i| i.id == id).expect("an interaction");
        let whispers = interaction.whispers.iter();
        let text = |value: &Value| value["content"].as_str().unwrap_or_default().to_owned();
        InteractionRecord {
            answered: interaction.answered,
            whispers: whispers.map(text).collect(),
        }
    }
}
