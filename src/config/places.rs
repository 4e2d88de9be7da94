//! Where things are: the home, our TOML file, the socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ConfigError;

/// The variables that are read here.
pub(super) const VARIABLES: [&str; 9] = [
    "CONFIGURATION_DIRECTORY",
    "CREDENTIALS_DIRECTORY",
    "HERMESD_CONFIG",
    "HERMES_HOME",
    "HOME",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
];

/// The home and whether somebody named it. `--home`, `$HERMES_HOME`, `$STATE_DIRECTORY`, `~/.hermes`.
pub(super) fn home(
    flag: Option<&Path>,
    env: &BTreeMap<String, String>,
) -> Result<(PathBuf, bool), ConfigError> {
    let named = flag
        .map(Path::to_owned)
        .or_else(|| set(env, "HERMES_HOME").map(PathBuf::from))
        .or_else(|| first_directory(env, "STATE_DIRECTORY"));
    let (home, explicit) = match named {
        Some(path) => (expand_tilde(&path, env), true),
        None => (
            PathBuf::from(set(env, "HOME").ok_or(ConfigError::NoHome)?).join(".hermes"),
            false,
        ),
    };
    // Hermes keys its routing rows by the resolved path, so ours has to be resolved too.
    Ok((resolved(home), explicit))
}

fn resolved(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).map_or(path, |p| p.canonicalize().unwrap_or(p))
}

/// The profile that a home belongs to, as Hermes names it. `None` is the default one.
pub(super) fn profile(home: &Path, env: &BTreeMap<String, String>) -> Option<String> {
    let default = set(env, "HOME").map(|path| resolved(Path::new(path).join(".hermes")));
    if default.as_deref() == Some(home) {
        return None;
    }
    let of_profiles = home.parent().and_then(Path::file_name) == Some("profiles".as_ref());
    let name = home.file_name().filter(|_| of_profiles);
    Some(name.map_or("custom".to_owned(), |name| {
        name.to_string_lossy().into_owned()
    }))
}

/// `--config` (which must exist), else the first of the usual places that does.
pub(super) fn config_file(flag: Option<&Path>, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if let Some(path) = flag
        .map(Path::to_owned)
        .or_else(|| set(env, "HERMESD_CONFIG").map(PathBuf::from))
    {
        return Some(path);
    }
    let directory = |name: &str| set(env, name).map(PathBuf::from);
    let candidates = [
        first_directory(env, "CONFIGURATION_DIRECTORY").map(|d| d.join("hermesd.toml")),
        directory("XDG_CONFIG_HOME")
            .or_else(|| directory("HOME").map(|h| h.join(".config")))
            .map(|d| d.join("hermesd/hermesd.toml")),
        Some(PathBuf::from("/etc/hermesd/hermesd.toml")),
    ];
    candidates.into_iter().flatten().find(|path| path.is_file())
}

/// The file to write to: the one that is read, else the person's own.
pub fn file_to_write(flag: Option<&Path>, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let own = set(env, "XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| set(env, "HOME").map(|home| Path::new(home).join(".config")))
        .map(|directory| directory.join("hermesd/hermesd.toml"));
    config_file(flag, env).or(own)
}

/// `$RUNTIME_DIRECTORY`, `$XDG_RUNTIME_DIR/hermesd`, else the home itself: all are private to the user.
pub(super) fn default_socket(home: &Path, env: &BTreeMap<String, String>) -> PathBuf {
    if let Some(dir) = first_directory(env, "RUNTIME_DIRECTORY") {
        return dir.join("control.sock");
    }
    match set(env, "XDG_RUNTIME_DIR") {
        Some(dir) => PathBuf::from(dir).join("hermesd/control.sock"),
        None => home.join("control.sock"),
    }
}

/// Where the packaged system service listens; the last place a client looks.
pub const SYSTEM_SOCKET: &str = "/run/hermesd/control.sock";

fn set<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    env.get(name).map(String::as_str).filter(|v| !v.is_empty())
}

/// systemd gives a colon-separated list; the first is the unit's own.
fn first_directory(env: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    set(env, name)?.split(':').next().map(PathBuf::from)
}

/// A path that means the same from every working directory.
pub(super) fn absolute(path: &Path, env: &BTreeMap<String, String>) -> PathBuf {
    let path = expand_tilde(path, env);
    std::path::absolute(&path).unwrap_or(path)
}

fn expand_tilde(path: &Path, env: &BTreeMap<String, String>) -> PathBuf {
    match (path.strip_prefix("~"), set(env, "HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path.to_owned(),
    }
}
