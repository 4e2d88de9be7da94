//! Long lists in pages, each with a cursor to the next.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::errors::ApiError;
use super::request::Call;

pub fn cursor(kind: &str, key: &str) -> String {
    STANDARD.encode(format!("{kind}:{key}"))
}

/// Where the page of a call begins.
pub fn start(call: &Call, kind: &str) -> Result<Option<String>, ApiError> {
    let Some(cursor) = call.filled("cursor") else {
        return Ok(None);
    };
    let text = STANDARD.decode(cursor).ok();
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let key = text.and_then(|text| Some(text.strip_prefix(&format!("{kind}:"))?.to_owned()));
    match key {
        Some(key) => Ok(Some(key)),
        None => Err("invalid_cursor".into()),
    }
}

/// The page of a call, and the cursor to the next. The last page has an empty one.
pub fn page(
    items: &mut dyn Iterator<Item = (String, Value)>,
    call: &Call,
    kind: &str,
    limit: usize,
) -> Result<(Vec<Value>, String), ApiError> {
    let first = start(call, kind)?;
    let items: Vec<(String, Value)> = items.collect();
    let from = match &first {
        None => 0,
        Some(key) => {
            let at = items.iter().position(|(item, _)| item == key);
            at.ok_or("invalid_cursor")?
        }
    };
    let next = items.get(from + limit);
    let next = next.map_or(String::new(), |(key, _)| cursor(kind, key));
    let shown = items.into_iter().skip(from).take(limit);
    Ok((shown.map(|(_, value)| value).collect(), next))
}
