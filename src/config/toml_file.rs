//! Reads our own TOML file. An unknown key is an error that names its line and the nearest known key.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::layers::{Layers, Origin};
use super::settings::RETIRED;
use super::value::Raw;

pub(super) fn read(path: &Path, layers: &mut Layers) -> Result<(), ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let table = DeTable::parse(&text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_of(&text, span.start));
        ConfigError::Invalid(vec![format!("{}:{line}: {}", path.display(), e.message())])
    })?;
    walk("", table.get_ref(), &text, path, layers);
    Ok(())
}

fn walk(prefix: &str, table: &DeTable<'_>, text: &str, path: &Path, layers: &mut Layers) {
    for (name, value) in table.iter() {
        let key = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}.{}", name.get_ref())
        };
        let line = line_of(text, name.span().start);
        if layers.schema.find(&key).is_some() {
            layers.add(
                &key,
                raw(value),
                Origin::Toml {
                    path: path.to_owned(),
                    line,
                },
            );
        } else if layers.schema.is_section(&key) {
            match value.get_ref() {
                DeValue::Table(inner) => walk(&key, inner, text, path, layers),
                _ => layers.fault(format!(
                    "{}:{line}: {key} is a section: write [{key}]",
                    path.display()
                )),
            }
        } else if !RETIRED.contains(&&*key) {
            let hint = layers
                .schema
                .nearest(&key)
                .map(|k| format!("; did you mean {k}?"))
                .unwrap_or_default();
            layers.fault(format!(
                "{}:{line}: unknown key {key}{hint}",
                path.display()
            ));
        }
    }
}

fn raw(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
            .map_or(Raw::Other("number too large"), Raw::Integer),
        DeValue::Float(_) => Raw::Other("decimal number"),
        DeValue::Datetime(_) => Raw::Other("date"),
        DeValue::Array(items) => items
            .iter()
            .map(|item| match raw(item) {
                Raw::Text(text) => Some(text),
                Raw::Integer(n) => Some(n.to_string()),
                _ => None,
            })
            .collect::<Option<_>>()
            .map_or(Raw::Other("list of other values"), Raw::List),
        DeValue::Table(_) => Raw::Other("section"),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(offset)
        .filter(|b| **b == b'\n')
        .count()
        + 1
}
