//! Registers the slash commands of chats as native commands of Discord.

use serde_json::{Value, json};
use serenity::http::Route;
use serenity::model::id::{ApplicationId, CommandId};

use super::channel::id_of;
use super::config::NativeCommands;
use super::failure::Failure;
use super::{Discord, NAME};
use crate::domain::slash_command::{self, Place};
use crate::platform::PlatformError;

/// The kinds of a command and of an option.
const TYPED: u8 = 1;
const TEXT: u8 = 3;
/// Commands are offered on servers and in private chats with the bot.
const CONTEXTS: [u8; 2] = [0, 1];
/// Only administrators see the command, and people and roles whom a server's settings add.
const ADMINISTRATORS: &str = "0";

impl Discord {
    /// Registers the commands, and then waits for ever. The adapter works without them.
    pub(super) async fn offer_commands(&self) -> PlatformError {
        if let Err(failure) = self.register_commands().await {
            tracing::warn!(
                reason = %PlatformError::from(failure),
                platform = NAME,
                "native commands not registered, text commands work"
            );
        }
        std::future::pending().await
    }

    /// Registers what is missing or different. Commands of other names stay.
    async fn register_commands(&self) -> Result<(), Failure> {
        let application = self.api.get(Route::Oauth2ApplicationCurrent).await?;
        let number = id_of(&application, "id").and_then(|id| id.parse::<u64>().ok());
        let Some(number) = number.filter(|id| *id != 0) else {
            return Ok(());
        };
        let application_id = ApplicationId::new(number);
        let registered = self.api.get(Route::Commands { application_id }).await?;
        let registered: &[Value] = registered.as_array().map_or(&[], Vec::as_slice);
        for command in commands(self.rules.native_commands) {
            let same_name = registered.iter().find(|r| r["name"] == command["name"]);
            let is_same = same_name.is_some_and(|r| is_same(r, &command));
            match (self.rules.native_commands, same_name) {
                (NativeCommands::Off, Some(own)) if is_same_text(own, &command) => {
                    let id = id_of(own, "id").and_then(|id| id.parse::<u64>().ok());
                    if let Some(id) = id.filter(|id| *id != 0) {
                        let route = Route::Command {
                            application_id,
                            command_id: CommandId::new(id),
                        };
                        self.api.delete(route).await?;
                    }
                }
                (NativeCommands::Off, _) => {}
                _ if is_same => {}
                _ => {
                    let route = Route::Commands { application_id };
                    self.api.post(route, &command).await?;
                    tracing::debug!(platform = NAME, command = %command["name"], "command registered");
                }
            }
        }
        Ok(())
    }
}

fn commands(visible: NativeCommands) -> Vec<Value> {
    let permissions = match visible {
        NativeCommands::Everyone => Value::Null,
        NativeCommands::Administrators | NativeCommands::Off => json!(ADMINISTRATORS),
    };
    let command = |entry: slash_command::MenuEntry| {
        let argument = entry.takes.trim_matches(['[', ']']).to_lowercase();
        let mut options = Vec::new();
        if !argument.is_empty() {
            options.push(json!({
                "type": TEXT,
                "name": argument,
                "description": format!("the {argument}"),
                "required": !entry.takes.starts_with('['),
            }));
        }
        json!({
            "type": TYPED,
            "name": entry.word,
            "description": entry.what,
            "options": options,
            "contexts": CONTEXTS,
            "default_member_permissions": permissions,
        })
    };
    slash_command::menu(Place::Chat).map(command).collect()
}

/// Whether a registered command is the same. Discord adds fields, and leaves out what is empty.
fn is_same(registered: &Value, command: &Value) -> bool {
    let permissions = |value: &Value| match &value["default_member_permissions"] {
        Value::Null => None,
        text => Some(text.as_str().unwrap_or_default().to_owned()),
    };
    is_same_text(registered, command)
        && registered["contexts"] == command["contexts"]
        && permissions(registered) == permissions(command)
}

fn is_same_text(registered: &Value, command: &Value) -> bool {
    let options = |value: &Value| -> Vec<(Value, Value, Value, bool)> {
        let options = value["options"].as_array().into_iter().flatten();
        let required = |option: &Value| option["required"].as_bool() == Some(true);
        options
            .map(|o| {
                (
                    o["type"].clone(),
                    o["name"].clone(),
                    o["description"].clone(),
                    required(o),
                )
            })
            .collect()
    };
    registered["name"] == command["name"]
        && registered["description"] == command["description"]
        && options(registered) == options(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_keep_to_discords_limits_and_are_recognised() {
        let all = commands(NativeCommands::Administrators);
        assert!(all.iter().any(|c| c["name"] == "resume"));
        for command in &all {
            let text = |field: &str| command[field].as_str().unwrap_or_default().to_owned();
            assert!(
                (1..=32).contains(&text("name").chars().count()),
                "{command}"
            );
            assert!(
                (1..=100).contains(&text("description").chars().count()),
                "{command}"
            );
            let mut registered = command.clone();
            registered["id"] = json!("5");
            registered["version"] = json!("6");
            if registered["options"].as_array().is_some_and(Vec::is_empty) {
                registered.as_object_mut().unwrap().remove("options");
            }
            assert!(is_same(&registered, command), "{command}");
        }
        let everyone = commands(NativeCommands::Everyone);
        assert!(!is_same(&all[0], &everyone[0]));
        assert!(is_same_text(&all[0], &everyone[0]));
    }
}
