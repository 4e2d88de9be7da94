//! Finds sessions by what people call them: id, title, a part of either, or first words.

use rusqlite::{Connection, OptionalExtension, params};

use super::features::{self, Feature};
use super::sessions::{COLUMNS, SessionFilter, SessionMatch, by_id, collect, cwd_of, list, tip};
use super::{Store, StoreError, lenient};
use crate::domain::Session;
use crate::domain::transcript::Content;

/// How many candidates are listed for an ambiguous name.
const CANDIDATES: usize = 10;
/// How many of the newest sessions are searched for a part of a name.
const SEARCHED: usize = 2000;
/// In how many of them the first words count too, which costs a look at the messages.
const SEARCHED_WORDS: usize = 200;
/// A shorter end of an id is taken for an accident.
const SHORTEST_TAIL: usize = 4;

impl Store {
    /// Finds a session by id, title, the beginning of an id, or by a part that only one session has: of a title, of the
    /// first words of an untitled session, or the end of an id. Returns the tip of its lineage.
    pub fn find_session(&self, name: &str) -> Result<SessionMatch, StoreError> {
        self.look(|c| find(c, name))
    }

    /// What the newest sessions are called.
    pub fn names_of_sessions(&self) -> Result<Vec<String>, StoreError> {
        self.look(|c| {
            let newest = newest(c)?;
            Ok(newest.into_iter().map(|session| session.name()).collect())
        })
    }
}

fn find(c: &Connection, name: &str) -> Result<SessionMatch, StoreError> {
    if name.is_empty() {
        return Ok(SessionMatch::None);
    }
    let exact = match by_id(c, name)? {
        Some(session) => Some(session),
        None => collect(
            c,
            &format!(
                "SELECT {COLUMNS} FROM sessions WHERE title = ?1 ORDER BY started_at DESC LIMIT 1"
            ),
            [name],
        )?
        .pop(),
    };
    let mut found = match exact {
        Some(session) => vec![session],
        None => by_prefix(c, name)?,
    };
    if found.is_empty() {
        found = by_part(c, name)?;
    }
    if found.len() > 1 {
        return Ok(SessionMatch::Many(found));
    }
    let Some(session) = found.pop() else {
        return Ok(SessionMatch::None);
    };
    let session = with_first_words(c, live_end(c, session)?)?;
    Ok(SessionMatch::One(Box::new(session)))
}

pub(super) fn live_end(c: &Connection, session: Session) -> Result<Session, StoreError> {
    let live = tip(c, &session.id)?;
    let mut session = match live == session.id {
        true => session,
        false => by_id(c, &live)?.unwrap_or(session),
    };
    if session.cwd.is_none() {
        session.cwd = cwd_of(c, &session.id)?;
    }
    Ok(session)
}

/// Searches a range of the primary key, so that a large table costs no more.
fn by_prefix(c: &Connection, prefix: &str) -> Result<Vec<Session>, StoreError> {
    let end = format!("{prefix}\u{10FFFF}");
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT {CANDIDATES}"
    );
    collect(c, &sql, [prefix, &end])
}

/// The conversations that have this part in their name, or at the end of their id. Rows of one conversation count once.
fn by_part(c: &Connection, part: &str) -> Result<Vec<Session>, StoreError> {
    let wanted = part.trim().to_lowercase();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let is_tail = wanted.chars().count() >= SHORTEST_TAIL;
    let mut found: Vec<Session> = Vec::new();
    let mut whole = Vec::new();
    for session in newest(c)? {
        let called = match session.has_title() || session.first_words.is_some() {
            true => session.label().to_lowercase(),
            false => String::new(),
        };
        if !(called.contains(&wanted) || is_tail && session.id.to_lowercase().ends_with(&wanted)) {
            continue;
        }
        let session = live_end(c, session)?;
        if found.iter().any(|known| known.id == session.id) {
            continue;
        }
        if called == wanted {
            whole.push(session.clone());
        }
        if found.len() < CANDIDATES {
            found.push(session);
        }
    }
    // A whole title in other letters beats a part of another.
    Ok(if whole.len() == 1 { whole } else { found })
}

/// The newest sessions, the later ones of them with their first words.
fn newest(c: &Connection) -> Result<Vec<Session>, StoreError> {
    let filter = SessionFilter {
        limit: SEARCHED,
        ..SessionFilter::default()
    };
    let sessions = list(c, &filter)?.into_iter().enumerate();
    sessions
        .map(|(at, session)| match at < SEARCHED_WORDS {
            true => with_first_words(c, session),
            false => Ok(session),
        })
        .collect()
}

/// Reads the first words of a session that has no title.
pub(super) fn with_first_words(
    c: &Connection,
    mut session: Session,
) -> Result<Session, StoreError> {
    if session.has_title() {
        return Ok(session);
    }
    let person = match features::has(c, Feature::DisplayKind)? {
        true => "COALESCE(display_kind, '') = ''",
        false => "1",
    };
    // The plus keeps SQLite from walking through all messages for the smallest id.
    let mut statement = c.prepare_cached(&format!(
        "SELECT CASE WHEN octet_length(content) > 65536 THEN substr(content, 1, 400) ELSE content END FROM messages
         WHERE id = (SELECT min(+id) FROM messages
                     WHERE likelihood(session_id = ?1, 0.000001) AND role = 'user' AND {person})"
    ))?;
    let text = statement
        .query_row(params![session.id], |row| lenient::text(row, 0))
        .optional()?
        .flatten();
    let text = text.map(|text| Content::decode(text).plain());
    session.first_words = text.and_then(|text| Session::first_words_of(&text));
    Ok(session)
}
