//! Reads Hermes' `config.yaml` and `gateway.json`. Values that hermesd uses are checked, all others are ignored.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::ConfigError;
use super::layers::{Layers, Origin};
use super::platform_blocks::{Blocks, Tree};
use super::settings::Setting;
use super::value::{Kind, Raw};
use super::variables::Variables;

/// The two files. `Null` stands for a missing one.
pub(super) struct Files {
    yaml_path: PathBuf,
    yaml: Json,
    json_path: PathBuf,
    json: Json,
}

/// How a path in Hermes' files relates to Hermes' variables.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Order {
    BeforeVariables,
    AfterVariables,
}

impl Order {
    fn paths(self, setting: &Setting) -> &'static [&'static str] {
        match self {
            Order::BeforeVariables => setting.spec.hermes_first,
            Order::AfterVariables => setting.spec.hermes,
        }
    }
}

impl Files {
    pub(super) fn read(home: &Path) -> Result<Files, ConfigError> {
        let (yaml_path, json_path) = (home.join("config.yaml"), home.join("gateway.json"));
        Ok(Files {
            yaml: read_yaml(&yaml_path)?,
            json: read_json(&json_path)?,
            yaml_path,
            json_path,
        })
    }

    pub(super) fn complete(&self, variables: &mut Variables) {
        variables.complete_from(&self.yaml_path, &self.yaml);
    }

    /// Adds the values of the paths that come before Hermes' variables, or of those that come after.
    pub(super) fn pick(&self, order: Order, variables: &Variables, layers: &mut Layers) {
        let schema = layers.schema;
        for setting in schema.settings().iter().filter(|s| s.platform.is_none()) {
            if let Some((node, origin)) = self.global(order.paths(setting)) {
                let raw = raw(node).map(|raw| expanded(raw, variables));
                add(setting, order, raw, origin, layers);
            }
        }
        for platform in schema.descriptors() {
            let blocks = Blocks::new(platform, self.yaml(), self.json());
            for setting in schema.settings().iter().filter(|s| s.is_of(platform.name)) {
                let mut paths = order.paths(setting).iter();
                if let Some((node, origin)) = paths.find_map(|path| blocks.find(path)) {
                    add(setting, order, raw_of(setting, order, node), origin, layers);
                }
            }
        }
    }

    /// The first of the paths that exists, null included.
    fn global(&self, paths: &[&str]) -> Option<(&Json, Origin)> {
        let first = |tree: Tree<'_>, counts: fn(&str) -> bool| {
            let mut keys = paths.iter().filter(|key| counts(key));
            keys.find(|key| tree.at(key).is_some())
                .map(|key| (*key).to_owned())
        };
        let (yaml, json) = (self.yaml(), self.json());
        let in_yaml = first(yaml, |_| true).map(|key| (yaml, key));
        let found = in_yaml.or_else(|| first(json, counts_in_json).map(|key| (json, key)));
        let (tree, key) = found?;
        Some((tree.at(&key)?, tree.origin(key)))
    }

    fn yaml(&self) -> Tree<'_> {
        Tree {
            path: &self.yaml_path,
            root: &self.yaml,
        }
    }

    fn json(&self) -> Tree<'_> {
        Tree {
            path: &self.json_path,
            root: &self.json,
        }
    }
}

/// Below `gateway`, Hermes reads only this key in `gateway.json`.
fn counts_in_json(key: &str) -> bool {
    !key.starts_with("gateway.") || key == "gateway.multiplex_profiles"
}

fn add(setting: &Setting, order: Order, raw: Option<Raw>, origin: Origin, layers: &mut Layers) {
    let Some(raw) = raw else {
        return;
    };
    // Hermes ignores a number or a word that it cannot use, and so do we.
    let may_be_odd = !matches!(
        setting.kind,
        Kind::Text | Kind::Path | Kind::Flag | Kind::List
    );
    if !may_be_odd || setting.kind.parse(&raw, true).is_some() {
        layers.add(&setting.key, raw, origin);
    } else if order == Order::BeforeVariables && raw != Raw::Text(String::new()) {
        layers.leave_unset(&setting.key);
    }
}

/// The raw value of a platform's setting. `None` is unset.
fn raw_of(setting: &Setting, order: Order, node: &Json) -> Option<Raw> {
    match node {
        // Hermes reads a key without a value as false.
        Json::Null if setting.key.ends_with(".enabled") => Some(Raw::Flag(false)),
        Json::String(text) if text.is_empty() && order == Order::BeforeVariables => {
            Some(Raw::Text(String::new()))
        }
        _ => raw(node),
    }
}

fn expanded(raw: Raw, variables: &Variables) -> Raw {
    match raw {
        Raw::Text(text) => Raw::Text(variables.expanded(&text)),
        other => other,
    }
}

fn read_yaml(path: &Path) -> Result<Json, ConfigError> {
    let text = read_text(path)?;
    if text.trim().is_empty() {
        return Ok(Json::Null);
    }
    serde_saphyr::from_str_with_options(&text, as_python_reads_it()).map_err(|e| {
        // Without the snippet: it may contain a token.
        let line = e.location().map_or(1, |at| at.line());
        invalid(path, line, e.without_snippet())
    })
}

/// The last of two equal keys wins: Hermes accepts such files, and so do we.
fn as_python_reads_it() -> serde_saphyr::Options {
    serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins }
}

fn read_json(path: &Path) -> Result<Json, ConfigError> {
    let Some(bytes) = read_optional(path)? else {
        return Ok(Json::Null);
    };
    serde_json::from_slice(&bytes).map_err(|e| invalid(path, e.line() as u64, &e))
}

/// Empty if the file is missing.
fn read_text(path: &Path) -> Result<String, ConfigError> {
    let bytes = read_optional(path)?.unwrap_or_default();
    String::from_utf8(bytes).map_err(|error| ConfigError::Unreadable {
        path: path.to_owned(),
        source: std::io::Error::new(ErrorKind::InvalidData, error.utf8_error()),
    })
}

/// `None` if the file is missing.
pub(super) fn read_optional(path: &Path) -> Result<Option<Vec<u8>>, ConfigError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

fn invalid(path: &Path, line: u64, error: &dyn std::fmt::Display) -> ConfigError {
    ConfigError::Invalid(vec![format!("{}:{line}: {error}", path.display())])
}

/// `None` for values that count as unset: null, empty text, and mappings, whose keys are looked up one by one.
fn raw(node: &Json) -> Option<Raw> {
    match node {
        Json::Null | Json::Object(_) => None,
        Json::String(text) => (!text.is_empty()).then(|| Raw::Text(text.clone())),
        Json::Bool(flag) => Some(Raw::Flag(*flag)),
        Json::Number(n) => Some(
            n.as_i64()
                .map_or(Raw::Other("decimal number"), Raw::Integer),
        ),
        Json::Array(items) => Some(
            items
                .iter()
                .map(|item| match raw(item) {
                    Some(Raw::Text(text)) => Some(text),
                    Some(Raw::Integer(n)) => Some(n.to_string()),
                    _ => None,
                })
                .collect::<Option<_>>()
                .map_or(Raw::Other("list of other values"), Raw::List),
        ),
    }
}
