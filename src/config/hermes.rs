//! Hermes' `config.yaml` and `gateway.json`. They hold much that is not ours: what we use is checked, the rest ignored.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value as Json;

use super::layers::{Layers, Origin};
use super::value::{Kind, Raw};
use super::{ConfigError, settings};

pub(super) fn read_yaml(path: &Path, layers: &mut Layers) -> Result<(), ConfigError> {
    let Some(text) = read_optional(path)? else {
        return Ok(());
    };
    if text.trim().is_empty() {
        return Ok(());
    }
    let tree: Json =
        serde_saphyr::from_str_with_options(&text, as_python_reads_it()).map_err(|e| {
            // Never with the lines around it: a token may stand there.
            let line = e.location().map_or(1, |at| at.line());
            invalid(path, line, e.without_snippet())
        })?;
    pick(&tree, path, layers);
    Ok(())
}

/// Of a key that stands twice, the last counts: Hermes runs with such files, so we do too.
fn as_python_reads_it() -> serde_saphyr::Options {
    serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins }
}

pub(super) fn read_gateway_json(path: &Path, layers: &mut Layers) -> Result<(), ConfigError> {
    let Some(text) = read_optional(path)? else {
        return Ok(());
    };
    let tree: Json = serde_json::from_str(&text).map_err(|e| invalid(path, e.line() as u64, &e))?;
    pick(&tree, path, layers);
    Ok(())
}

/// A file that need not be there.
pub(super) fn read_optional(path: &Path) -> Result<Option<String>, ConfigError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        }),
    }
}

fn invalid(path: &Path, line: u64, error: &dyn std::fmt::Display) -> ConfigError {
    ConfigError::Invalid(vec![format!("{}:{line}: {error}", path.display())])
}

fn pick(tree: &Json, path: &Path, layers: &mut Layers) {
    for setting in settings::SETTINGS.iter() {
        for key in &setting.hermes {
            let Some(raw) = look_up(tree, key).and_then(raw) else {
                continue;
            };
            // Hermes runs without a number or a word that it cannot use, so we do too.
            let may_be_odd = matches!(setting.kind, Kind::Integer { .. } | Kind::Choice(_));
            if may_be_odd && setting.kind.parse(&raw, true).is_none() {
                continue;
            }
            layers.add(
                &setting.key,
                raw,
                Origin::Hermes {
                    path: path.to_owned(),
                    key: key.clone(),
                },
            );
        }
    }
}

fn look_up<'a>(tree: &'a Json, dotted: &str) -> Option<&'a Json> {
    dotted
        .split('.')
        .try_fold(tree, |node, name| node.get(name))
}

/// `None` for what counts as unset: null, empty text, and mappings, whose own keys are looked up one by one.
fn raw(node: &Json) -> Option<Raw> {
    match node {
        Json::Null | Json::Object(_) => None,
        Json::String(text) => (!text.is_empty()).then(|| Raw::Text(text.clone())),
        Json::Bool(flag) => Some(Raw::Flag(*flag)),
        Json::Number(n) => Some(
            n.as_i64()
                .map_or(Raw::Other("decimal number"), Raw::Integer),
        ),
        Json::Array(items) => Some(
            items
                .iter()
                .map(|item| match raw(item) {
                    Some(Raw::Text(text)) => Some(text),
                    Some(Raw::Integer(n)) => Some(n.to_string()),
                    _ => None,
                })
                .collect::<Option<_>>()
                .map_or(Raw::Other("list of such things"), Raw::List),
        ),
    }
}
