//! The type of one row in a table of settings. The tables are constants: [`general`](super::general), and one in the
//! descriptor of each platform.

use std::time::Duration;

use super::value::Kind;

/// One setting. Build it with [`text`](SettingSpec::text) and its siblings.
///
/// In `env`, `{PLATFORM}` stands for the platform's name in capitals. In `help`, `{platform}` stands for its name.
#[derive(Debug, Clone, Copy)]
pub struct SettingSpec {
    /// The whole key of a general setting, or the last part of the key of a platform's setting.
    pub name: &'static str,
    pub kind: Kind,
    /// As you would write it in the TOML file. `None` leaves the setting unset.
    pub default: Option<&'static str>,
    /// Hermes' environment names. `HERMESD_<KEY>` always works too.
    pub env: &'static [&'static str],
    /// Paths in Hermes' files that count only if no variable is set. The first path that exists wins.
    pub hermes: &'static [&'static str],
    /// Paths in Hermes' files that take precedence over the variables.
    pub hermes_first: &'static [&'static str],
    pub secret: bool,
    /// Whether the daemon reads it instead of the platform's adapter. A change then needs no new connection.
    pub for_daemon: bool,
    /// Whether Hermes allows only people whom both its variables and its files list.
    pub needs_both: bool,
    pub help: &'static str,
}

impl SettingSpec {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> SettingSpec {
        SettingSpec {
            name,
            kind,
            default: None,
            env: &[],
            hermes: &[],
            hermes_first: &[],
            secret: false,
            for_daemon: false,
            needs_both: false,
            help,
        }
    }

    pub const fn text(name: &'static str, help: &'static str) -> SettingSpec {
        SettingSpec::new(name, Kind::Text, help)
    }

    /// A text that hermesd never shows.
    pub const fn secret(name: &'static str, help: &'static str) -> SettingSpec {
        SettingSpec {
            secret: true,
            ..SettingSpec::text(name, help)
        }
    }

    pub const fn path(name: &'static str, help: &'static str) -> SettingSpec {
        SettingSpec::new(name, Kind::Path, help)
    }

    pub const fn flag(name: &'static str, help: &'static str) -> SettingSpec {
        SettingSpec::new(name, Kind::Flag, help)
    }

    pub const fn list(name: &'static str, help: &'static str) -> SettingSpec {
        SettingSpec::new(name, Kind::List, help)
    }

    pub const fn choice(
        name: &'static str,
        words: &'static [&'static str],
        help: &'static str,
    ) -> SettingSpec {
        SettingSpec::new(name, Kind::Choice(words), help)
    }

    pub const fn log_filter(name: &'static str, help: &'static str) -> SettingSpec {
        SettingSpec::new(name, Kind::LogFilter, help)
    }

    pub const fn integer(
        name: &'static str,
        min: i64,
        max: i64,
        help: &'static str,
    ) -> SettingSpec {
        SettingSpec::new(name, Kind::Integer { min, max }, help)
    }

    pub const fn duration(name: &'static str, min: Duration, help: &'static str) -> SettingSpec {
        let zero_is_off = false;
        SettingSpec::new(name, Kind::Duration { min, zero_is_off }, help)
    }

    /// A time, or 0. The help says what 0 does.
    pub const fn duration_or_zero(
        name: &'static str,
        min: Duration,
        help: &'static str,
    ) -> SettingSpec {
        let zero_is_off = true;
        SettingSpec::new(name, Kind::Duration { min, zero_is_off }, help)
    }

    pub const fn duration_or_never(
        name: &'static str,
        min: Duration,
        help: &'static str,
    ) -> SettingSpec {
        SettingSpec::new(name, Kind::DurationOrNever { min }, help)
    }

    pub const fn default(mut self, value: &'static str) -> SettingSpec {
        self.default = Some(value);
        self
    }

    pub const fn env(mut self, names: &'static [&'static str]) -> SettingSpec {
        self.env = names;
        self
    }

    pub const fn hermes(mut self, paths: &'static [&'static str]) -> SettingSpec {
        self.hermes = paths;
        self
    }

    pub const fn hermes_first(mut self, paths: &'static [&'static str]) -> SettingSpec {
        self.hermes_first = paths;
        self
    }

    pub const fn for_daemon(mut self) -> SettingSpec {
        self.for_daemon = true;
        self
    }

    pub const fn needs_both(mut self) -> SettingSpec {
        self.needs_both = true;
        self
    }

    pub const fn help(mut self, help: &'static str) -> SettingSpec {
        self.help = help;
        self
    }
}
