//! Reads Hermes' tables leniently. SQLite stores any value in any column, so a value of another type than declared is
//! converted as well as possible. A row that cannot be read does not affect the others.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, OnceLock};

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Error, Row, Rows};

use super::StoreError;
use crate::clock;

/// A column as text: bytes and invalid UTF-8 lossily, numbers as digits.
pub(super) fn text(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
    })
}

/// A text that the row cannot do without.
pub(super) fn name(row: &Row<'_>, at: usize) -> rusqlite::Result<String> {
    let missing = || Error::InvalidColumnType(at, "a name".into(), Type::Null);
    text(row, at)?.ok_or_else(missing)
}

/// Seconds since the epoch, from a number, digits or an ISO 8601 time. `None` for anything else.
pub(super) fn seconds(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<f64>> {
    let seconds = match row.get_ref(at)? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim();
            text.parse().ok().or_else(|| clock::parse_iso(text))
        }
    };
    Ok(seconds.filter(|seconds| seconds.is_finite()))
}

/// A count. Zero for anything that is not a number.
pub(super) fn count(row: &Row<'_>, at: usize) -> rusqlite::Result<i64> {
    Ok(match row.get_ref(at)? {
        ValueRef::Integer(number) => number,
        ValueRef::Real(number) => number as i64,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            String::from_utf8_lossy(bytes).trim().parse().unwrap_or(0)
        }
        ValueRef::Null => 0,
    })
}

/// The number of rows that are reported at most.
const REPORTED: usize = 10_000;

/// All rows that can be read. Errors of the database itself are returned.
pub(super) fn readable<T>(
    mut rows: Rows<'_>,
    table: &str,
    mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.extend(readable_row(row, table, &mut read)?);
    }
    Ok(found)
}

/// One row, if it can be read. The queue reads the same rows every few seconds, so each bad row is reported once.
pub(super) fn readable_row<T>(
    row: &Row<'_>,
    table: &str,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, StoreError> {
    match read(row) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.sqlite_error().is_some() => Err(error.into()),
        Err(error) => {
            if is_new(row, table, &error) {
                tracing::warn!(%error, table, "skipping a row that cannot be read");
            }
            Ok(None)
        }
    }
}

/// Whether this process has not reported the row yet. The first column identifies a row.
fn is_new(row: &Row<'_>, table: &str, error: &Error) -> bool {
    static SEEN: OnceLock<Mutex<HashSet<u64>>> = OnceLock::new();
    let mut hasher = DefaultHasher::new();
    (table, error.to_string()).hash(&mut hasher);
    match row.get_ref(0) {
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => bytes.hash(&mut hasher),
        Ok(ValueRef::Integer(number)) => number.hash(&mut hasher),
        _ => {}
    }
    let mut seen = SEEN
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    seen.len() < REPORTED && seen.insert(hasher.finish())
}
