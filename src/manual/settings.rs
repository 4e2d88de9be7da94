//! Generates the manual of `hermesd.toml` from the list of settings.

use super::roff::{literal, prose, sentence};
use crate::config::settings::Setting;
use crate::platform::schema;

pub(super) fn all() -> String {
    let mut text = String::new();
    let mut table = "";
    for setting in schema().settings() {
        let (of, _) = setting.key.rsplit_once('.').expect("a section");
        if of != table {
            text.push_str(&format!(".SS [{}]\n", literal(of)));
            table = of;
        }
        text.push_str(&one(setting));
    }
    text
}

fn one(setting: &Setting) -> String {
    let mut text = format!(".TP\n.B {}\n", literal(&setting.key));
    text.push_str(&sentence(&setting.help));
    text.push_str(&sentence(&format!("Takes {}", setting.kind.describe())));
    text.push_str(&match &setting.default {
        Some(default) => prose(&format!("The default is `{default}`.")),
        None => prose("Unset by default."),
    });
    if setting.secret {
        text.push_str("A secret: it is never shown.\n");
    }
    let own = std::iter::once(setting.own_env());
    let names: Vec<String> = own.chain(setting.env.clone()).map(named).collect();
    text.push_str(&prose(&format!("Environment: {}.", names.join(", "))));
    for (paths, order) in [
        (setting.hermes_paths_first(), "before"),
        (setting.hermes_paths(), "after"),
    ] {
        let paths: Vec<String> = paths.into_iter().map(named).collect();
        if !paths.is_empty() {
            let paths = paths.join(", ");
            text.push_str(&prose(&match setting.env.is_empty() {
                true => format!("In Hermes' files: {paths}."),
                false => format!("In Hermes' files, {order} Hermes' variables: {paths}."),
            }));
        }
    }
    text
}

fn named(name: String) -> String {
    format!("`{name}`")
}
