//! From values that fit their settings to the [`Config`] that the rest of the house reads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use super::access::person_of;
use super::layers::Origin;
use super::mask::masked;
use super::token::is_placeholder;
use super::{
    Access, AgentConfig, BotMessages, ChatRules, ChatsConfig, Config, ConfigError, ControlConfig,
    HandoffConfig, LogConfig, PLATFORMS, PlatformConfig, Resolved, TelegramConfig, Value,
    credentials, layers, settings,
};
use crate::config::OpenAiConfig;
use crate::config::StoreOptions;
use crate::config::paths;
use crate::config::{HOOKS, HooksConfig};
use crate::config::{QuestionTimeouts, Timeouts};
use crate::domain::HomeChannel;
use crate::domain::{KeyRules, WhatsAppIds};

pub(super) fn build(
    chosen: paths::ChosenHome,
    environment: &BTreeMap<String, String>,
    layers: layers::Layers,
) -> Result<Config, ConfigError> {
    let home = chosen.path;
    let resolved = layers.resolve()?;
    let get = Getter(&resolved);
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
            by_platform: PLATFORMS
                .iter()
                .filter_map(|name| {
                    let agent = get.text(&format!("platforms.{name}.agent"))?;
                    Some(((*name).to_owned(), agent))
                })
                .collect(),
            withheld: settings::SETTINGS
                .iter()
                .filter(|setting| setting.secret)
                .flat_map(|setting| std::iter::once(setting.own_env()).chain(setting.env.clone()))
                // Not a token, but the way to them.
                .chain([credentials::DIRECTORY.to_owned()])
                .collect(),
        },
        keys: KeyRules {
            group_per_user: get.flag("sessions.group_per_user"),
            thread_per_user: get.flag("sessions.thread_per_user"),
            multiplex_profiles: get.flag("sessions.multiplex_profiles"),
            profile: paths::profile(&home, environment),
            // Known when the database is open.
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
                .filter_map(|(name, _)| Some((name, get.text(&format!("hooks.{name}"))?)))
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
        platforms: PLATFORMS.iter().map(|name| platform(name, &get)).collect(),
        telegram: TelegramConfig {
            base_url: get.text("platforms.telegram.base_url"),
            messages_per_second: get.integer("platforms.telegram.messages_per_second"),
            poll: get.duration("platforms.telegram.poll"),
            local_files: get
                .text("platforms.telegram.local_files")
                .map(|path| paths::absolute(Path::new(&path), environment))
                .unwrap_or_default(),
        },
        home,
        home_is_explicit: chosen.explicit,
        resolved,
    };
    check_socket_length(&config.control.socket)?;
    Ok(config)
}

/// An endpoint is one that is named, with a model to ask for.
fn openai(get: &Getter) -> Option<OpenAiConfig> {
    Some(OpenAiConfig {
        base_url: get.text("agents.openai.base_url")?,
        api_key: get.text("agents.openai.api_key").map(SecretString::from),
        model: get.text("agents.openai.model")?,
        context: get.integer("agents.openai.context"),
    })
}

/// A program and its arguments, quoted as a shell would have it.
fn words(get: &Getter, key: &str) -> Result<Option<Vec<String>>, ConfigError> {
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

/// An address of this machine alone, unless somebody says that others may look.
fn metrics_listen(get: &Getter) -> Result<Option<SocketAddr>, ConfigError> {
    let Some(text) = get.text("metrics.listen") else {
        return Ok(None);
    };
    let wrong = |why: &str| ConfigError::Invalid(vec![format!("metrics.listen: {text:?} {why}")]);
    let address: SocketAddr = text
        .parse()
        .map_err(|_| wrong("is not an address with a port, such as \"127.0.0.1:9464\""))?;
    if !address.ip().is_loopback() && !get.flag("metrics.allow_remote") {
        return Err(wrong(
            "can be reached from other machines: take a loopback address, or set metrics.allow_remote = true",
        ));
    }
    Ok(Some(address))
}

fn platform(name: &str, get: &Getter) -> PlatformConfig {
    let key = |field: &str| format!("platforms.{name}.{field}");
    let token = get.text(&key("token"));
    let placeholder = token
        .as_deref()
        .filter(|token| is_placeholder(token))
        .and_then(|_| get.origin(&key("token")).cloned());
    let token = token.filter(|_| placeholder.is_none());
    let access = access(name, get);
    let owner = access.owner().map(str::to_owned);
    let home_channel = get.text(&key("home_channel")).map(|chat_id| HomeChannel {
        chat_id,
        name: get.text(&key("home_channel_name")),
        thread_id: get.text(&key("home_channel_thread")),
        owner: owner.or_else(|| get.text(&key("home_channel_user"))),
    });
    // A token in the environment means that the platform is wanted. In its own files Hermes asks for `enabled: true`.
    let wanted = get
        .maybe_flag(&key("enabled"))
        .unwrap_or(token.is_some() && !get.is_of_hermes(&key("token")));
    PlatformConfig {
        name: name.to_owned(),
        enabled: wanted && placeholder.is_none(),
        token: token.map(SecretString::from),
        placeholder,
        home_channel,
        access,
        rules: chat_rules(name, get),
    }
}

/// A platform without one of the settings has its default.
fn chat_rules(name: &str, get: &Getter) -> ChatRules {
    let key = |field: &str| format!("platforms.{name}.{field}");
    let bots = get.text(&key("allow_bots"));
    ChatRules {
        only_chats: get.set(&key("only_chats")),
        ignored_chats: get.set(&key("ignored_chats")),
        require_mention: get.flag(&key("require_mention")),
        free_chats: get.set(&key("free_chats")),
        thread_require_mention: get.flag(&key("thread_require_mention")),
        ignore_mentions_of_others: get.flag(&key("ignore_mentions_of_others")),
        bots: bots.map_or(BotMessages::Never, |word| BotMessages::parse(&word)),
    }
}

fn access(name: &str, get: &Getter) -> Access {
    let key = |field: &str| format!("platforms.{name}.{field}");
    let everywhere = get.set("chats.allowed_users");
    let mut users = get.set(&key("allowed_users"));
    let (mut group_users, mut chats) = (
        get.set(&key("allowed_group_users")),
        get.set(&key("allowed_chats")),
    );
    // Chats were named there once, and their ids look like no person's.
    let named_as_users = group_users.extract_if(.., |id| id.starts_with('-'));
    chats.extend(named_as_users);
    let groups = groups(name, get);
    // Hermes lets the members of a listed group talk where it has no list of people.
    if users.is_empty() && everywhere.is_empty() && is_group_allowlist(name, get) {
        chats.extend(groups.clone().unwrap_or_default());
    }
    let nobody_named =
        users.is_empty() && group_users.is_empty() && chats.is_empty() && everywhere.is_empty();
    users.extend(everywhere);
    let pairing = pairs_strangers(name, get, !users.is_empty());
    Access {
        everyone: get.flag(&key("allow_everyone"))
            || (nobody_named && get.flag("chats.allow_everyone")),
        users,
        group_users,
        chats,
        roles: get.set(&key("allowed_roles")),
        owner: get.text(&key("owner")),
        home_person: get
            .text(&key("home_channel"))
            .and_then(|chat| person_of(name, &chat)),
        trusts_users: get.text(&key("trusted")).as_deref() == Some("allowed_users"),
        groups,
        pairing,
    }
}

/// The groups that are listened to; `None` where all are.
fn groups(platform: &str, get: &Getter) -> Option<BTreeSet<String>> {
    let key = format!("platforms.{platform}.groups");
    let listed = get.set(&key);
    let policy = get.text(&format!("platforms.{platform}.group_policy"));
    match platform {
        "signal" => Some(listed),
        "whatsapp" => Some(match policy.as_deref() {
            Some("open") => BTreeSet::from(["*".to_owned()]),
            // Hermes' own list counts under this policy alone.
            Some("allowlist") => listed,
            _ if get.is_of_hermes(&key) => BTreeSet::new(),
            _ => listed,
        }),
        "whatsapp_cloud" => Some(BTreeSet::new()),
        _ => None,
    }
}

fn is_group_allowlist(platform: &str, get: &Getter) -> bool {
    let policy = get.text(&format!("platforms.{platform}.group_policy"));
    platform == "whatsapp" && policy.as_deref() == Some("allowlist")
}

/// Whether an unknown person gets a code: what is said of this platform, then of all, then Hermes' policy; else only while
/// there are no allowed users.
fn pairs_strangers(platform: &str, get: &Getter, has_users: bool) -> bool {
    let own = get.text(&format!("platforms.{platform}.strangers"));
    let all = get.text("chats.strangers");
    // In Hermes' files only a refusal holds for all platforms.
    let all = all.filter(|word| word == "ignore" || !get.is_of_hermes("chats.strangers"));
    if let Some(word) = own.or(all) {
        return word == "pair";
    }
    match get
        .text(&format!("platforms.{platform}.dm_policy"))
        .as_deref()
    {
        Some("pairing") => true,
        Some("allowlist" | "disabled") => false,
        // Hermes has no pairing there.
        _ if platform == "whatsapp_cloud" => false,
        _ => !has_users,
    }
}

fn files_from(environment: &BTreeMap<String, String>, get: &Getter) -> Vec<PathBuf> {
    let named = get.set("chats.send_files_from").into_iter();
    named
        .map(|path| paths::absolute(Path::new(&path), environment))
        .chain([std::env::temp_dir()])
        .collect()
}

/// The kernel's limit for a socket's path; past it `bind` fails with a message that names neither.
fn check_socket_length(path: &Path) -> Result<(), ConfigError> {
    let length = path.as_os_str().len();
    if length <= 107 {
        return Ok(());
    }
    Err(ConfigError::Invalid(vec![format!(
        "control.socket: {} is {length} bytes long and a Unix socket's path may have 107: set control.socket to a shorter one",
        path.display()
    )]))
}

/// Typed look-ups; every value was checked against its setting's kind when it was resolved.
struct Getter<'a>(&'a BTreeMap<String, Resolved>);

impl Getter<'_> {
    fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).map(|r| &r.value)
    }

    fn text(&self, key: &str) -> Option<String> {
        match self.value(key) {
            Some(Value::Text(text)) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    fn origin(&self, key: &str) -> Option<&Origin> {
        self.0.get(key).map(|r| &r.origin)
    }

    /// Whether the value is from Hermes' `config.yaml` or `gateway.json`.
    fn is_of_hermes(&self, key: &str) -> bool {
        matches!(self.origin(key), Some(Origin::Hermes { .. }))
    }

    fn maybe_flag(&self, key: &str) -> Option<bool> {
        match self.value(key) {
            Some(Value::Flag(flag)) => Some(*flag),
            _ => None,
        }
    }

    fn flag(&self, key: &str) -> bool {
        self.maybe_flag(key).unwrap_or_default()
    }

    fn set(&self, key: &str) -> BTreeSet<String> {
        match self.value(key) {
            Some(Value::List(items)) => items.iter().cloned().collect(),
            _ => BTreeSet::new(),
        }
    }

    fn integer(&self, key: &str) -> usize {
        match self.value(key) {
            Some(Value::Integer(n)) => usize::try_from(*n).unwrap_or_default(),
            _ => 0,
        }
    }

    fn duration(&self, key: &str) -> Duration {
        match self.value(key) {
            Some(Value::Duration(d)) => *d,
            _ => Duration::ZERO,
        }
    }

    fn duration_or_off(&self, key: &str) -> Option<Duration> {
        Some(self.duration(key)).filter(|d| !d.is_zero())
    }
}
