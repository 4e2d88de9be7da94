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

/// How many commands of a type a guild can have, and all guilds together.
fn most(kind: u64) -> usize {
    match kind {
        1 => 100,
        _ => 15,
    }
}

/// The most characters of a command with all its options.
const LARGEST: usize = 8000;

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
            command(&mut form, call.fields(), "", guild);
            form.check()?;
            let kind = call.body["type"].as_u64().unwrap_or(1);
            let mut known = world.commands.iter();
            let is_new = !known.any(|c| is(c, guild, &call.body));
            let known = world.commands.iter().filter(|c| c.guild == guild);
            if is_new && known.filter(|c| c.value["type"] == kind).count() >= most(kind) {
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

/// Commands are told apart by their name and their type.
fn is(known: &Command, guild: Option<Id>, body: &Value) -> bool {
    let kind = body["type"].as_u64().unwrap_or(1);
    known.guild == guild && known.name == body["name"] && known.value["type"] == kind
}

fn list(world: &World, guild: Option<Id>) -> Value {
    let commands = world.commands.iter().filter(|c| c.guild == guild);
    let values: Vec<&Value> = commands.map(|c| &c.value).collect();
    json!(values)
}

/// Replaces all commands. Those of the same name keep their ids.
fn overwrite(world: &mut World, guild: Option<Id>, body: &Value) -> Answer {
    let commands = body.as_array().expect("checked when it was read");
    for kind in 1..=3 {
        let of_kind = commands
            .iter()
            .filter(|c| c["type"].as_u64().unwrap_or(1) == kind);
        if of_kind.count() > most(kind) {
            return Err(errors::TOO_MANY_COMMANDS.into());
        }
    }
    let mut form = Form::default();
    let mut names = BTreeSet::new();
    for (n, value) in commands.iter().enumerate() {
        let at = n.to_string();
        if let Some(fields) = form.object(value, &at) {
            command(&mut form, fields, &at, guild);
        }
        if !names.insert((value["name"].as_str(), value["type"].as_u64().unwrap_or(1))) {
            let told = "Application command names must be unique";
            form.add(&at, "APPLICATION_COMMANDS_DUPLICATE_NAME", told);
        }
    }
    form.check()?;
    let stays = |c: &Command| c.guild != guild || commands.iter().any(|body| is(c, guild, body));
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
    let known = known.position(|c| is(c, guild, body));
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
        "nsfw": body["nsfw"].as_bool().unwrap_or_default(),
    });
    // Commands of a guild are nowhere else.
    if guild.is_none() {
        let in_direct = body["dm_permission"].as_bool().unwrap_or(true);
        let contexts = body.get("contexts").filter(|contexts| !contexts.is_null());
        value["integration_types"] = body.get("integration_types").cloned().unwrap_or(json!([0]));
        value["contexts"] = json!(contexts);
        value["dm_permission"] = json!(in_direct);
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

fn command(form: &mut Form, fields: &Map<String, Value>, at: &str, guild: Option<Id>) {
    let kind = form.choice(fields, at, "type", &[1, 2, 3]).unwrap_or(1);
    places(form, fields, at, guild);
    if kind != 1 {
        // The menus of users and messages have names with spaces, and neither a description nor options.
        if form.text_of(fields, at, "name", (1, 32)).is_none() {
            form.required(&path(at, "name"));
        }
        form.text_of(fields, at, "description", (0, 0));
        form.list(fields, at, "options", 0);
        return;
    }
    name(form, fields, at);
    if form.text_of(fields, at, "description", (1, 100)).is_none() {
        form.required(&path(at, "description"));
    }
    options(form, fields, at, 0);
    if length(&Value::Object(fields.clone())) > LARGEST {
        let told = "Command exceeds maximum size (8000)";
        form.add(at, "APPLICATION_COMMAND_TOO_LARGE", told);
    }
}

/// Where a command can be used, and by whom.
fn places(form: &mut Form, fields: &Map<String, Value>, at: &str, guild: Option<Id>) {
    if let Some(permissions) = form.text(fields, at, "default_member_permissions")
        && permissions.parse::<u64>().is_err()
    {
        let told = "Could not interpret as a bit set.";
        let at = path(at, "default_member_permissions");
        form.add(&at, "NUMBER_TYPE_COERCE", told);
    }
    form.flag(fields, at, "nsfw");
    form.flag(fields, at, "dm_permission");
    for (key, most) in [("integration_types", 1), ("contexts", 2)] {
        let list = form.list(fields, at, key, 3);
        if list.is_some() && guild.is_some() {
            let told = "Only global commands have this field.";
            form.add(&path(at, key), "APPLICATION_COMMAND_GUILD_FIELD", told);
        }
        let known = |value: &&Value| value.as_u64().is_some_and(|value| value <= most);
        let is_empty = list.is_some_and(Vec::is_empty);
        if is_empty || !list.into_iter().flatten().all(|value| known(&value)) {
            let told = "Value must be one of the known types.";
            form.add(&path(at, key), "BASE_TYPE_CHOICES", told);
        }
    }
}

/// The characters of all names, descriptions and values.
fn length(value: &Value) -> usize {
    let own = ["name", "description", "value"].iter().map(|key| {
        let text = value[key].as_str().unwrap_or_default();
        text.chars().count()
    });
    let parts = ["options", "choices"]
        .iter()
        .flat_map(|key| value[key].as_array());
    own.sum::<usize>() + parts.flatten().map(length).sum::<usize>()
}

fn options(form: &mut Form, fields: &Map<String, Value>, at: &str, depth: usize) {
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
                self::choice(form, choice, &at, kind);
            }
        }
        if choices.is_some() && form.flag(option, &at, "autocomplete") == Some(true) {
            let told = "Options with autocomplete have no choices.";
            form.add(&at, "APPLICATION_COMMAND_OPTIONS_CHOICES_INVALID", told);
        }
        // A command with parts has options of its own in each.
        if matches!(kind, Some(1 | 2)) {
            // A group has commands in it, and a command has values.
            if depth > 1 || depth == 1 && kind == Some(2) {
                let told = "Sub-command option types can only be nested once.";
                form.add(
                    &path(&at, "type"),
                    "APPLICATION_COMMAND_OPTIONS_TYPE_INVALID",
                    told,
                );
            } else {
                self::options(form, option, &at, depth + 1);
            }
        }
    }
}

/// A value that can be chosen, of the type of its option.
fn choice(form: &mut Form, choice: &Map<String, Value>, at: &str, kind: Option<i64>) {
    if form.text_of(choice, at, "name", (1, 100)).is_none() {
        form.required(&path(at, "name"));
    }
    match (kind, choice.get("value")) {
        (Some(3), Some(_)) => {
            form.text_of(choice, at, "value", (1, 100));
        }
        (Some(4), Some(_)) => {
            form.int(choice, at, "value");
        }
        (Some(10), Some(Value::Number(_))) => {}
        (Some(3 | 4 | 10), None) => form.required(&path(at, "value")),
        _ => {
            let told = "Only texts and numbers can be chosen from a list.";
            form.add(at, "APPLICATION_COMMAND_OPTIONS_CHOICES_INVALID", told);
        }
    }
}
