//! Collects the values of all sources with their origin, merges them by precedence, and checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use super::ConfigError;
use super::mask::masked;
use super::settings::{OWN_PREFIX, Schema, Setting};
use super::value::{Raw, Value};
use super::variables::Variables;

#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    Flag(String),
    Environment(String),
    Credential {
        path: PathBuf,
    },
    Toml {
        path: PathBuf,
        line: usize,
    },
    DotEnv {
        path: PathBuf,
        line: usize,
    },
    /// A plain value at the top of `config.yaml` that has the name of a variable.
    YamlVariable {
        path: PathBuf,
        key: String,
    },
    Hermes {
        path: PathBuf,
        key: String,
    },
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(name) => write!(f, "{name}"),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::Credential { path } => write!(f, "credential {}", path.display()),
            Origin::Toml { path, line } | Origin::DotEnv { path, line } => {
                write!(f, "{}:{line}", path.display())
            }
            Origin::Hermes { path, key } | Origin::YamlVariable { path, key } => {
                write!(f, "{}: {key}", path.display())
            }
            Origin::Default => write!(f, "default"),
        }
    }
}

/// The groups of sources. A home channel's name and thread have to come from the same group as the channel.
#[derive(Clone, Copy, PartialEq)]
enum SettingLayer {
    Flags,
    Environment,
    Credentials,
    Toml,
    HermesVariables,
    HermesFiles,
    Defaults,
}

impl Origin {
    fn layer(&self) -> SettingLayer {
        match self {
            Origin::Flag(_) => SettingLayer::Flags,
            Origin::Environment(name) if name.starts_with(OWN_PREFIX) => SettingLayer::Environment,
            Origin::Environment(_) | Origin::DotEnv { .. } | Origin::YamlVariable { .. } => {
                SettingLayer::HermesVariables
            }
            Origin::Credential { .. } => SettingLayer::Credentials,
            Origin::Toml { .. } => SettingLayer::Toml,
            Origin::Hermes { .. } => SettingLayer::HermesFiles,
            Origin::Default => SettingLayer::Defaults,
        }
    }
}

#[derive(Debug, Clone)]
pub struct Resolved {
    pub value: Value,
    pub origin: Origin,
}

/// Candidates for each key in order of precedence: the first that was added wins.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) schema: &'static Schema,
    candidates: BTreeMap<String, Vec<(Raw, Origin)>>,
    /// Keys that accept no further candidates.
    left_unset: BTreeSet<String>,
    faults: Vec<String>,
}

impl Layers {
    pub(super) fn new(schema: &'static Schema) -> Layers {
        Layers {
            schema,
            candidates: BTreeMap::new(),
            left_unset: BTreeSet::new(),
            faults: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, key: &str, raw: Raw, origin: Origin) {
        if !self.left_unset.contains(key) {
            let candidates = self.candidates.entry(key.to_owned()).or_default();
            candidates.push((raw, origin));
        }
    }

    /// Ignores all later sources of this key.
    pub(super) fn leave_unset(&mut self, key: &str) {
        self.left_unset.insert(key.to_owned());
    }

    pub(super) fn fault(&mut self, message: String) {
        self.faults.push(message);
    }

    pub(super) fn add_flags(&mut self, flags: &[(&'static str, String)]) {
        for (key, text) in flags {
            let name = format!("--{}", key.rsplit('.').next().unwrap_or(key));
            self.add(key, Raw::Text(text.clone()), Origin::Flag(name));
        }
    }

    /// The environment by hermesd's own names.
    pub(super) fn add_environment(&mut self, environment: &BTreeMap<String, String>) {
        for setting in self.schema.settings() {
            let name = setting.own_env();
            // Unit files and shells unset a variable by making it empty.
            if let Some(text) = environment.get(&name).filter(|t| !t.is_empty()) {
                let raw = Raw::Text(text.clone());
                self.add(&setting.key, raw, Origin::Environment(name));
            }
        }
    }

    /// The variables that Hermes sees. In `.env`, hermesd's own names count too.
    pub(super) fn add_variables(&mut self, variables: &Variables) {
        for setting in self.schema.settings() {
            let own = setting.own_env();
            let own = variables
                .get(&own)
                .filter(|(_, origin)| matches!(origin, Origin::DotEnv { .. }));
            let theirs = setting.env.iter().filter_map(|name| variables.get(name));
            for (text, origin) in own.into_iter().chain(theirs) {
                self.add(&setting.key, Raw::Text(text.clone()), origin.clone());
            }
        }
    }

    /// The candidate that wins. The name and the thread of a home channel have to come from the channel's source.
    fn winner(&self, setting: &Setting) -> Option<(Raw, Origin)> {
        let candidates = self.candidates.get(&setting.key);
        let mut candidates = candidates.into_iter().flatten();
        let Some(home) = setting
            .home_channel()
            .and_then(|key| self.schema.find(&key))
        else {
            return candidates.next().cloned().or_else(|| {
                let default = setting.default.clone()?;
                Some((Raw::Text(default), Origin::Default))
            });
        };
        let (_, home) = self.winner(home)?;
        candidates
            .find(|(_, origin)| origin.layer() == home.layer())
            .cloned()
    }

    /// Reduces a list to what Hermes' files list too. An empty result is a fault: it would exclude everybody.
    fn keep_common(&mut self, setting: &Setting, value: &mut Value, origin: &Origin) {
        let candidates = self.candidates.get(&setting.key).into_iter().flatten();
        let of_files = candidates
            .filter(|(_, origin)| origin.layer() == SettingLayer::HermesFiles)
            .find_map(|(raw, origin)| Some((setting.kind.parse(raw, true)?, origin.clone())));
        let (Value::List(listed), Some((Value::List(also), file))) = (value, of_files) else {
            return;
        };
        let all = |list: &[String]| list.is_empty() || list.iter().any(|id| id == "*");
        if all(&also) {
            return;
        }
        if all(listed) {
            *listed = also;
        } else {
            listed.retain(|id| also.contains(id));
        }
        if listed.is_empty() {
            self.faults.push(format!(
                "{origin} and {file} have no entry in common, and Hermes allows only people whom both list: remove one of the two"
            ));
        }
    }

    /// Checks every winner against its kind and adds the defaults. The error has all faults.
    pub(super) fn resolve(mut self) -> Result<BTreeMap<String, Resolved>, ConfigError> {
        let mut resolved = BTreeMap::new();
        for setting in self.schema.settings() {
            let Some((raw, origin)) = self.winner(setting) else {
                continue;
            };
            let lenient = !matches!(origin, Origin::Toml { .. });
            match setting.kind.parse(&raw, lenient) {
                Some(mut value) => {
                    if setting.spec.needs_both && origin.layer() == SettingLayer::HermesVariables {
                        self.keep_common(setting, &mut value, &origin);
                    }
                    resolved.insert(setting.key.clone(), Resolved { value, origin });
                }
                None => self.faults.push(format!(
                    "{origin}: {} takes {}, not {}",
                    setting.key,
                    setting.kind.describe(),
                    describe(&raw, setting.secret)
                )),
            }
        }
        if self.faults.is_empty() {
            Ok(resolved)
        } else {
            Err(ConfigError::Invalid(self.faults))
        }
    }
}

fn describe(raw: &Raw, secret: bool) -> String {
    match raw {
        _ if secret => "this value".into(),
        Raw::Text(text) => format!("{:?}", masked(text)),
        Raw::Flag(flag) => flag.to_string(),
        Raw::Integer(n) => n.to_string(),
        Raw::List(_) => "a list".into(),
        Raw::Other(what) => format!("a {what}"),
    }
}
