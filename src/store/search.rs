//! Searches messages, with Hermes' full-text indexes if they are usable.

use rusqlite::{Connection, Row};

use super::features::{self, Feature};
use super::{Store, StoreError, fulltext, lenient, schema};

/// The marks around a match, as in Hermes.
const MARKS: (&str, &str) = (">>>", "<<<");
/// Characters on each side of a match that was found without an index.
const AROUND: usize = 60;
/// The messages per statement in a search without an index.
const AT_ONCE: i64 = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    pub session_id: String,
    pub title: Option<String>,
    pub source: String,
    pub message_id: i64,
    pub role: String,
    /// The kind of note, if a program wrote the message.
    pub display_kind: Option<String>,
    pub timestamp: f64,
    /// A part of the message, with the match between `>>>` and `<<<`.
    pub snippet: String,
}

impl Store {
    /// Messages that contain all words (or phrases), the best match first. A word may end in `*`. Finds rows that
    /// compression has archived, but not rewound rows.
    pub async fn search(&self, words: &[String], limit: usize) -> Result<Vec<Hit>, StoreError> {
        let words: Vec<String> = words
            .iter()
            .map(|word| word.trim().replace('\0', ""))
            .filter(|word| !word.trim_matches('*').is_empty())
            .collect();
        if words.is_empty() {
            return Ok(Vec::new());
        }
        self.read(move |c| search(c, &words, limit)).await
    }
}

fn search(c: &Connection, words: &[String], limit: usize) -> Result<Vec<Hit>, StoreError> {
    // An index that Hermes is still building lacks older messages.
    if fulltext::is_stale(c)? || fulltext::meta(c, "fts_rebuild_high_water")?.is_some() {
        return containing(c, words, limit);
    }
    match by_index(c, words, limit) {
        Err(error) if error.may_be_the_index() => containing(c, words, limit),
        found => found,
    }
}

fn by_index(c: &Connection, words: &[String], limit: usize) -> Result<Vec<Hit>, StoreError> {
    let indexed = |table| schema::table_exists(c, table);
    let mut hits = Vec::new();
    if indexed("messages_fts")? {
        hits = matching(c, "messages_fts", &query(words), limit)?;
    }
    // No whole words match. Parts of words may, from three characters on. Languages without spaces between words are
    // searched this way too.
    let short = words.iter().any(|word| plain(word).chars().count() < 3);
    if hits.is_empty() && !short && indexed("messages_fts_trigram")? {
        let parts: Vec<String> = words.iter().map(|word| plain(word).to_owned()).collect();
        hits = matching(c, "messages_fts_trigram", &query(&parts), limit)?;
    }
    let wide = short && words.iter().any(|word| !word.is_ascii());
    if hits.is_empty() && (wide || !indexed("messages_fts")?) {
        hits = containing(c, words, limit)?;
    }
    Ok(hits)
}

fn plain(word: &str) -> &str {
    word.trim_end_matches('*')
}

/// Quotes every word, so that no word is read as query syntax.
fn query(words: &[String]) -> String {
    let quoted = |word: &String| {
        let star = if word.ends_with('*') { "*" } else { "" };
        format!("\"{}\"{star}", plain(word).replace('"', "\"\""))
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Columns of a row of `messages`. Subqueries, because they use their index whatever the statistics say.
const COLUMNS: &str = "session_id, (SELECT title FROM sessions WHERE id = messages.session_id),
                       (SELECT source FROM sessions WHERE id = messages.session_id), id, role, timestamp";
/// Rows that compression has archived are found. Rewound rows are not.
const FINDABLE: &str = "(active = 1 OR compacted = 1)";

/// The kind of a row, and the condition that hides rows for the model alone. For files with these columns.
const KINDS: (&str, &str) = (
    "display_kind",
    "COALESCE(display_kind, '') <> 'hidden'
     AND (display_metadata IS NULL OR NOT json_valid(display_metadata)
          OR json_extract(display_metadata, '$.model_only') IS NOT 1)",
);

fn kinds(c: &Connection) -> Result<(&'static str, &'static str), StoreError> {
    Ok(match features::has(c, Feature::DisplayKind)? {
        true => KINDS,
        false => ("NULL", "1"),
    })
}

fn matching(
    c: &Connection,
    index: &str,
    query: &str,
    limit: usize,
) -> Result<Vec<Hit>, StoreError> {
    let (open, close) = MARKS;
    let (kind, shown) = kinds(c)?;
    let mut matches = c.prepare_cached(&format!(
        "SELECT rowid, snippet({index}, 0, '{open}', '{close}', '…', 24) FROM {index} WHERE {index} MATCH ?1 ORDER BY rank"
    ))?;
    let mut message = c.prepare_cached(&format!(
        "SELECT {COLUMNS}, {kind}, ?2 FROM messages WHERE id = ?1 AND {FINDABLE} AND {shown}"
    ))?;
    let mut found = matches.query([query])?;
    let mut hits = Vec::new();
    while let (true, Some(row)) = (hits.len() < limit, found.next()?) {
        let (id, snippet) = (row.get::<_, i64>(0)?, lenient::text(row, 1)?);
        let one = message.query(rusqlite::params![id, snippet])?;
        hits.extend(lenient::readable(one, "messages", hit)?);
    }
    Ok(hits)
}

/// Searches without an index: scans all messages, the newest first. In portions, because a database without a log
/// accepts no commit while a statement reads it.
fn containing(c: &Connection, words: &[String], limit: usize) -> Result<Vec<Hit>, StoreError> {
    let mut newest = c.prepare_cached("SELECT max(id) FROM messages WHERE id <= ?1")?;
    let mut newest_up_to = |id: i64| newest.query_row([id], |row| row.get::<_, Option<i64>>(0));
    let (mut hits, mut next) = (Vec::new(), newest_up_to(i64::MAX)?);
    while let Some(last) = next.filter(|_| hits.len() < limit) {
        let after = last.saturating_sub(AT_ONCE);
        hits.extend(containing_among(
            c,
            words,
            (after, last),
            limit - hits.len(),
        )?);
        next = newest_up_to(after)?;
    }
    Ok(hits)
}

/// The same for messages with ids above `after`, up to `last`.
fn containing_among(
    c: &Connection,
    words: &[String],
    (after, last): (i64, i64),
    limit: usize,
) -> Result<Vec<Hit>, StoreError> {
    let conditions: Vec<String> = (0..words.len())
        .map(|at| format!("instr(lower(content), lower(?{})) > 0", at + 1))
        .collect();
    let conditions = conditions.join(" AND ");
    let (kind, shown) = kinds(c)?;
    // More than is shown, so that the cuts are visible.
    let before = 2 * AROUND;
    let piece = 2 * before + words.first().map_or(0, |word| word.chars().count());
    let mut statement = c.prepare(&format!(
        "SELECT {COLUMNS}, {kind}, substr(content, max(1, instr(lower(content), lower(?1)) - {before}), {piece}) FROM messages
         WHERE id > {after} AND id <= {last} AND {conditions} AND {FINDABLE} AND {shown} ORDER BY id DESC LIMIT {limit}"
    ))?;
    let words: Vec<&str> = words.iter().map(|word| plain(word)).collect();
    let rows = statement.query(rusqlite::params_from_iter(&words))?;
    let mut hits = lenient::readable(rows, "messages", hit)?;
    for hit in &mut hits {
        hit.snippet = cut_out(&hit.snippet, words[0]);
    }
    Ok(hits)
}

/// The surroundings of the first occurrence of `word`, with marks.
fn cut_out(text: &str, word: &str) -> String {
    // The case may differ. Then the beginning is shown.
    let Some(at) = text.find(word) else {
        return text.chars().take(2 * AROUND).collect();
    };
    let (before, after) = (&text[..at], &text[at + word.len()..]);
    let skip = before.chars().count().saturating_sub(AROUND);
    let lead: String = before.chars().skip(skip).collect();
    let tail: String = after.chars().take(AROUND).collect();
    let dots = |cut: bool| if cut { "…" } else { "" };
    let (first, last) = (dots(skip > 0), dots(tail.len() < after.len()));
    let (open, close) = MARKS;
    format!("{first}{lead}{open}{word}{close}{tail}{last}")
}

fn hit(row: &Row<'_>) -> rusqlite::Result<Hit> {
    Ok(Hit {
        session_id: lenient::name(row, 0)?,
        title: lenient::text(row, 1)?,
        source: lenient::text(row, 2)?.unwrap_or_default(),
        message_id: row.get(3)?,
        role: lenient::text(row, 4)?.unwrap_or_default(),
        timestamp: lenient::seconds(row, 5)?.unwrap_or_default(),
        display_kind: lenient::text(row, 6)?.filter(|kind| !kind.is_empty()),
        snippet: lenient::text(row, 7)?.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_the_index() {
        let words = ["NOT", "say \"hi\"", "par*", "a:b"].map(str::to_owned);
        assert_eq!(query(&words), r#""NOT" "say ""hi""" "par"* "a:b""#);
    }

    #[test]
    fn a_piece_is_cut_between_characters() {
        let text = format!("{}解析器{}", "é".repeat(100), "ü".repeat(100));
        let piece = cut_out(&text, "解析");
        assert!(piece.starts_with("…é") && piece.ends_with("ü…"), "{piece}");
        assert!(piece.contains(">>>解析<<<器"));
        assert_eq!(cut_out("abc", "x"), "abc");
    }
}
