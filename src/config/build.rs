//! Builds the [`Config`] from checked values.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::layers::{Layers, Resolved};
use super::mask::masked;
use super::paths;
use super::settings::{Kind, Schema};
use super::value::Value;
use super::values::SettingValues;
use super::{
    AgentConfig, ChatsConfig, Config, ConfigError, ControlConfig, HOOKS, HandoffConfig,
    HooksConfig, LogConfig, OpenAiConfig, PlatformConfig, QuestionTimeouts, StoreOptions, Timeouts,
    credentials,
};
use crate::domain::{KeyRules, WhatsAppIds};

pub(super) fn build(
    chosen: paths::ChosenHome,
    environment: &BTreeMap<String, String>,
    layers: Layers,
    files: Vec<(PathBuf, Option<SystemTime>)>,
) -> Result<Config, ConfigError> {
    let home = chosen.path;
    let schema = layers.schema;
    let mut resolved = layers.resolve()?;
    make_paths_absolute(schema, &mut resolved, environment);
    let resolved = Arc::new(resolved);
    let get = SettingValues::new(&resolved);
    let socket = get.text("control.socket").map(PathBuf::from);
    let config = Config {
        control: ControlConfig {
            socket: socket
                .map(|path| paths::absolute(&path, environment))
                .unwrap_or_else(|| paths::default_socket(&home, environment)),
            sticky_socket: chosen
                .sticky
                .then(|| paths::sticky_socket(environment))
                .flatten(),
            group: get.text("control.group"),
            max_connections: get.integer("control.max_connections"),
            idle_timeout: get.duration_or_off("control.idle_timeout"),
            write_timeout: get.duration("control.write_timeout"),
        },
        handoff: HandoffConfig {
            parallel: get.integer("handoff.parallel"),
            pickup_timeout: get.duration("handoff.pickup_timeout"),
            lease: get.duration("handoff.lease"),
            orphan_grace: get.duration("handoff.orphan_grace"),
            poll_interval: get.duration_or_off("handoff.poll_interval"),
            watch: get.flag("handoff.watch"),
        },
        agent: AgentConfig {
            default: get.text("agent.default").unwrap_or_default(),
            timeouts: Timeouts {
                whole: get.duration("agent.timeout"),
                first: get.duration_or_off("agent.first_token_timeout"),
                silence: get.duration_or_off("agent.silence_timeout"),
                question: QuestionTimeouts {
                    answer: get.duration_or_off("agent.question_timeout"),
                    reminder: get.duration_or_off("agent.question_reminder"),
                },
                lease: get
                    .duration_or_off("agent.turn_lease_timeout")
                    .unwrap_or_default(),
            },
            echo_pace: get.duration_or_off("agent.echo_pace"),
            openai: openai(&get),
            hermes_python: get.text("agents.hermes.python").map(PathBuf::from),
            idle: get.duration("agents.idle_timeout"),
            acp: words(&get, "agents.acp.command")?,
            command: words(&get, "agents.command.command")?,
            by_platform: schema
                .descriptors()
                .iter()
                .filter_map(|platform| {
                    let agent = get.of_platform(platform.name).text("agent")?;
                    Some((platform.name.to_owned(), agent))
                })
                .collect(),
            platforms: schema.descriptors().iter().map(|p| p.name).collect(),
            withheld: schema
                .settings()
                .iter()
                .filter(|setting| setting.secret)
                .flat_map(|setting| std::iter::once(setting.own_env()).chain(setting.env.clone()))
                // Not a token, but the directory of tokens.
                .chain([credentials::DIRECTORY.to_owned()])
                .collect(),
        },
        keys: KeyRules {
            group_per_user: get.flag("sessions.group_per_user"),
            thread_per_user: get.flag("sessions.thread_per_user"),
            multiplex_profiles: get.flag("sessions.multiplex_profiles"),
            profile: paths::profile(&home, environment),
            // Set when the database is open.
            slack_workspace: false,
            whatsapp: WhatsAppIds::of_home(&home),
        },
        store: StoreOptions {
            create_in_wal: get.text("store.journal_mode").as_deref() != Some("delete"),
            cjk_library: get.flag("store.cjk_index").then(|| {
                let named = get.text("store.cjk_library");
                let named = named.map(|path| paths::absolute(Path::new(&path), environment));
                named.unwrap_or_else(|| home.join("lib/libfts5_cjk.so"))
            }),
            profile: paths::profile(&home, environment),
        },
        drain_timeout: get.duration("daemon.drain_timeout"),
        log: LogConfig {
            level: get.text("log.level").unwrap_or_default(),
            target: get.text("log.target").unwrap_or_default(),
        },
        metrics_listen: metrics_listen(&get)?,
        metrics_hosts: get.set("metrics.hosts").into_iter().collect(),
        hooks: HooksConfig {
            programs: HOOKS
                .into_iter()
                .filter_map(|name| Some((name, get.text(&format!("hooks.{name}"))?)))
                .collect(),
            timeout: get.duration("hooks.timeout"),
        },
        chats: ChatsConfig {
            backlog_age: get.duration_or_off("chats.backlog_age"),
            stream: get.flag("chats.stream"),
            largest_file: get.integer("chats.largest_file") as u64 * 1_000_000,
            send_files_from: files_from(environment, &get),
            files_quota: get.integer("chats.files_quota") as u64 * 1_000_000,
            files_age: get.duration_or_off("chats.files_age"),
        },
        platforms: schema
            .descriptors()
            .iter()
            .map(|descriptor| PlatformConfig::new(descriptor, &get))
            .collect(),
        files,
        home,
        home_is_explicit: chosen.explicit,
        schema,
        resolved,
    };
    check_socket_length(&config.control.socket)?;
    Ok(config)
}

/// Otherwise a relative path would depend on the working directory.
fn make_paths_absolute(
    schema: &Schema,
    resolved: &mut BTreeMap<String, Resolved>,
    environment: &BTreeMap<String, String>,
) {
    for setting in schema.settings().iter().filter(|s| s.kind == Kind::Path) {
        if let Some(Resolved {
            value: Value::Text(path),
            ..
        }) = resolved.get_mut(&setting.key)
        {
            *path = paths::absolute(Path::new(path), environment)
                .display()
                .to_string();
        }
    }
}

/// An endpoint needs an address and a model.
fn openai(get: &SettingValues) -> Option<OpenAiConfig> {
    Some(OpenAiConfig {
        base_url: get.text("agents.openai.base_url")?,
        api_key: get.secret("agents.openai.api_key"),
        model: get.text("agents.openai.model")?,
        context: get.integer("agents.openai.context"),
    })
}

/// A program and its arguments, split as a shell does.
fn words(get: &SettingValues, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
    let Some(text) = get.text(key) else {
        return Ok(None);
    };
    match shlex::split(&text).filter(|words| !words.is_empty()) {
        Some(words) => Ok(Some(words)),
        None => Err(ConfigError::Invalid(vec![format!(
            "{key}: a quote is not closed in {:?}",
            masked(&text)
        )])),
    }
}

/// Accepts only a loopback address, unless `metrics.allow_remote` is set.
fn metrics_listen(get: &SettingValues) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(text) = get.text("metrics.listen") else {
        return Ok(None);
    };
    let wrong = |why: &str| ConfigError::Invalid(vec![format!("metrics.listen: {text:?} {why}")]);
    let address: SocketAddr = text
        .parse()
        .map_err(|_| wrong("is not an address with a port, such as \"127.0.0.1:9464\""))?;
    if !address.ip().is_loopback() && !get.flag("metrics.allow_remote") {
        return Err(wrong(
            "can be reached from other machines: use a loopback address, or set metrics.allow_remote = true",
        ));
    }
    Ok(Some(address))
}

fn files_from(environment: &BTreeMap<String, String>, get: &SettingValues) -> Vec<PathBuf> {
    let named = get.set("chats.send_files_from").into_iter();
    named
        .map(|path| paths::absolute(Path::new(&path), environment))
        .chain([std::env::temp_dir()])
        .collect()
}

/// Checks the kernel's limit for socket paths: the error of `bind` names neither the path nor the limit.
fn check_socket_length(path: &Path) -> Result<(), ConfigError> {
    let length = path.as_os_str().len();
    if length <= 107 {
        return Ok(());
    }
    Err(ConfigError::Invalid(vec![format!(
        "control.socket: {} is {length} bytes long, but a Unix socket's path may have at most 107: set a shorter path",
        path.display()
    )]))
}
