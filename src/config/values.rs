//! Typed look-ups of values. Every value has already been checked against the kind of its setting.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use super::layers::{Origin, Resolved};
use super::value::Value;

/// The values in force. A platform's adapter gets the values of its own settings, by their names in its table.
#[derive(Clone)]
pub struct SettingValues {
    prefix: String,
    resolved: Arc<BTreeMap<String, Resolved>>,
}

/// Shows no values, because they may be secrets.
impl std::fmt::Debug for SettingValues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SettingValues({:?})", self.prefix)
    }
}

impl SettingValues {
    pub(super) fn new(resolved: &Arc<BTreeMap<String, Resolved>>) -> SettingValues {
        SettingValues {
            prefix: String::new(),
            resolved: resolved.clone(),
        }
    }

    pub(super) fn of_platform(&self, platform: &str) -> SettingValues {
        SettingValues {
            prefix: format!("platforms.{platform}."),
            resolved: self.resolved.clone(),
        }
    }

    fn get(&self, name: &str) -> Option<&Resolved> {
        self.resolved.get(&format!("{}{name}", self.prefix))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.get(name).map(|resolved| &resolved.value)
    }

    pub fn is_set(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Text(text)) => !text.is_empty(),
            value => value.is_some(),
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        match self.value(name) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.text(name).map(SecretString::from)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.maybe_flag(name).unwrap_or_default()
    }

    pub(super) fn maybe_flag(&self, name: &str) -> Option<bool> {
        match self.value(name) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    pub fn set(&self, name: &str) -> BTreeSet<String> {
        match self.value(name) {
            Some(Value::List(items)) => items.iter().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    pub fn integer(&self, name: &str) -> usize {
        match self.value(name) {
            Some(Value::Integer(n)) => usize::try_from(*n).unwrap_or_default(),
            _ => 0,
        }
    }

    pub fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Some(Value::Duration(d)) => *d,
            _ => Duration::ZERO,
        }
    }

    /// `None` for 0.
    pub fn duration_or_off(&self, name: &str) -> Option<Duration> {
        Some(self.duration(name)).filter(|d| !d.is_zero())
    }

    pub(super) fn origin(&self, name: &str) -> Option<&Origin> {
        self.get(name).map(|resolved| &resolved.origin)
    }

    /// Whether the value is from Hermes' `config.yaml` or `gateway.json`.
    pub(super) fn is_of_hermes(&self, name: &str) -> bool {
        matches!(self.origin(name), Some(Origin::Hermes { .. }))
    }
}
