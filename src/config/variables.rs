//! Merges the variables that Hermes sees. Each comes from the first place that has it: `.env`, the environment, a plain
//! value at the top of `config.yaml`. An empty value also hides the later places.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::dotenv::Assignment;
use super::layers::Origin;

pub(super) struct Variables(BTreeMap<String, (String, Origin)>);

impl Variables {
    pub(super) fn new(environment: &BTreeMap<String, String>) -> Variables {
        let all = environment.iter().map(|(name, value)| {
            let origin = Origin::Environment(name.clone());
            (name.clone(), (value.clone(), origin))
        });
        Variables(all.collect())
    }

    /// The last of two assignments to a name wins.
    pub(super) fn override_with(&mut self, path: &Path, assignments: Vec<Assignment>) {
        for Assignment { name, value, line } in assignments {
            let path = path.to_owned();
            self.0.insert(name, (value, Origin::DotEnv { path, line }));
        }
    }

    /// Adds the plain values at the top of `config.yaml`, unless a variable of the same name exists.
    pub(super) fn complete_from(&mut self, path: &Path, yaml: &Json) {
        for (name, value) in yaml.as_object().into_iter().flatten() {
            let text = match value {
                Json::String(text) => self.expanded(text),
                Json::Bool(_) | Json::Number(_) => value.to_string(),
                _ => continue,
            };
            let (path, key) = (path.to_owned(), name.clone());
            self.0
                .entry(name.clone())
                .or_insert((text, Origin::YamlVariable { path, key }));
        }
    }

    /// `None` if the variable is empty.
    pub(super) fn get(&self, name: &str) -> Option<&(String, Origin)> {
        self.0.get(name).filter(|(value, _)| !value.is_empty())
    }

    /// The text with `${NAME}` and `${env:NAME}` replaced. Unknown names stay as they are.
    pub(super) fn expanded(&self, text: &str) -> String {
        references(text, |inner| {
            let name = inner.strip_prefix("env:").unwrap_or(inner);
            self.0.get(name).map(|(value, _)| value.clone())
        })
    }
}

/// Replaces each `${…}` by the result of `lookup`. `None` leaves it unchanged.
pub(super) fn references(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, inner, after)) = next_reference(rest) {
        result.push_str(before);
        match lookup(inner) {
            Some(value) => result.push_str(&value),
            None => result.push_str(&format!("${{{inner}}}")),
        }
        rest = after;
    }
    result + rest
}

fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${")?;
    let (inner, after) = rest.split_once('}')?;
    Some((before, inner, after))
}
