//! Values from all sources, kept with their origin, merged by precedence and checked against their settings.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::mask::masked;
use super::value::{Raw, Value};
use super::{ConfigError, settings};

#[derive(Debug, Clone, PartialEq)]
pub enum Origin {
    Flag(String),
    Environment(String),
    Credential { path: PathBuf },
    Toml { path: PathBuf, line: usize },
    DotEnv { path: PathBuf, line: usize },
    Hermes { path: PathBuf, key: String },
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
            Origin::Hermes { path, key } => write!(f, "{}: {key}", path.display()),
            Origin::Default => write!(f, "default"),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Resolved {
    pub value: Value,
    pub origin: Origin,
}

/// Candidates in order of precedence: the first that is added for a key wins.
#[derive(Debug, Default)]
pub(super) struct Layers {
    candidates: BTreeMap<String, (Raw, Origin)>,
    faults: Vec<String>,
}

impl Layers {
    pub(super) fn add(&mut self, key: &str, raw: Raw, origin: Origin) {
        self.candidates
            .entry(key.to_owned())
            .or_insert((raw, origin));
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

    pub(super) fn add_environment(&mut self, environment: &BTreeMap<String, String>) {
        for setting in settings::SETTINGS.iter() {
            let names = std::iter::once(setting.own_env()).chain(setting.env.iter().cloned());
            for name in names {
                // An empty variable is how unit files and shells say "not set".
                if let Some(text) = environment.get(&name).filter(|t| !t.is_empty()) {
                    self.add(
                        &setting.key,
                        Raw::Text(text.clone()),
                        Origin::Environment(name),
                    );
                }
            }
        }
    }

    /// Checks every winner against its kind and fills in the defaults. All faults are reported at once.
    pub(super) fn resolve(mut self) -> Result<BTreeMap<String, Resolved>, ConfigError> {
        let mut resolved = BTreeMap::new();
        for setting in settings::SETTINGS.iter() {
            let candidate = self.candidates.remove(&setting.key).or_else(|| {
                let text = setting.default.clone()?;
                Some((Raw::Text(text), Origin::Default))
            });
            let Some((raw, origin)) = candidate else {
                continue;
            };
            let lenient = !matches!(origin, Origin::Toml { .. });
            match setting.kind.parse(&raw, lenient) {
                Some(value) => {
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
        _ if secret => "what stands there".into(),
        Raw::Text(text) => format!("{:?}", masked(text)),
        Raw::Flag(flag) => flag.to_string(),
        Raw::Integer(n) => n.to_string(),
        Raw::List(_) => "a list".into(),
        Raw::Other(what) => format!("a {what}"),
    }
}
