//! The values of settings, and their kinds.

use std::fmt;
use std::time::Duration;

use super::mask::masked;

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Flag(bool),
    Integer(i64),
    Duration(Duration),
    Never,
    List(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    /// The path of a file or directory. `~` is the home directory.
    Path,
    Flag,
    Integer {
        min: i64,
        max: i64,
    },
    /// At least `min`. With `zero_is_off` also zero.
    Duration {
        min: Duration,
        zero_is_off: bool,
    },
    /// At least `min`, or the word `never`.
    DurationOrNever {
        min: Duration,
    },
    Choice(&'static [&'static str]),
    /// A level, or a filter: levels of parts of the program, separated by commas.
    LogFilter,
    /// Names or ids, as a list or separated by commas.
    List,
}

/// The levels of the log.
const LOG_LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// A value as its source has it, before the check against the setting's kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    Text(String),
    Flag(bool),
    Integer(i64),
    List(Vec<String>),
    /// A value that no setting accepts. The word is for the error message.
    Other(&'static str),
}

impl Kind {
    /// The accepted values, for error messages and the manual.
    pub fn describe(self) -> String {
        match self {
            Kind::Text => "text".into(),
            Kind::Path => "a path".into(),
            Kind::Flag => "true or false".into(),
            Kind::Integer { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Duration {
                min,
                zero_is_off: false,
            } => format!(
                "a time of at least {}, such as \"30s\" or \"5m\"",
                show_duration(min)
            ),
            Kind::Duration {
                min,
                zero_is_off: true,
            } => {
                format!(
                    "a time of at least {}, such as \"30s\" or \"5m\", or 0",
                    show_duration(min)
                )
            }
            Kind::DurationOrNever { min } => format!(
                "a time of at least {}, such as \"30s\" or \"5m\", or \"never\"",
                show_duration(min)
            ),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::LogFilter => format!(
                "one of {}, or a filter such as \"info,hermesd::handoff=debug\"",
                LOG_LEVELS.join(", ")
            ),
            Kind::List => "a list, or text with commas in between".into(),
        }
    }

    /// Checks and converts. `lenient` accepts `"yes"` or `"16"` as text, as environments and Hermes' files have them.
    pub fn parse(self, raw: &Raw, lenient: bool) -> Option<Value> {
        match (self, raw) {
            (Kind::Text | Kind::Path, Raw::Text(t)) => Some(Value::Text(t.clone())),
            // Hermes' own files have chat ids without quotes.
            (Kind::Text, Raw::Integer(n)) if lenient => Some(Value::Text(n.to_string())),
            (Kind::Flag, Raw::Flag(b)) => Some(Value::Flag(*b)),
            (Kind::Flag, Raw::Text(t)) if lenient => parse_flag(t).map(Value::Flag),
            (Kind::Flag, Raw::Integer(n @ 0..=1)) if lenient => Some(Value::Flag(*n == 1)),
            (Kind::Integer { .. }, Raw::Text(t)) if lenient => {
                self.parse(&Raw::Integer(t.trim().parse().ok()?), false)
            }
            (Kind::Integer { min, max }, Raw::Integer(n)) => {
                (min..=max).contains(n).then_some(Value::Integer(*n))
            }
            (Kind::Duration { .. }, Raw::Integer(n)) => {
                self.duration(Duration::from_secs(u64::try_from(*n).ok()?))
            }
            (Kind::Duration { .. }, Raw::Text(t)) => self.duration(parse_duration(t)?),
            (Kind::DurationOrNever { .. }, Raw::Text(t)) if t.trim() == "never" => {
                Some(Value::Never)
            }
            (Kind::DurationOrNever { min }, raw) => {
                let time = Kind::Duration {
                    min,
                    zero_is_off: false,
                };
                time.parse(raw, lenient)
            }
            (Kind::Choice(words), Raw::Text(t)) if lenient => {
                let word = t.trim().to_ascii_lowercase();
                words.contains(&&*word).then_some(Value::Text(word))
            }
            // YAML reads a bare `off` as a boolean.
            (Kind::Choice(words), Raw::Flag(false)) if lenient && words.contains(&"off") => {
                Some(Value::Text("off".into()))
            }
            (Kind::Choice(words), Raw::Text(t)) => {
                words.contains(&t.as_str()).then(|| Value::Text(t.clone()))
            }
            (Kind::LogFilter, Raw::Text(t)) => {
                is_log_filter(t).then(|| Value::Text(t.trim().to_owned()))
            }
            // YAML reads a bare `off` as a boolean.
            (Kind::LogFilter, Raw::Flag(false)) if lenient => Some(Value::Text("off".into())),
            (Kind::List, Raw::List(items)) => Some(Value::List(items.clone())),
            (Kind::List, Raw::Text(text)) => Some(Value::List(listed(text))),
            (Kind::List, Raw::Integer(n)) => Some(Value::List(vec![n.to_string()])),
            _ => None,
        }
    }

    fn duration(self, d: Duration) -> Option<Value> {
        match self {
            Kind::Duration { min, zero_is_off } if d >= min || (zero_is_off && d.is_zero()) => {
                Some(Value::Duration(d))
            }
            _ => None,
        }
    }
}

impl Value {
    /// The value without passwords and tokens inside of addresses and command lines.
    pub(super) fn masked(&self) -> Value {
        match self {
            Value::Text(text) => Value::Text(masked(text)),
            Value::List(items) => Value::List(items.iter().map(|item| masked(item)).collect()),
            other => other.clone(),
        }
    }
}

/// Whether each part is a level, or a part of the program with its level. The log itself takes any word for the name of a
/// part that then logs nothing.
fn is_log_filter(text: &str) -> bool {
    let is_level = |word: &str| {
        let word = word.trim();
        LOG_LEVELS
            .iter()
            .any(|level| level.eq_ignore_ascii_case(word))
    };
    // Fields in brackets contain commas and equals signs of their own.
    let has_fields = text.contains('[');
    has_fields
        || text
            .split(',')
            .map(str::trim)
            .all(|part| match part.rsplit_once('=') {
                Some((name, level)) => !name.trim().is_empty() && is_level(level),
                None => is_level(part) || part.contains("::"),
            })
}

fn parse_flag(text: &str) -> Option<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" | "" => Some(false),
        _ => None,
    }
}

/// `500ms`, `30s`, `5m`, `2h`, `30d`, or plain seconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit_ms = match text[digits..].trim() {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(unit_ms).map(Duration::from_millis)
}

fn show_duration(d: Duration) -> String {
    let ms = d.as_millis();
    match ms {
        0 => "0".into(),
        _ if ms > 86_400_000 && ms.is_multiple_of(86_400_000) => format!("{}d", ms / 86_400_000),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Text(text) => serializer.serialize_str(text),
            Value::Flag(flag) => serializer.serialize_bool(*flag),
            Value::Integer(n) => serializer.serialize_i64(*n),
            Value::Duration(d) => serializer.serialize_str(&show_duration(*d)),
            Value::Never => serializer.serialize_str("never"),
            Value::List(items) => serializer.collect_seq(items),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Flag(flag) => write!(f, "{flag}"),
            Value::Integer(n) => write!(f, "{n}"),
            Value::Duration(d) => write!(f, "{:?}", show_duration(*d)),
            Value::Never => write!(f, "{:?}", "never"),
            Value::List(items) => write!(f, "{items:?}"),
        }
    }
}

/// The items of a text: a list of JSON, as Hermes accepts it for patterns, or items with commas in between.
fn listed(text: &str) -> Vec<String> {
    if let Ok(items) = serde_json::from_str(text) {
        return items;
    }
    let items = text
        .split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty());
    items.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_the_log_has_only_levels_that_exist() {
        for text in [
            "info",
            " Debug ",
            "off",
            "info,hermesd::handoff=debug",
            "warn, hermesd=trace",
            "hermesd::handoff",
            "info,[handoff{id=7,chat=home}]=debug",
        ] {
            assert!(is_log_filter(text), "{text:?}");
        }
        for text in [
            "verbose",
            "",
            "info,",
            "info,verbose",
            "hermesd=loud",
            "=debug",
        ] {
            assert!(!is_log_filter(text), "{text:?}");
        }
    }
}
