//! Finds the home, the TOML file and the control socket.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::config::ConfigError;

/// The environment variables that this file reads.
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

/// Which home to use, and how it was chosen.
pub(super) struct ChosenHome {
    pub path: PathBuf,
    /// A flag, a variable or `active_profile` names it.
    pub explicit: bool,
    /// `active_profile` names it.
    pub sticky: bool,
}

/// The first of: `--home`, `--profile`, `$HERMES_HOME`, `$STATE_DIRECTORY`, the profile in `~/.hermes/active_profile`,
/// `~/.hermes`.
pub(super) fn home(
    flag: Option<&Path>,
    profile: Option<&str>,
    env: &BTreeMap<String, String>,
) -> Result<ChosenHome, ConfigError> {
    let chosen = |path: PathBuf, explicit, sticky| ChosenHome {
        // Hermes keys its routing rows by the resolved path, so ours has to be resolved too.
        path: resolved(path),
        explicit,
        sticky,
    };
    if let Some(path) = flag {
        return Ok(chosen(expand_tilde(path, env), true, false));
    }
    if let Some(name) = profile {
        return Ok(chosen(profile_home(&root(env)?, name)?, true, false));
    }
    if let Some(path) = named_by_environment(env) {
        return Ok(chosen(path, true, false));
    }
    let root = root(env)?;
    match active_profile(&root) {
        Some(name) => Ok(chosen(profile_home(&root, &name)?, true, true)),
        None => Ok(chosen(root, false, false)),
    }
}

fn named_by_environment(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    set(env, "HERMES_HOME")
        .map(PathBuf::from)
        .or_else(|| first_directory(env, "STATE_DIRECTORY"))
        .map(|path| expand_tilde(&path, env))
}

/// The home of the default profile. Its `profiles/` has the homes of the others.
fn root(env: &BTreeMap<String, String>) -> Result<PathBuf, ConfigError> {
    match named_by_environment(env) {
        Some(path) => Ok(root_of(&path)),
        None => Ok(PathBuf::from(set(env, "HOME").ok_or(ConfigError::NoHome)?).join(".hermes")),
    }
}

/// The root that a home belongs to.
pub fn root_of(home: &Path) -> PathBuf {
    let of_profiles = home.parent().filter(|parent| parent.ends_with(PROFILES));
    let root = of_profiles.and_then(Path::parent).unwrap_or(home);
    root.to_owned()
}

/// The directory under a root that holds the homes of named profiles.
const PROFILES: &str = "profiles";
/// The profile whose home is the root itself.
pub const DEFAULT_PROFILE: &str = "default";

fn profile_home(root: &Path, name: &str) -> Result<PathBuf, ConfigError> {
    // Hermes stores names in lower case.
    let name = name.trim().to_lowercase();
    if name == DEFAULT_PROFILE {
        return Ok(root.to_owned());
    }
    let home = root.join(PROFILES).join(&name);
    if is_profile_name(&name) && home.is_dir() {
        return Ok(home);
    }
    Err(ConfigError::NoProfile {
        name,
        root: root.to_owned(),
        known: profiles(root).join(", "),
    })
}

/// Lower-case letters, digits, `_` and `-`. The first is a letter or a digit.
fn is_profile_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 64
        && name.starts_with(plain)
        && name.chars().all(|c| plain(c) || matches!(c, '_' | '-'))
}

/// The profiles under a root, the default one first.
pub fn profiles(root: &Path) -> Vec<String> {
    let found = std::fs::read_dir(root.join(PROFILES));
    let homes = found.into_iter().flatten().flatten();
    let mut named: Vec<String> = homes
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_profile_name(name) && name != DEFAULT_PROFILE)
        .collect();
    named.sort();
    named.insert(0, DEFAULT_PROFILE.to_owned());
    named
}

/// The home of a profile that [`profiles`] lists.
pub fn home_of_profile(root: &Path, name: &str) -> PathBuf {
    match name {
        DEFAULT_PROFILE => root.to_owned(),
        name => root.join(PROFILES).join(name),
    }
}

/// The profile that `hermes profile use` chose.
fn active_profile(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("active_profile")).ok()?;
    let name = text.trim();
    (!name.is_empty() && name != DEFAULT_PROFILE).then(|| name.to_owned())
}

/// The name of the profile whose home this is.
pub fn profile_name(home: &Path) -> String {
    named_profile(home).unwrap_or(DEFAULT_PROFILE).to_owned()
}

/// A path for people: `~` stands for the home directory.
pub fn shown(path: &Path) -> String {
    let directory = std::env::var_os("HOME").map(PathBuf::from);
    let below = directory
        .filter(|home| home.is_absolute() && home.parent().is_some())
        .and_then(|home| path.strip_prefix(home).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

/// The user unit that serves a home, without its suffix.
pub fn unit_of(home: &Path) -> String {
    named_profile(home).map_or("hermesd".to_owned(), |name| format!("hermesd@{name}"))
}

fn named_profile(home: &Path) -> Option<&str> {
    let of_profiles = home.parent()?.ends_with(PROFILES);
    let name = home.file_name()?.to_str()?;
    (of_profiles && is_profile_name(name)).then_some(name)
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

/// `--config` or `$HERMESD_CONFIG` (which must exist), else the first existing file of the usual places.
pub(super) fn config_file(flag: Option<&Path>, env: &BTreeMap<String, String>) -> Option<PathBuf> {
    if let Some(path) = flag
        .map(Path::to_owned)
        .or_else(|| set(env, "HERMESD_CONFIG").map(PathBuf::from))
    {
        return Some(path);
    }
    usual_files(env).find(|path| path.is_file())
}

/// The usual places of the configuration file.
fn usual_files(env: &BTreeMap<String, String>) -> impl Iterator<Item = PathBuf> {
    let candidates = [
        first_directory(env, "CONFIGURATION_DIRECTORY").map(|d| d.join("hermesd.toml")),
        own_directory(env).map(|d| d.join("hermesd.toml")),
        Some(PathBuf::from("/etc/hermesd/hermesd.toml")),
    ];
    candidates.into_iter().flatten()
}

/// All files that a configuration may come from, also those that do not exist.
pub(super) fn files(
    flag: Option<&Path>,
    home: &Path,
    env: &BTreeMap<String, String>,
) -> Vec<PathBuf> {
    let named = flag
        .map(Path::to_owned)
        .or_else(|| set(env, "HERMESD_CONFIG").map(PathBuf::from));
    let own = match named {
        Some(path) => vec![path],
        None => usual_files(env).collect(),
    };
    let of_hermes = [".env", "config.yaml", "gateway.json"].map(|name| home.join(name));
    let of_profile = profile_file(flag, home, env);
    own.into_iter().chain(of_profile).chain(of_hermes).collect()
}

/// The file of a named profile. It overrides the file of all profiles. `None` if the command line or the environment
/// names a file.
pub(super) fn profile_file(
    flag: Option<&Path>,
    home: &Path,
    env: &BTreeMap<String, String>,
) -> Option<PathBuf> {
    if flag.is_some() || set(env, "HERMESD_CONFIG").is_some() {
        return None;
    }
    let name = named_profile(home)?;
    Some(own_directory(env)?.join(format!("profiles/{name}.toml")))
}

/// The directory of the user's own configuration.
fn own_directory(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    set(env, "XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| set(env, "HOME").map(|home| Path::new(home).join(".config")))
        .map(|directory| directory.join("hermesd"))
}

/// The file to write to: the file of the profile, else the file that is read, else the user's own.
pub fn file_to_write(
    flag: Option<&Path>,
    home: &Path,
    env: &BTreeMap<String, String>,
) -> Option<PathBuf> {
    profile_file(flag, home, env)
        .or_else(|| config_file(flag, env))
        .or_else(|| Some(own_directory(env)?.join("hermesd.toml")))
}

/// In `$RUNTIME_DIRECTORY`, else in `$XDG_RUNTIME_DIR/hermesd` with a directory per named profile, else in the home.
/// All of these are private to the user.
pub(super) fn default_socket(home: &Path, env: &BTreeMap<String, String>) -> PathBuf {
    if let Some(dir) = first_directory(env, "RUNTIME_DIRECTORY") {
        return dir.join(SOCKET);
    }
    match (set(env, "XDG_RUNTIME_DIR"), named_profile(home)) {
        (Some(dir), Some(name)) => Path::new(dir).join("hermesd").join(name).join(SOCKET),
        (Some(dir), None) => user_socket(dir),
        (None, _) => home.join(SOCKET),
    }
}

const SOCKET: &str = "control.sock";

fn user_socket(runtime_dir: &str) -> PathBuf {
    Path::new(runtime_dir).join("hermesd").join(SOCKET)
}

/// The socket of the unit without a profile in its name. That unit serves the profile that `active_profile` names.
pub(super) fn sticky_socket(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    set(env, "XDG_RUNTIME_DIR").map(user_socket)
}

/// The socket of the packaged system service. Clients try it last.
pub const SYSTEM_SOCKET: &str = "/run/hermesd/control.sock";

fn set<'a>(env: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    env.get(name).map(String::as_str).filter(|v| !v.is_empty())
}

/// systemd sets a colon-separated list. The first is the unit's own.
fn first_directory(env: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    set(env, name)?.split(':').next().map(PathBuf::from)
}

/// Expands `~` and makes the path independent of the working directory.
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
