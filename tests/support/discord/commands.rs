//! The routes of the application: its commands.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::errors;
use super::form::{Form, path};
use super::routes::Call;
use super::values;
use super::world::{Command, Id, World};
use super::{APPLICATION_ID, BOT_ID, Discord};
use crate::support::fake::Refusal;

type Answer = Result<Value, Refusal>;

/// How many commands a guild can have, and all guilds together.
const MOST: usize = 100;

pub fn perform(world: &mut World, call: &Call) -> Answer {
    if call.name.ends_with("applications/@me") {
        return Ok(values::application(world));
    }
    if call.id(0)? != APPLICATION_ID {
        return Err(errors::UNKNOWN_APPLICATION.into());
    }
    let guild = match call.name.contains("/guilds/") {
        true => Some(call.id(1)?),
        false => None,
    };
    if let Some(guild) = guild {
        let guild = world.guilds.get(&guild);
        if !guild.is_some_and(|guild| guild.members.contains_key(&BOT_ID)) {
            return Err(errors::MISSING_ACCESS.into());
        }
    }
    match call.name.split_once(' ') {
        Some(("GET", _)) => Ok(list(world, guild)),
        Some(("DELETE", _)) => {
            let id = call.id(1)?;
            let known = world.commands.len();
            world.commands.retain(|c| c.id != id || c.guild.is_some());
            match world.commands.len() < known {
                true => Ok(Value::Null),
                false => Err(errors::UNKNOWN_COMMAND.into()),
            }
        }
        Some(("POST", _)) => {
            let mut form = Form::default();
            command(&mut form, call.fields(), "");
            form.check()?;
            let known = world.commands.iter().filter(|c| c.guild == guild);
            let name = call.body["name"].as_str().unwrap_or_default();
            let is_new = !known.clone().any(|c| c.name == name);
            if is_new && known.count() >= MOST {
                return Err(errors::TOO_MANY_COMMANDS.into());
            }
            Ok(register(world, guild, &call.body))
        }
        _ => overwrite(world, guild, &call.body),
    }
}

impl Discord {
    /// Another program has registered a command for the same bot.
    pub fn has_command(&self, name: &str, description: &str) {
        let body = json!({"name": name, "description": description});
        self.change(|world| register(world, None, &body));
    }
}

fn list(world: &World, guild: Option<Id>) -> Value {
    let commands = world.commands.iter().filter(|c| c.guild == guild);
    let values: Vec<&Value> = commands.map(|c| &c.value).collect();
    json!(values)
}

/// Replaces all commands. Those of the same name keep their ids.
fn overwrite(world: &mut World, guild: Option<Id>, body: &Value) -> Answer {
    let commands = body.as_array().expect("checked when it was read");
    if commands.len() > MOST {
        return Err(errors::TOO_MANY_COMMANDS.into());
    }
    let mut form = Form::default();
    let mut names = BTreeSet::new();
    for (n, value) in commands.iter().enumerate() {
        let at = n.to_string();
        if let Some(fields) = form.object(value, &at) {
            command(&mut form, fields, &at);
        }
        if !names.insert(value["name"].as_str()) {
            let told = "Application command names must be unique";
            form.add(&at, "APPLICATION_COMMANDS_DUPLICATE_NAME", told);
        }
    }
    form.check()?;
    let stays = |c: &Command| c.guild != guild || names.contains(&Some(c.name.as_str()));
    world.commands.retain(stays);
    for value in commands {
        register(world, guild, value);
    }
    Ok(list(world, guild))
}

/// Puts a command in the place of one with the same name.
fn register(world: &mut World, guild: Option<Id>, body: &Value) -> Value {
    let name = body["name"].as_str().expect("checked").to_owned();
    let mut known = world.commands.iter();
    let known = known.position(|c| c.guild == guild && c.name == name);
    let id = match known {
        Some(at) => world.commands.remove(at).id,
        None => world.next_id(),
    };
    let version = world.next_id();
    let mut value = json!({
        "id": id.to_string(),
        "application_id": APPLICATION_ID.to_string(),
        "version": version.to_string(),
        "type": body["type"].as_u64().unwrap_or(1),
        "name": name,
        "description": body["description"].as_str().unwrap_or_default(),
        "default_member_permissions": body["default_member_permissions"],
        "nsfw": false,
    });
    if guild.is_none() {
        let everywhere = json!([0, 1, 2]);
        let contexts = body.get("contexts").filter(|contexts| !contexts.is_null());
        value["contexts"] = contexts.cloned().unwrap_or(everywhere);
        value["integration_types"] = json!([0]);
    }
    if let Some(options) = body.get("options") {
        value["options"] = options.clone();
    }
    if let Some(guild) = guild {
        value["guild_id"] = json!(guild.to_string());
    }
    world.commands.push(Command {
        id,
        guild,
        name,
        value: value.clone(),
    });
    value
}

/// A name of a command or of an option: letters, digits, `-` and `_`, and no capitals.
fn name(form: &mut Form, fields: &Map<String, Value>, at: &str) {
    let Some(name) = form.text_of(fields, at, "name", (1, 32)) else {
        return form.required(&path(at, "name"));
    };
    let spelt = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '\'');
    if !name.chars().all(spelt) || name.to_lowercase() != name {
        let at = path(at, "name");
        form.add(
            &at,
            "APPLICATION_COMMAND_INVALID_NAME",
            "Command name is invalid",
        );
    }
}

fn command(form: &mut Form, fields: &Map<String, Value>, at: &str) {
    let kind = form.choice(fields, at, "type", &[1, 2, 3]).unwrap_or(1);
    if kind != 1 {
        // The menus of users and messages have names with spaces, and no description.
        form.text_of(fields, at, "name", (1, 32));
        form.text_of(fields, at, "description", (0, 0));
        return;
    }
    name(form, fields, at);
    if form.text_of(fields, at, "description", (1, 100)).is_none() {
        form.required(&path(at, "description"));
    }
    options(form, fields, at);
    let contexts = form.list(fields, at, "contexts", 3);
    for (n, context) in contexts.into_iter().flatten().enumerate() {
        if !matches!(context.as_u64(), Some(0..=2)) {
            let at = format!("{}.{n}", path(at, "contexts"));
            form.add(&at, "BASE_TYPE_CHOICES", "Value must be one of {0, 1, 2}.");
        }
    }
    let permissions = fields.get("default_member_permissions");
    let permissions = permissions.filter(|value| !value.is_null());
    let is_number = |value: &Value| value.as_str().is_some_and(|t| t.parse::<u64>().is_ok());
    if permissions.is_some_and(|value| !is_number(value)) {
        let told = "A permission must be a number in text.";
        form.add(
            &path(at, "default_member_permissions"),
            "NUMBER_TYPE_COERCE",
            told,
        );
    }
}

fn options(form: &mut Form, fields: &Map<String, Value>, at: &str) {
    let options = form.list(fields, at, "options", 25);
    let mut optional_seen = false;
    let mut names = BTreeSet::new();
    for (n, option) in options.into_iter().flatten().enumerate() {
        let at = format!("{}.{n}", path(at, "options"));
        let Some(option) = form.object(option, &at) else {
            continue;
        };
        let kinds: Vec<i64> = (1..=11).collect();
        let kind = form.choice(option, &at, "type", &kinds);
        if kind.is_none() {
            form.required(&path(&at, "type"));
        }
        name(form, option, &at);
        if !names.insert(option.get("name").and_then(Value::as_str)) {
            let told = "Option names must be unique";
            form.add(&at, "APPLICATION_COMMAND_OPTIONS_NAME_INVALID", told);
        }
        if form.text_of(option, &at, "description", (1, 100)).is_none() {
            form.required(&path(&at, "description"));
        }
        let required = form.flag(option, &at, "required").unwrap_or_default();
        if required && optional_seen {
            let told = "Required options must be placed before non-required options";
            form.add(&at, "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID", told);
        }
        optional_seen |= !required;
        let choices = form.list(option, &at, "choices", 25);
        for (n, choice) in choices.into_iter().flatten().enumerate() {
            let at = format!("{at}.choices.{n}");
            if let Some(choice) = form.object(choice, &at) {
                form.text_of(choice, &at, "name", (1, 100));
            }
        }
        // A command with parts has options of its own in each.
        if matches!(kind, Some(1 | 2)) {
            self::options(form, option, &at);
        }
    }
}
