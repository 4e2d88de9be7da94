//! Checks files, database, disk and daemon.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::{AccessFlags, access};

use crate::cli::CliError;
use crate::client::Client;
use crate::config::{Config, Origin, PlatformConfig, paths};
use crate::executable;
use crate::home_files::live_gateway;
use crate::platform::Finding;
use crate::store::{OpenMode, REBUILD, Store, StoreError};

/// With fewer free bytes than this, the disk may soon be full.
const LITTLE_SPACE: u64 = 200_000_000;
/// With fewer, the next picture or transcript may not fit.
const NEARLY_NONE: u64 = 20_000_000;

/// Platforms that are off because their token is still a placeholder.
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

/// Only their owner may read files that hold secrets.
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
            format!("others can read {shown}, which contains a token"),
            format!("chmod 600 {shown}"),
        ),
        Ok(_) => Finding::good("secrets", format!("only its owner can read {shown}")),
        Err(error) => Finding::bad("secrets", format!("{shown}: {error}"), "check the file"),
    }
}

/// The home holds messages and the files of people.
pub(super) fn modes(home: &Path) -> Vec<Finding> {
    let Some(at_home) = others_can(home) else {
        return Vec::new();
    };
    let shown = home.display();
    let mut found = vec![if at_home {
        Finding::bad(
            "home",
            format!("other users can open {shown}"),
            format!("chmod 700 {shown}"),
        )
    } else {
        Finding::good("home", format!("only its owner can open {shown}"))
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
            let detail = format!("{detail}: only the mode of the home prevents it");
            Finding::doubtful(what, detail, remedy)
        });
    }
    found
}

/// The private files of a home, by their kind.
const PRIVATE: [(&str, &[&str]); 3] = [
    (
        "database mode",
        &["state.db", "state.db-wal", "state.db-shm"],
    ),
    ("files mode", &["files", "outgoing"]),
    ("logs mode", &["logs"]),
];

/// Whether the group or others have any access. `None` if the path does not exist.
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
                    "the index for Chinese, Japanese and Korean is off, because its library could not be loaded",
                    "install libfts5_cjk.so (see store.cjk_library) so that only you can write it, and run `hermes sessions optimize-storage`",
                ));
            }
            let found = match store.check().await {
                _ if stale => Finding::doubtful(
                    "database",
                    format!("the full-text index of {shown} was damaged and is off"),
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
            let detail = format!("{shown} does not exist yet");
            let remedy = "nothing to do: hermesd creates it at its first start";
            (vec![Finding::doubtful("database", detail, remedy)], false)
        }
        Err(error) => {
            let found = Finding::bad("database", error.to_string(), "see above");
            (vec![found], false)
        }
    }
}

pub(super) fn disk(home: &Path) -> Vec<Finding> {
    let Some(disk) = existing(home).and_then(|path| statvfs(path).ok()) else {
        return Vec::new();
    };
    let free = disk.blocks_available() * disk.fragment_size();
    let shown = format!("{} free", size(free));
    let remedy = format!("free some space on the disk of {}", home.display());
    vec![match free {
        0..NEARLY_NONE => Finding::bad(
            "disk",
            format!("{shown}: soon no message can be stored"),
            remedy,
        ),
        NEARLY_NONE..LITTLE_SPACE => Finding::doubtful("disk", shown, remedy),
        LITTLE_SPACE.. => Finding::good("disk", shown),
    }]
}

/// A size for people (`83 GB`).
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        1_000_000_000..10_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// Whether hermesd, started by this user, could keep its files in the home. Empty if it could.
pub(super) fn unwritable(home: &Path) -> Vec<Finding> {
    let shown = home.display();
    let detail = match existing(home) {
        Some(path) if !path.is_dir() => format!(
            "{shown} cannot be created: {} is not a directory",
            path.display()
        ),
        Some(path) => match access(path, AccessFlags::W_OK | AccessFlags::X_OK) {
            Ok(()) => return Vec::new(),
            Err(error) if path == home => {
                format!("{shown} cannot be written: {}", error.desc())
            }
            Err(error) => format!(
                "{shown} cannot be created in {}: {}",
                path.display(),
                error.desc()
            ),
        },
        None => format!("{shown} cannot be created"),
    };
    let remedy = "choose another home with --home or HERMES_HOME, or let your user write there";
    vec![Finding::bad("home", detail, remedy)]
}

/// The path itself, or the nearest directory above it that exists.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors()
        .find(|path| path.symlink_metadata().is_ok())
}

/// Hooks whose program cannot be started. An event that no program hears of is lost.
pub(super) fn hooks(config: &Config) -> Vec<Finding> {
    let programs = config.hooks.programs.iter();
    let finding = |(name, program): (&&str, &String)| {
        let remedy = format!("correct hooks.{name}, or `chmod +x` the program");
        Some(Finding::bad(
            "hooks",
            format!("{name}: {}", executable::missing(program)?),
            remedy,
        ))
    };
    programs.filter_map(finding).collect()
}

/// Programs of agents that cannot be started, for a home that no daemon has served yet.
pub(super) fn agents(config: &Config) -> Vec<Finding> {
    let first = |words: &Option<Vec<String>>| words.as_ref()?.first().cloned();
    let python = config.agent.hermes_python.as_ref();
    let programs = [
        ("acp.command", first(&config.agent.acp)),
        ("command.command", first(&config.agent.command)),
        (
            "hermes.python",
            python.map(|path| path.display().to_string()),
        ),
    ];
    let finding = |(key, program): (&str, Option<String>)| {
        let why = executable::missing(&program?)?;
        let remedy = format!("install it, or correct agents.{key}");
        Some(Finding::bad("agent", why, remedy))
    };
    programs.into_iter().filter_map(finding).collect()
}

pub(super) fn daemon(config: &Config, daemon: &Result<Option<Client>, CliError>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(pid) = live_gateway(&config.home) {
        found.push(Finding::bad(
            "Hermes gateway",
            format!("one runs on this home (process id {pid}), and both would claim the same handoffs and the same bot"),
            "stop it with `hermes gateway stop`, then start hermesd, which uses the same chats, homes and allowed people",
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
                let detail = format!("{detail}, but this is hermesctl {}", crate::VERSION);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        for (bytes, words) in [
            (4_194_304, "4 MB"),
            (1_550_000_000, "1.6 GB"),
            (83_412_000_000, "83 GB"),
        ] {
            assert_eq!(size(bytes), words);
        }
    }
}
