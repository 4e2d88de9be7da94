//! Hermes' `.env`: shell-like assignments. Lines that are not assignments of ours are passed over.

use std::path::Path;

use super::ConfigError;
use super::layers::{Layers, Origin};
use super::settings;
use super::value::Raw;

pub(super) fn read(path: &Path, layers: &mut Layers) -> Result<(), ConfigError> {
    let Some(text) = super::hermes::read_optional(path)? else {
        return Ok(());
    };
    for setting in settings::SETTINGS.iter() {
        for name in std::iter::once(setting.own_env()).chain(setting.env.iter().cloned()) {
            // As in a shell, the last assignment of a name counts.
            let last = text
                .lines()
                .enumerate()
                .filter_map(|(n, line)| Some((n + 1, assignment(line, &name)?)))
                .last();
            if let Some((line, value)) = last.filter(|(_, v)| !v.is_empty()) {
                layers.add(
                    &setting.key,
                    Raw::Text(value),
                    Origin::DotEnv {
                        path: path.to_owned(),
                        line,
                    },
                );
            }
        }
    }
    Ok(())
}

/// The value when `line` assigns to `name`: quotes removed, a trailing comment dropped.
fn assignment(line: &str, name: &str) -> Option<String> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
    let rest = line
        .strip_prefix(name)?
        .trim_start()
        .strip_prefix('=')?
        .trim();
    match rest.chars().next() {
        Some('\'') => rest[1..].split('\'').next().map(str::to_owned),
        Some('"') => Some(double_quoted(&rest[1..])),
        _ => Some(
            rest.split(" #")
                .next()
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        ),
    }
}

fn double_quoted(rest: &str) -> String {
    let mut value = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(other) => value.push(other),
                None => {}
            },
            other => value.push(other),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::assignment;

    #[test]
    fn assignments_in_all_their_spellings() {
        for (line, expected) in [
            ("TOKEN=abc", Some("abc")),
            ("  export TOKEN = abc # note", Some("abc")),
            ("TOKEN='a # b' # note", Some("a # b")),
            (r#"TOKEN="a\"b\n" x"#, Some("a\"b\n")),
            ("TOKEN=a#b", Some("a#b")),
            ("TOKEN=", Some("")),
            ("TOKENS=abc", None),
            ("# TOKEN=abc", None),
            ("TOKEN", None),
        ] {
            assert_eq!(assignment(line, "TOKEN").as_deref(), expected, "{line}");
        }
    }
}
