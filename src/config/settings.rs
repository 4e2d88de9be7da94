//! The one list of settings. Key, kind, default, names in the environment and in Hermes' files, and help.

use std::sync::LazyLock;
use std::time::Duration;

use super::platform_settings::add_platform;
pub use super::value::{Kind, parse_duration};
use super::{PLATFORMS, hermes_names};
use crate::config::HOOKS;

pub struct Setting {
    pub key: String,
    pub kind: Kind,
    /// As it would be written in the TOML file; `None` when unset means "not configured".
    pub default: Option<String>,
    /// Hermes' own environment names; `HERMESD_<KEY>` always works beside them.
    pub env: Vec<String>,
    /// Where Hermes' `config.yaml` and `gateway.json` have it, the first that is present wins: dotted paths, and for a setting
    /// of a platform paths within the platform's blocks (see `platform_blocks`).
    pub hermes: Vec<String>,
    pub secret: bool,
    pub help: String,
}

/// How hermesd's own names in the environment begin.
pub(super) const OWN_PREFIX: &str = "HERMESD_";

impl Setting {
    /// The environment name that follows from the key.
    pub fn own_env(&self) -> String {
        format!(
            "{OWN_PREFIX}{}",
            self.key.to_ascii_uppercase().replace('.', "_")
        )
    }
}

pub static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(all);

pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.key == key)
}

/// Keys that older versions had and that mean nothing any more. They are ignored.
pub(super) const RETIRED: [&str; 1] = ["store.accept_newer_schema"];

/// Whether a setting is read from this variable of the environment.
pub(super) fn is_variable(name: &str) -> bool {
    SETTINGS
        .iter()
        .any(|setting| setting.own_env() == name || setting.env.iter().any(|env| env == name))
}

/// The known key or section that is spelled most like this one.
pub fn nearest(key: &str) -> Option<&'static str> {
    let sections = SETTINGS
        .iter()
        .filter_map(|s| Some(s.key.rsplit_once('.')?.0));
    SETTINGS
        .iter()
        .map(|s| s.key.as_str())
        .chain(sections)
        .map(|known| (strsim::damerau_levenshtein(key, known), known))
        .min()
        .filter(|(distance, known)| *distance <= known.len().max(key.len()) / 2)
        .map(|(_, known)| known)
}

pub(super) const SECOND: Duration = Duration::from_secs(1);
const TENTH: Duration = Duration::from_millis(100);

fn all() -> Vec<Setting> {
    let mut list = Vec::new();
    let mut add = |key: &str, kind: Kind, default: Option<&str>, help: &str| {
        list.push(Setting {
            key: key.into(),
            kind,
            default: default.map(str::to_owned),
            env: Vec::new(),
            hermes: Vec::new(),
            secret: false,
            help: help.into(),
        });
    };
    let time = |min| Kind::Duration {
        min,
        zero_is_off: false,
    };
    let time_or_off = |min| Kind::Duration {
        min,
        zero_is_off: true,
    };

    add(
        "control.socket",
        Kind::Text,
        None,
        "Path of the control socket.",
    );
    add(
        "control.group",
        Kind::Text,
        None,
        "Unix group whose members may use the control socket besides the owner and root. The socket then has to be outside of the home.",
    );
    add(
        "control.max_connections",
        Kind::Integer { min: 1, max: 4096 },
        Some("64"),
        "Connections to the control socket at one time.",
    );
    add(
        "control.idle_timeout",
        time_or_off(TENTH),
        Some("10m"),
        "A connection that waits for nothing is closed after this time; 0 keeps it.",
    );
    add(
        "control.write_timeout",
        time(TENTH),
        Some("10s"),
        "A client that does not read its answers is dropped after this time.",
    );

    add(
        "handoff.parallel",
        Kind::Integer { min: 1, max: 1024 },
        Some("16"),
        "Handoffs that run at one time.",
    );
    add(
        "handoff.pickup_timeout",
        time(SECOND),
        Some("60s"),
        "How long a handoff waits for a platform that is still connecting.",
    );
    add(
        "handoff.lease",
        time(SECOND),
        Some("30s"),
        "How long a claim stays with an owner that gives no sign of life.",
    );
    add(
        "handoff.orphan_grace",
        time(TENTH),
        Some("2m"),
        "How long a running handoff without an owner of ours is left alone before it is taken over.",
    );
    add(
        "handoff.poll_interval",
        time_or_off(TENTH),
        Some("2s"),
        "How often the database is looked at even when nothing woke the queue; 0 never.",
    );
    add(
        "handoff.watch",
        Kind::Flag,
        Some("true"),
        "Notice other programs' writes at once, by inotify on the write-ahead log.",
    );

    add(
        "agent.default",
        Kind::Choice(&["auto", "hermes", "openai", "acp", "command", "echo"]),
        Some("auto"),
        "The agent that answers. auto takes hermes where a Hermes is installed, else openai where an endpoint is known, else echo.",
    );
    add(
        "agent.timeout",
        time(SECOND),
        Some("10m"),
        "The longest that one turn of an agent may take.",
    );
    add(
        "agent.first_token_timeout",
        time_or_off(SECOND),
        Some("2m"),
        "How long an agent may take to its first sign of life; 0 leaves it to agent.timeout.",
    );
    add(
        "agent.silence_timeout",
        time_or_off(SECOND),
        Some("5m"),
        "How long an agent may be silent in the middle of an answer; 0 leaves it to agent.timeout.",
    );
    add(
        "agent.turn_lease_timeout",
        time_or_off(SECOND),
        Some("30m"),
        "How long a message waits while another program, such as Hermes, has a turn of the same conversation. After that it is refused; 0 refuses it at once.",
    );
    add(
        "agent.question_timeout",
        Kind::DurationOrNever { min: SECOND },
        Some("5m"),
        "How long a person may take to answer an agent's question; after that the answer is no. never waits until it is answered or stopped.",
    );
    add(
        "agent.question_reminder",
        time_or_off(SECOND),
        Some("1h"),
        "A question that is open for this time in a chat is shown there once more; 0 never.",
    );
    add(
        "agent.echo_pace",
        time_or_off(Duration::from_millis(1)),
        Some("0"),
        "How long the embedded echo agent pauses between two words, to try out what streams; 0 answers at once.",
    );

    add(
        "agents.idle_timeout",
        time(SECOND),
        Some("15m"),
        "An agent's process that is not needed for this long ends. So does each session that Hermes has open.",
    );
    add(
        "agents.hermes.python",
        Kind::Text,
        None,
        "The Python interpreter of a Hermes install; unset, that of the program hermes on the path.",
    );
    add(
        "agents.openai.base_url",
        Kind::Text,
        None,
        "The OpenAI-compatible endpoint, up to and with its version: https://host/v1.",
    );
    add(
        "agents.openai.api_key",
        Kind::Text,
        None,
        "The key for that endpoint, if it wants one.",
    );
    add(
        "agents.openai.model",
        Kind::Text,
        None,
        "The model to ask for.",
    );
    add(
        "agents.openai.context",
        Kind::Integer {
            min: 1000,
            max: 100_000_000,
        },
        Some("128000"),
        "Tokens that the model takes, history and reply together; of a longer history the beginning is left out, and the person is informed when that begins.",
    );
    add(
        "agents.acp.command",
        Kind::Text,
        None,
        "The program that speaks the Agent Client Protocol, with its arguments; no shell reads it.",
    );
    add(
        "agents.command.command",
        Kind::Text,
        None,
        "The program that answers, with its arguments; no shell reads it.",
    );

    add(
        "sessions.group_per_user",
        Kind::Flag,
        Some("true"),
        "In a group without threads, each person has a session of their own.",
    );
    add(
        "sessions.thread_per_user",
        Kind::Flag,
        Some("false"),
        "In a thread, each person has a session of their own.",
    );
    add(
        "sessions.multiplex_profiles",
        Kind::Flag,
        Some("false"),
        "Named profiles keep their sessions apart.",
    );

    add(
        "store.journal_mode",
        Kind::Choice(&["wal", "delete"]),
        Some("wal"),
        "The journal mode of a state.db that hermesd creates. A file that exists keeps its own.",
    );
    add(
        "store.cjk_index",
        Kind::Flag,
        Some("true"),
        "Keep Hermes' index for Chinese, Japanese and Korean, where a state.db has it.",
    );
    add(
        "store.cjk_library",
        Kind::Text,
        None,
        "The library that this index needs. By default lib/libfts5_cjk.so in the home.",
    );
    add(
        "daemon.drain_timeout",
        time(TENTH),
        Some("20s"),
        "The longest that a stop may take. Work in progress goes on until shortly before.",
    );
    add(
        "log.level",
        Kind::Text,
        Some("info"),
        "error, warn, info, debug or trace; or a filter such as \"info,hermesd::handoff=debug\".",
    );
    add(
        "log.target",
        Kind::Choice(&["auto", "journal", "stderr"]),
        Some("auto"),
        "Where the log goes; auto takes the journal under systemd.",
    );
    add(
        "metrics.listen",
        Kind::Text,
        None,
        "Address and port at which metrics are served over HTTP, such as \"127.0.0.1:9464\"; GET /metrics.",
    );
    add(
        "metrics.allow_remote",
        Kind::Flag,
        Some("false"),
        "Allow metrics.listen to be an address that other machines can reach. Anybody there can read the numbers.",
    );
    add(
        "metrics.hosts",
        Kind::List,
        None,
        "Names under which a collector asks for metrics, if it uses neither the address nor a loopback name. A request with another Host is refused.",
    );

    add(
        "chats.allowed_users",
        Kind::List,
        None,
        "Ids of people who may talk to the agent on any platform.",
    );
    add(
        "chats.allow_everyone",
        Kind::Flag,
        Some("false"),
        "Anybody may talk to the agent, on platforms that name nobody who may.",
    );
    add(
        "chats.strangers",
        Kind::Choice(&["pair", "ignore"]),
        None,
        "What unknown people get in private chats of platforms that do not say so themselves.",
    );
    add(
        "chats.backlog_age",
        time_or_off(SECOND),
        Some("12h"),
        "Messages that waited longer than this for a daemon to be there are not answered, and the chat is told; 0 answers all.",
    );
    add(
        "chats.stream",
        Kind::Flag,
        Some("true"),
        "Show an answer while it is being written, where a platform lets messages be changed.",
    );
    add(
        "chats.largest_file",
        Kind::Integer { min: 1, max: 2000 },
        Some("20"),
        "The largest file in megabytes that is taken from a chat or sent to one.",
    );
    add(
        "chats.send_files_from",
        Kind::List,
        None,
        "Directories from which an agent may send files, besides the session's own, the temporary one and what this chat has sent. Neither / nor your home directory can be one.",
    );
    add(
        "chats.files_quota",
        Kind::Integer {
            min: 1,
            max: 1_000_000,
        },
        Some("1000"),
        "How many megabytes of files from chats are kept. Above it the chat that holds most loses its oldest files.",
    );
    add(
        "chats.files_age",
        time_or_off(SECOND),
        Some("30d"),
        "Files from chats are removed after this; 0 keeps them.",
    );

    for (hook, when) in HOOKS {
        let help = format!(
            "Program to run when {when}. It gets JSON on standard input and the same in the environment."
        );
        add(&format!("hooks.{hook}"), Kind::Text, None, &help);
    }
    add(
        "hooks.timeout",
        time(TENTH),
        Some("30s"),
        "A hook that takes longer is killed.",
    );

    for platform in PLATFORMS {
        add_platform(&mut list, platform);
    }
    hermes_names::add(&mut list);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `contrib/hermesd.toml`, as it has to be: every setting with its help, what it takes and its default.
    fn example() -> String {
        let mut text = String::from(
            "# Every setting of hermesd with its default. None has to be set; uncomment what you want to change.\n\
             # This file beats Hermes' .env, variables and config.yaml. HERMESD_ variables and credentials beat this file.\n",
        );
        let mut section = "";
        for setting in SETTINGS.iter() {
            let (table, name) = setting.key.rsplit_once('.').expect("a section");
            if table != section {
                text.push_str(&format!("\n[{table}]\n"));
                section = table;
            }
            let default = match (&setting.default, setting.kind) {
                (None, Kind::Flag) => "true".to_owned(),
                (None, Kind::List) => "[]".to_owned(),
                (None, _) => "\"\"".to_owned(),
                (Some(value), Kind::Flag | Kind::Integer { .. }) => value.clone(),
                (Some(value), _) => format!("{value:?}"),
            };
            let unset = if setting.default.is_none() {
                " Unset by default."
            } else {
                ""
            };
            let env: Vec<String> = std::iter::once(setting.own_env())
                .chain(setting.env.clone())
                .collect();
            text.push_str(&format!(
                "# {} Takes {}.{unset}\n",
                setting.help,
                setting.kind.describe()
            ));
            text.push_str(&format!(
                "# Environment: {}\n# {name} = {default}\n",
                env.join(", ")
            ));
        }
        text
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

    #[test]
    fn a_misspelt_key_finds_its_neighbour_and_nonsense_finds_none() {
        assert_eq!(nearest("handoff.paralel"), Some("handoff.parallel"));
        assert_eq!(nearest("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"), None);
    }

    #[test]
    fn every_default_fits_its_kind() {
        for setting in SETTINGS.iter() {
            if let Some(default) = &setting.default {
                let raw = crate::config::value::Raw::Text(default.clone());
                assert!(setting.kind.parse(&raw, true).is_some(), "{}", setting.key);
            }
        }
    }
}
