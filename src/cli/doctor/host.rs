//! Files, database, disk and daemon.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

use crate::cli::CliError;
use crate::client::Client;
use crate::config::{Config, Origin, PlatformConfig, paths};
use crate::home_files::live_gateway;
use crate::platform::Finding;
use crate::store::{OpenMode, REBUILD, Store, StoreError};

/// With less than this, in bytes, a conversation may soon find the disk full.
const LITTLE_SPACE: u64 = 200_000_000;

/// Platforms that are off because nobody has filled in their token.
pub(super) fn placeholders(config: &Config) -> Vec<Finding> {
    let finding = |platform: &PlatformConfig| {
        let detail = format!("off: {}", platform.placeholder_note()?);
        let remedy = format!(
            "replace it, or remove it if you do not use {}",
            platform.name
        );
        Some(Finding::bad(&platform.name, detail, remedy))
    };
    config.platforms.iter().filter_map(finding).collect()
}

/// Files that hold secrets are for their owner alone.
pub(super) fn secrets(config: &Config) -> Vec<Finding> {
    let secret = |key: &str| {
        config
            .schema()
            .find(key)
            .is_some_and(|setting| setting.secret)
    };
    let files: BTreeSet<PathBuf> = config
        .in_force()
        .filter(|(key, ..)| secret(key))
        .filter_map(|(_, _, origin)| file_of(origin))
        .collect();
    files.into_iter().map(|path| mode(&path)).collect()
}

fn file_of(origin: &Origin) -> Option<PathBuf> {
    match origin {
        Origin::Toml { path, .. }
        | Origin::DotEnv { path, .. }
        | Origin::YamlVariable { path, .. }
        | Origin::Hermes { path, .. } => Some(path.clone()),
        _ => None,
    }
}

fn mode(path: &Path) -> Finding {
    let shown = path.display();
    match path.metadata() {
        Ok(file) if file.permissions().mode() & 0o077 != 0 => Finding::bad(
            "secrets",
            format!("others can read {shown}, which has a token in it"),
            format!("chmod 600 {shown}"),
        ),
        Ok(_) => Finding::good("secrets", format!("{shown} is for its owner alone")),
        Err(error) => Finding::bad("secrets", format!("{shown}: {error}"), "look at the file"),
    }
}

/// The home holds conversations and what people sent along.
pub(super) fn modes(home: &Path) -> Vec<Finding> {
    let Some(at_home) = others_can(home) else {
        return Vec::new();
    };
    let shown = home.display();
    let mut found = vec![if at_home {
        Finding::bad(
            "home",
            format!("other users can look into {shown}"),
            format!("chmod 700 {shown}"),
        )
    } else {
        Finding::good("home", format!("{shown} is for its owner alone"))
    }];
    for (what, names) in PRIVATE {
        let open: Vec<PathBuf> = names
            .iter()
            .map(|name| home.join(name))
            .filter(|path| others_can(path) == Some(true))
            .collect();
        let Some(first) = open.first() else { continue };
        let detail = format!("other users may read {}", first.display());
        let all: Vec<String> = open.iter().map(|path| path.display().to_string()).collect();
        let remedy = format!("chmod go-rwx {}", all.join(" "));
        found.push(if at_home {
            Finding::bad(what, detail, remedy)
        } else {
            let detail = format!("{detail}, were it not for the mode of the home");
            Finding::doubtful(what, detail, remedy)
        });
    }
    found
}

/// What is private in a home, by what it is.
const PRIVATE: [(&str, &[&str]); 3] = [
    (
        "database mode",
        &["state.db", "state.db-wal", "state.db-shm"],
    ),
    ("files mode", &["files", "outgoing"]),
    ("logs mode", &["logs"]),
];

/// Whether the group or others may do anything with it. `None`: it is not there.
fn others_can(path: &Path) -> Option<bool> {
    let facts = path.metadata().ok()?;
    Some(facts.permissions().mode() & 0o077 != 0)
}

/// Also returns whether the database can be opened.
pub(super) async fn database(config: &Config) -> (Vec<Finding>, bool) {
    let path = config.state_db();
    let shown = path.display().to_string();
    match Store::open(&config.home, OpenMode::Existing, &config.store) {
        Ok(store) => {
            let stale = store.index_is_stale().await.unwrap_or_default();
            let mut findings = Vec::new();
            if store.cjk_index_is_off().await.unwrap_or_default() {
                findings.push(Finding::doubtful(
                    "CJK index",
                    "the index for Chinese, Japanese and Korean is out of use, since its library could not be loaded",
                    "put libfts5_cjk.so into its place (store.cjk_library), for you alone to write, and run `hermes sessions optimize-storage`",
                ));
            }
            let found = match store.check().await {
                _ if stale => Finding::doubtful(
                    "database",
                    format!("the full-text index of {shown} was damaged and is out of use"),
                    format!("{REBUILD}: search is slow until then"),
                ),
                Ok(Some(damage)) if damage.contains("FTS5 table") => Finding::bad(
                    "database",
                    format!("the full-text index of {shown} is damaged: {damage}"),
                    REBUILD,
                ),
                Ok(None) => {
                    let count = store.session_count().await.unwrap_or_default();
                    Finding::good(
                        "database",
                        format!("{shown} is sound, with {count} sessions"),
                    )
                }
                Ok(Some(damage)) => Finding::bad(
                    "database",
                    format!("{shown} is damaged: {damage}"),
                    "restore a backup, or recover it with sqlite3's .recover",
                ),
                Err(error) => Finding::bad("database", error.to_string(), "try again in a moment"),
            };
            findings.insert(0, found);
            (findings, true)
        }
        Err(StoreError::Missing { .. }) => {
            let detail = format!("{shown} is not there yet");
            let remedy = "nothing: hermesd makes it when it first starts";
            (vec![Finding::doubtful("database", detail, remedy)], false)
        }
        Err(error) => {
            let found = Finding::bad("database", error.to_string(), "see above");
            (vec![found], false)
        }
    }
}

pub(super) fn disk(home: &Path) -> Vec<Finding> {
    let Ok(disk) = statvfs(home) else {
        return Vec::new();
    };
    let free = disk.blocks_available() * disk.fragment_size();
    let shown = format!("{} MB are free", free / 1_000_000);
    vec![if free < LITTLE_SPACE {
        Finding::doubtful(
            "disk",
            shown,
            format!("make room where {} is", home.display()),
        )
    } else {
        Finding::good("disk", shown)
    }]
}

pub(super) fn daemon(config: &Config, daemon: &Result<Option<Client>, CliError>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(pid) = live_gateway(&config.home) {
        found.push(Finding::bad(
            "Hermes gateway",
            format!("one runs on this home (process id {pid}); both would claim the same handoffs and the same bot"),
            "stop it with `hermes gateway stop`, and let hermesd start: its chats, homes and allowed people are taken over as they are",
        ));
    }
    found.push(match daemon {
        Ok(Some(client)) => {
            let server = client.server();
            let detail = format!(
                "hermesd {} answers (process id {})",
                server.version, server.pid
            );
            if server.version == crate::VERSION {
                Finding::good("daemon", detail)
            } else {
                let detail = format!("{detail}, and this is hermesctl {}", crate::VERSION);
                Finding::doubtful("daemon", detail, "restart hermesd after an upgrade")
            }
        }
        Ok(None) => Finding::bad(
            "daemon",
            format!("none serves {}", config.home.display()),
            format!(
                "start it with `systemctl --user start {}`, or `hermesd` in another terminal",
                paths::unit_of(&config.home)
            ),
        ),
        Err(error) => Finding::bad(
            "daemon",
            error.to_string(),
            error.hint().unwrap_or("see hermesctl --socket"),
        ),
    });
    found
}
