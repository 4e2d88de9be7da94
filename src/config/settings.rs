//! The [`Schema`]: all settings of a program, from the general table and the tables of its platforms.

use super::descriptor::PlatformDescriptor;
use super::general::{GENERAL, HOOKS};
use super::spec::SettingSpec;
use super::value::Raw;
pub use super::value::{Kind, parse_duration};

pub struct Setting {
    pub key: String,
    pub kind: Kind,
    /// As you would write it in the TOML file.
    pub default: Option<String>,
    /// Hermes' environment names.
    pub env: Vec<String>,
    pub secret: bool,
    pub help: String,
    pub(super) spec: SettingSpec,
    pub(super) platform: Option<&'static PlatformDescriptor>,
}

/// The prefix of hermesd's own names in the environment.
pub(super) const OWN_PREFIX: &str = "HERMESD_";

impl Setting {
    fn general(spec: &SettingSpec) -> Setting {
        Setting {
            key: spec.name.into(),
            kind: spec.kind,
            default: spec.default.map(str::to_owned),
            env: spec.env.iter().map(|name| (*name).to_owned()).collect(),
            secret: spec.secret,
            help: spec.help.into(),
            spec: *spec,
            platform: None,
        }
    }

    fn of_platform(platform: &'static PlatformDescriptor, spec: &SettingSpec) -> Setting {
        let upper = platform.name.to_ascii_uppercase();
        let env = spec.env.iter().map(|env| env.replace("{PLATFORM}", &upper));
        let mut help = spec.help.replace("{platform}", platform.name);
        if spec.name == "enabled" && spec.default.is_none() {
            help.push_str(&match platform.on_when() {
                Some(when) => format!(
                    " Unset, {} is on when {when} outside of Hermes' config.yaml and gateway.json.",
                    platform.name
                ),
                None => format!(" Unset, {} is off.", platform.name),
            });
        }
        Setting {
            key: format!("platforms.{}.{}", platform.name, spec.name),
            env: env.collect(),
            help,
            platform: Some(platform),
            ..Setting::general(spec)
        }
    }

    /// The environment name that follows from the key.
    pub fn own_env(&self) -> String {
        format!(
            "{OWN_PREFIX}{}",
            self.key.to_ascii_uppercase().replace('.', "_")
        )
    }

    pub(super) fn is_of(&self, platform: &str) -> bool {
        self.platform.is_some_and(|p| p.name == platform)
    }

    /// Whether the adapter of this platform reads the setting.
    pub fn is_of_adapter(&self, platform: &str) -> bool {
        self.is_of(platform) && !self.spec.for_daemon
    }

    /// Whether the setting accepts this text.
    pub fn takes(&self, text: &str) -> bool {
        self.kind.parse(&Raw::Text(text.to_owned()), true).is_some()
    }

    /// The key of the home channel that this setting belongs to.
    pub(super) fn home_channel(&self) -> Option<String> {
        let (home, _) = self.key.split_once(".home_channel_")?;
        Some(format!("{home}.home_channel"))
    }

    /// The usual paths in Hermes' files that take precedence over Hermes' variables, from the top of the file.
    pub fn hermes_paths_first(&self) -> Vec<String> {
        self.usual_paths(self.spec.hermes_first)
    }

    /// The usual paths in Hermes' files that Hermes' variables take precedence over.
    pub fn hermes_paths(&self) -> Vec<String> {
        self.usual_paths(self.spec.hermes)
    }

    fn usual_paths(&self, names: &[&str]) -> Vec<String> {
        let path = |name: &&str| match self.platform {
            None => (*name).to_owned(),
            Some(platform) => usual_path(platform.name, name),
        };
        names.iter().map(path).collect()
    }
}

/// The path under which people usually write this name of a platform's blocks.
fn usual_path(platform: &str, name: &str) -> String {
    let own = ["enabled", "token", "home_channel", "extra"];
    let first = name.split('.').next().unwrap_or(name);
    match name.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None if own.contains(&first) => format!("platforms.{platform}.{name}"),
        None => format!("{platform}.{name}"),
    }
}

/// Keys of older versions. hermesd ignores them.
pub(super) const RETIRED: [&str; 1] = ["store.accept_newer_schema"];

/// Everything that a configuration may set.
pub struct Schema {
    settings: Vec<Setting>,
    descriptors: &'static [&'static PlatformDescriptor],
}

impl std::fmt::Debug for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Schema of {} settings", self.settings.len())
    }
}

impl Schema {
    pub fn new(descriptors: &'static [&'static PlatformDescriptor]) -> Schema {
        let general = GENERAL.iter().chain(HOOKS).map(Setting::general);
        let of_platforms = descriptors.iter().flat_map(|platform| {
            let rows = platform.settings.iter();
            rows.map(|spec| Setting::of_platform(platform, spec))
        });
        Schema {
            settings: general.chain(of_platforms).collect(),
            descriptors,
        }
    }

    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// The platforms in the order in which people see them.
    pub fn descriptors(&self) -> &'static [&'static PlatformDescriptor] {
        self.descriptors
    }

    pub fn find(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|s| s.key == key)
    }

    /// Whether hermesd reads a setting from this environment variable.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        let mut settings = self.settings.iter();
        settings.any(|setting| setting.own_env() == name || setting.env.iter().any(|e| e == name))
    }

    pub(super) fn is_section(&self, key: &str) -> bool {
        let prefix = format!("{key}.");
        self.settings.iter().any(|s| s.key.starts_with(&prefix))
    }

    /// The known key or section with the most similar spelling.
    pub fn nearest(&self, key: &str) -> Option<&str> {
        let sections = self
            .settings
            .iter()
            .filter_map(|s| Some(s.key.rsplit_once('.')?.0));
        self.settings
            .iter()
            .map(|s| s.key.as_str())
            .chain(sections)
            .map(|known| (strsim::damerau_levenshtein(key, known), known))
            .min()
            .filter(|(distance, known)| *distance <= known.len().max(key.len()) / 2)
            .map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_finds_its_neighbour_and_nonsense_finds_none() {
        let schema = Schema::new(&[]);
        assert_eq!(schema.nearest("handoff.paralel"), Some("handoff.parallel"));
        assert_eq!(schema.nearest("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"), None);
    }
}
