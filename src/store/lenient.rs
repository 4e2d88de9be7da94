//! Reading Hermes' tables as they are. SQLite keeps whatever a program puts into a column, so a value of another type
//! than declared is read as well as it can be, and a row that cannot be read does not cost the others.

use rusqlite::types::{Type, ValueRef};
use rusqlite::{Error, Row};

use super::StoreError;
use crate::clock;

/// Bytes and broken UTF-8 lossily, numbers in digits.
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

/// A text without which the row means nothing.
pub(super) fn name(row: &Row<'_>, at: usize) -> rusqlite::Result<String> {
    let missing = || Error::InvalidColumnType(at, "a name".into(), Type::Null);
    text(row, at)?.ok_or_else(missing)
}

/// Seconds since the epoch, be they a number, digits or an ISO 8601 time. `None` for all else.
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

/// A count; zero for what is none.
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

/// All rows that can be read. A fault of the database itself is still one.
pub(super) fn readable<T>(
    rows: impl Iterator<Item = rusqlite::Result<T>>,
    table: &str,
) -> Result<Vec<T>, StoreError> {
    let mut read = Vec::new();
    for row in rows {
        match row {
            Ok(row) => read.push(row),
            Err(error) if error.sqlite_error().is_some() => return Err(error.into()),
            Err(error) => tracing::warn!(%error, table, "a row that cannot be read is passed over"),
        }
    }
    Ok(read)
}
