//! Finds the session that a request means: by its name, or by the client's terminal.

use std::path::Path;

use crate::clock;
use crate::domain::RefusalKind;
use crate::domain::Session;
use crate::sessions::{RequestError, refuse};
use crate::sessions::{TerminalNames, noted_sessions};
use crate::store::{Candidate, SessionMatch, Store};

/// The name that stands for the last terminal session, unless a session is called so.
const LAST: &str = "last";
/// How alike two names are, from 0 to 1, if one is suggested for the other.
const ALIKE: f64 = 0.8;

/// Finds a session by what people call it.
pub fn resolve(store: &Store, name: &str) -> Result<Session, RequestError> {
    match store.find_session(name)? {
        SessionMatch::One(session) => Ok(*session),
        SessionMatch::None => {
            if name == LAST
                && let Some(last) = store.find_last_terminal_session()?
            {
                return Ok(last);
            }
            let names = store.names_of_sessions()?;
            let meant = nearest(name, &names);
            let meant = meant.map(|meant| format!(" Did you mean {meant:?}?"));
            Err(refuse(
                RefusalKind::UnknownSession,
                format!(
                    "No session is called {name:?}.{}",
                    meant.unwrap_or_default()
                ),
                "see `hermesctl sessions`",
            ))
        }
        SessionMatch::Many(found) => Err(refuse(
            RefusalKind::AmbiguousSession,
            format!("{name:?} matches several sessions:\n{}", list(&found)),
            "give more of the id or of the title",
        )),
    }
}

/// The name that a person may have meant: one that is alike, or that has a word that is alike.
fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let name = name.to_lowercase();
    let likeness = |known: &str| {
        let known = known.to_lowercase();
        let words = known.split_whitespace().chain([known.as_str()]);
        words
            .map(|word| {
                strsim::normalized_damerau_levenshtein(&name, word)
                    .max(strsim::jaro_winkler(&name, word) - 0.1)
            })
            .fold(0.0, f64::max)
    };
    let rated = names.iter().map(|known| (likeness(known), known.as_str()));
    rated
        .filter(|(rate, _)| *rate >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, known)| known)
}

/// How a session was chosen for a request that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChosenBy {
    /// `hermesctl chat` has it open in the client's terminal.
    Chat,
    /// Hermes has a note about it for the client's terminal.
    Terminal,
    /// It is the only candidate.
    Only,
}

impl ChosenBy {
    pub fn as_str(self) -> &'static str {
        match self {
            ChosenBy::Chat => "chat",
            ChosenBy::Terminal => "terminal",
            ChosenBy::Only => "only",
        }
    }
}

/// A session that ended longer ago than this, in seconds, is not a candidate.
const ENDED_LONG_AGO: f64 = 86_400.0;

/// The session for a request that names none: the session of the client's terminal, else the only candidate.
pub async fn resolve_unnamed(
    store: &Store,
    tty: Option<&str>,
    terminal: &TerminalNames,
) -> Result<(Session, ChosenBy), RequestError> {
    if let Some(tty) = tty {
        let here = store.sessions_of_tty(tty).await?;
        if let [session] = here.as_slice() {
            return Ok((resolve(store, &session.id)?, ChosenBy::Chat));
        }
    }
    if let Some(session) = noted(store, terminal)? {
        return Ok((session, ChosenBy::Terminal));
    }
    only(store).await.map(|session| (session, ChosenBy::Only))
}

/// The session in Hermes' note about this terminal, if it exists and did not end long ago.
fn noted(store: &Store, terminal: &TerminalNames) -> Result<Option<Session>, RequestError> {
    let now = clock::now();
    let home = store.path().parent().unwrap_or(Path::new("."));
    for id in noted_sessions(home, terminal, now) {
        let Some(session) = store.session_with_id(&id)? else {
            continue;
        };
        if session
            .ended_at
            .is_none_or(|ended| now - ended < ENDED_LONG_AGO)
        {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

async fn only(store: &Store) -> Result<Session, RequestError> {
    let candidates = store.terminal_candidates().await?;
    let fitting = fitting(&candidates);
    match fitting.as_slice() {
        [only] => resolve(store, &only.session.id),
        [] => Err(refuse(
            RefusalKind::UnknownSession,
            "There is nothing to hand off yet. Start a conversation with `hermesctl chat`.",
            "an older session can be named with --session: see `hermesctl sessions`",
        )),
        several => Err(refuse(
            RefusalKind::AmbiguousSession,
            format!(
                "there are several terminal sessions that you may mean:\n{}",
                several
                    .iter()
                    .map(|c| line(&c.session, c.active_at, "last active"))
                    .collect::<Vec<_>>()
                    .join("\n")
            ),
            "name one with --session",
        )),
    }
}

/// The recent live sessions; else all live sessions; else those that ended recently.
fn fitting(candidates: &[Candidate]) -> Vec<&Candidate> {
    let live: Vec<&Candidate> = candidates
        .iter()
        .filter(|c| c.session.ended_at.is_none())
        .collect();
    let recent = |c: &&Candidate| c.recent;
    match live.len() {
        0 => candidates.iter().filter(recent).collect(),
        _ if live.iter().any(recent) => live.into_iter().filter(recent).collect(),
        _ => live,
    }
}

/// The session to bring back from a chat if the request names none: the only one that was handed off.
pub async fn handed_off(store: &Store) -> Result<Session, RequestError> {
    let mut away = store.sessions_on_chats(11).await?;
    match (away.pop(), away.is_empty()) {
        (Some(session), true) => Ok(session),
        (None, _) => Err(refuse(
            RefusalKind::UnknownSession,
            "no session that was handed off is on a chat",
            "name one; see `hermesctl sessions`",
        )),
        (Some(last), false) => {
            away.push(last);
            Err(refuse(
                RefusalKind::AmbiguousSession,
                format!("several sessions are on chats:\n{}", list(&away)),
                "name one",
            ))
        }
    }
}

fn list(sessions: &[Session]) -> String {
    let lines = sessions.iter().map(|s| line(s, s.started_at, "started"));
    lines.collect::<Vec<_>>().join("\n")
}

fn line(session: &Session, at: f64, what: &str) -> String {
    format!(
        "  {}  {}, {} on {}, {what} {} ago",
        session.id,
        session.name(),
        counted(session.message_count, "message"),
        session.source,
        clock::age(clock::now() - at)
    )
}

fn counted(count: i64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str, live: bool, recent: bool) -> Candidate {
        Candidate {
            session: Session {
                ended_at: (!live).then_some(1.0),
                ..Session::unsaved(id, 0.0)
            },
            active_at: 0.0,
            recent,
        }
    }

    #[test]
    fn the_nearest_name_is_suggested_and_no_other() {
        let names = ["Fix the parser", "Plan the trip", "20260101"].map(str::to_owned);
        assert_eq!(nearest("parsr", &names), Some("Fix the parser"));
        assert_eq!(nearest("fix teh parser", &names), Some("Fix the parser"));
        assert_eq!(nearest("Tripp", &names), Some("Plan the trip"));
        assert_eq!(nearest("holiday", &names), None);
    }

    #[test]
    fn live_beats_ended_and_recent_beats_stale() {
        let (live, stale) = (
            candidate("live", true, true),
            candidate("stale", true, false),
        );
        let ended = candidate("ended", false, true);
        let ids = |of: &[&Candidate]| -> Vec<String> {
            let owned: Vec<Candidate> = of.iter().map(|c| (*c).clone()).collect();
            fitting(&owned)
                .iter()
                .map(|c| c.session.id.clone())
                .collect()
        };
        assert_eq!(ids(&[&live, &stale, &ended]), ["live"]);
        assert_eq!(ids(&[&stale, &ended]), ["stale"]);
        assert_eq!(ids(&[&ended]), ["ended"]);
        assert_eq!(ids(&[&live, &live, &stale]), ["live", "live"]);
        assert_eq!(ids(&[&stale, &stale]), ["stale", "stale"]);
        assert_eq!(ids(&[]), Vec::<String>::new());
    }
}
