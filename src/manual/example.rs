//! Generates `contrib/hermesd.toml`: every setting with its help, its kind and its default.

use crate::config::settings::{Kind, Setting};
use crate::platform::{self, schema};

fn example() -> String {
    let mut text = String::from(
        "# Every setting of hermesd with its default. None is required. Uncomment the settings that you want to change.\n\
         # This file overrides Hermes' .env, variables and config.yaml. HERMESD_ variables and credentials override this file.\n",
    );
    let mut section = "";
    for setting in schema().settings() {
        let (table, _) = setting.key.rsplit_once('.').expect("a section");
        if table != section {
            text.push_str(&format!("\n[{table}]\n"));
            if let Some(name) = table.strip_prefix("platforms.")
                && !platform::has_adapter(name)
            {
                text.push_str(&format!(
                    "# This version of hermesd reads these settings, but cannot connect to {name} yet.\n"
                ));
            }
            section = table;
        }
        text.push_str(&one(setting));
    }
    text
}

fn one(setting: &Setting) -> String {
    let (_, name) = setting.key.rsplit_once('.').expect("a section");
    let default = match (&setting.default, setting.kind) {
        (None, Kind::Flag) => "true".to_owned(),
        (None, Kind::List) => "[]".to_owned(),
        (None, _) => "\"\"".to_owned(),
        (Some(value), Kind::Flag | Kind::Integer { .. }) => value.clone(),
        (Some(value), _) => format!("{value:?}"),
    };
    let unset = match setting.default {
        None => " Unset by default.",
        Some(_) => "",
    };
    let names: Vec<String> = std::iter::once(setting.own_env())
        .chain(setting.env.clone())
        .collect();
    format!(
        "# {} Takes {}.{unset}\n# Environment: {}\n# {name} = {default}\n",
        setting.help,
        setting.kind.describe(),
        names.join(", ")
    )
}

#[test]
fn the_example_lists_every_setting() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/contrib/hermesd.toml");
    if std::env::var_os("UPDATE_EXAMPLE").is_some() {
        std::fs::write(path, example()).expect("a writable example");
    }
    let found = std::fs::read_to_string(path).expect("an example");
    assert!(
        found == example(),
        "contrib/hermesd.toml is out of date: run UPDATE_EXAMPLE=1 cargo test the_example"
    );
}
