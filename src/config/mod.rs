//! Loads all settings from their sources, remembers where each value came from, and returns the validated [`Config`].
//!
//! A [`Schema`] declares the settings: a general table and one per platform. Each source (environment, credentials,
//! TOML, Hermes' `.env`, `config.yaml` and `gateway.json`) has a file here that reads raw values. No other room reads
//! configuration files or environment variables with settings.

mod access;
mod build;
mod chat_rules;
mod credentials;
mod descriptor;
mod dotenv;
mod general;
mod hermes;
mod layers;
mod mask;
pub mod paths;
mod platform;
mod platform_blocks;
pub mod platform_settings;
mod sections;
pub mod settings;
mod spec;
mod token;
mod toml_file;
mod value;
mod values;
mod variables;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use access::Access;
pub use chat_rules::{BotMessages, ChatRules, MentionPatterns};
pub use descriptor::{
    AccessRules, AppManifest, Credential, GroupRule, MessageLimits, PlatformDescriptor,
};
pub use layers::{Origin, Resolved};
pub use platform::PlatformConfig;
pub use sections::{HOOKS, HooksConfig, OpenAiConfig, QuestionTimeouts, StoreOptions, Timeouts};
pub use settings::Schema;
pub use spec::SettingSpec;
pub use value::Value;
pub use values::SettingValues;

use crate::domain::KeyRules;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// One or more values are wrong. Each line says where, and names the remedy.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
    #[error("cannot read {path}: {source}")]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("no home directory: set --home, HERMES_HOME or HOME")]
    NoHome,
    #[error("there is no profile {name:?} under {}: choose one of {known}, or make it with `hermes profile create`", .root.display())]
    NoProfile {
        name: String,
        root: PathBuf,
        /// The existing profiles, separated by commas.
        known: String,
    },
}

/// The values that the command line sets.
#[derive(Debug, Default, Clone)]
pub struct Overrides {
    pub config: Option<PathBuf>,
    pub home: Option<PathBuf>,
    pub profile: Option<String>,
    /// Setting key and raw text, from flags such as `--socket`.
    pub values: Vec<(&'static str, String)>,
}

/// Settings for the chats of all platforms.
#[derive(Debug, Clone)]
pub struct ChatsConfig {
    /// `None` answers messages of any age.
    pub backlog_age: Option<Duration>,
    pub stream: bool,
    /// In bytes.
    pub largest_file: u64,
    /// Directories from which an agent may send files.
    pub send_files_from: Vec<PathBuf>,
    /// The limit for the files of all chats, in bytes. Copies that wait to be sent have the same limit.
    pub files_quota: u64,
    /// `None` never removes files.
    pub files_age: Option<Duration>,
}

#[derive(Debug, Clone)]
pub struct HandoffConfig {
    pub parallel: usize,
    pub pickup_timeout: Duration,
    pub lease: Duration,
    pub orphan_grace: Duration,
    /// `None` switches the poll off.
    pub poll_interval: Option<Duration>,
    pub watch: bool,
}

#[derive(Debug, Clone)]
pub struct ControlConfig {
    pub socket: PathBuf,
    /// The other socket on which a daemon that follows `active_profile` may listen.
    pub sticky_socket: Option<PathBuf>,
    pub group: Option<String>,
    pub max_connections: usize,
    /// `None` never closes idle connections.
    pub idle_timeout: Option<Duration>,
    pub write_timeout: Duration,
}

#[derive(Debug, Clone)]
pub struct AgentConfig {
    pub default: String,
    pub timeouts: Timeouts,
    /// The pause between two words of the echo agent.
    pub echo_pace: Option<Duration>,
    pub openai: Option<OpenAiConfig>,
    pub hermes_python: Option<PathBuf>,
    /// How long an unused agent process stays alive.
    pub idle: Duration,
    /// The program and its arguments.
    pub acp: Option<Vec<String>>,
    pub command: Option<Vec<String>>,
    /// The agents of platforms that have one of their own.
    pub by_platform: BTreeMap<String, String>,
    /// The names of all platforms. Environment variables with their secrets begin with these.
    pub platforms: Vec<&'static str>,
    /// Names of environment variables that hold tokens.
    pub withheld: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct LogConfig {
    pub level: String,
    pub target: String,
}

/// The configuration in force. Built only by [`load`].
#[derive(Debug, Clone)]
pub struct Config {
    pub home: PathBuf,
    /// False if the home is the default one.
    pub home_is_explicit: bool,
    pub control: ControlConfig,
    pub handoff: HandoffConfig,
    pub agent: AgentConfig,
    pub keys: KeyRules,
    pub store: StoreOptions,
    pub drain_timeout: Duration,
    pub log: LogConfig,
    /// Where metrics are served over HTTP, if anywhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Host names that a collector may use there.
    pub metrics_hosts: Vec<String>,
    pub hooks: HooksConfig,
    pub chats: ChatsConfig,
    pub platforms: Vec<PlatformConfig>,
    /// The files that were looked at, with the times of their last changes. `None`: the file did not exist.
    pub files: Vec<(PathBuf, Option<SystemTime>)>,
    schema: &'static Schema,
    resolved: Arc<BTreeMap<String, Resolved>>,
}

impl Config {
    pub fn state_db(&self) -> PathBuf {
        self.home.join("state.db")
    }

    pub fn lock_file(&self) -> PathBuf {
        self.home.join("hermesd.lock")
    }

    pub fn schema(&self) -> &'static Schema {
        self.schema
    }

    pub fn platform(&self, name: &str) -> Option<&PlatformConfig> {
        self.platforms.iter().find(|p| p.name == name)
    }

    /// Settings that are valid but probably a mistake, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        let note =
            |p: &PlatformConfig| Some(format!("{} is off: {}", p.name, p.placeholder_note()?));
        self.platforms.iter().filter_map(note).collect()
    }

    /// The files that have changed since they were read, with the times of the changes.
    pub fn unread(files: &[(PathBuf, Option<SystemTime>)]) -> Vec<(&Path, Option<SystemTime>)> {
        let now = files
            .iter()
            .map(|(path, read)| (path, *read, changed_at(path)));
        now.filter(|(_, read, changed)| read != changed)
            .map(|(path, _, changed)| (path.as_path(), changed))
            .collect()
    }

    /// The keys whose values differ, including keys that only one of the two has.
    pub fn changed(&self, other: &Config) -> Vec<String> {
        let keys = self.schema.settings().iter().map(|setting| &setting.key);
        let value = |config: &Config, key: &String| {
            config
                .resolved
                .get(key)
                .map(|resolved| resolved.value.clone())
        };
        keys.filter(|key| value(self, key) != value(other, key))
            .cloned()
            .collect()
    }

    /// Every setting with the value in force and where it came from, secrets masked.
    pub fn in_force(&self) -> impl Iterator<Item = (&str, Value, &Origin)> {
        self.resolved.iter().map(|(key, r)| {
            let shown = match self.schema.find(key) {
                Some(s) if s.secret => Value::Text("********".into()),
                _ => r.value.masked(),
            };
            (key.as_str(), shown, &r.origin)
        })
    }
}

/// The home that the command line and the environment choose.
pub fn home(
    overrides: &Overrides,
    environment: &BTreeMap<String, String>,
) -> Result<PathBuf, ConfigError> {
    let (home, profile) = (overrides.home.as_deref(), overrides.profile.as_deref());
    paths::home(home, profile, environment).map(|chosen| chosen.path)
}

/// Reads every source and returns the validated configuration.
pub fn load(schema: &'static Schema, overrides: &Overrides) -> Result<Config, ConfigError> {
    load_with(schema, overrides, &environment(schema)?)
}

/// The environment as text. A variable that is not UTF-8 is an error if hermesd reads it, and ignored otherwise.
pub fn environment(schema: &Schema) -> Result<BTreeMap<String, String>, ConfigError> {
    let mut read = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Ok(name) = name.into_string() else {
            continue;
        };
        match value.into_string() {
            Ok(value) => {
                read.insert(name, value);
            }
            Err(_) if paths::VARIABLES.contains(&&*name) || schema.is_variable(&name) => {
                let fault = format!("environment {name}: the value is not UTF-8");
                return Err(ConfigError::Invalid(vec![fault]));
            }
            Err(_) => {}
        }
    }
    Ok(read)
}

/// [`load`] with a given environment, for tests.
pub fn load_with(
    schema: &'static Schema,
    overrides: &Overrides,
    environment: &BTreeMap<String, String>,
) -> Result<Config, ConfigError> {
    let chosen = paths::home(
        overrides.home.as_deref(),
        overrides.profile.as_deref(),
        environment,
    )?;
    let home = &chosen.path;
    // Before they are read: a change in between then counts as a change.
    let files = paths::files(overrides.config.as_deref(), home, environment)
        .into_iter()
        .map(|path| {
            let changed = changed_at(&path);
            (path, changed)
        })
        .collect();
    let mut layers = layers::Layers::new(schema);
    layers.add_flags(&overrides.values);
    layers.add_environment(environment);
    credentials::read(environment, &mut layers)?;
    let own_file = paths::profile_file(overrides.config.as_deref(), home, environment);
    if let Some(path) = own_file.filter(|path| path.is_file()) {
        toml_file::read(&path, &mut layers)?;
    }
    if let Some(path) = paths::config_file(overrides.config.as_deref(), environment) {
        toml_file::read(&path, &mut layers)?;
    }
    add_hermes(home, environment, &mut layers)?;
    build::build(chosen, environment, layers, files)
}

fn changed_at(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}

/// Adds Hermes' files and variables, in Hermes' order.
fn add_hermes(
    home: &Path,
    environment: &BTreeMap<String, String>,
    layers: &mut layers::Layers,
) -> Result<(), ConfigError> {
    let dotenv = home.join(".env");
    let files = hermes::Files::read(home)?;
    let mut variables = variables::Variables::new(environment);
    variables.override_with(&dotenv, dotenv::read(&dotenv, environment)?);
    files.complete(&mut variables);
    files.pick(hermes::Order::BeforeVariables, &variables, layers);
    layers.add_variables(&variables);
    files.pick(hermes::Order::AfterVariables, &variables, layers);
    Ok(())
}
