//! Asking for a handoff: every reason to say no, at once and with its remedy.

use super::pipeline::unavailable;
use super::{Handoff, Via};
use crate::clock;
use crate::platform::{Availability, Platforms};
use crate::session::Session;
use crate::store::{SessionMatch, Store, StoreError};

/// The longest note that is passed on.
const LONGEST_NOTE: usize = 4000;

#[derive(Debug, Clone, Default)]
pub struct Wish {
    pub platform: String,
    /// Id, title or beginning of an id; `None` for the only live terminal session.
    pub session: Option<String>,
    pub note: Option<String>,
}

/// Why a request is refused: a stable word for programs, a sentence and a remedy for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn refuse(kind: &'static str, message: impl Into<String>, hint: impl Into<String>) -> RequestError {
    let hint = Some(hint.into()).filter(|h: &String| !h.is_empty());
    RequestError::Refused(Refusal {
        kind,
        message: message.into(),
        hint,
    })
}

/// Checks the wish and writes the pending row. `is_busy` says whether a turn of a session runs right now.
pub async fn request(
    store: &Store,
    platforms: &Platforms,
    is_busy: impl Fn(&str) -> bool,
    wish: &Wish,
    via: Via,
) -> Result<Handoff, RequestError> {
    check_platform(platforms, &wish.platform)?;
    if wish
        .note
        .as_ref()
        .is_some_and(|n| n.chars().count() > LONGEST_NOTE)
    {
        return Err(refuse(
            "note_too_long",
            format!("the note is longer than {LONGEST_NOTE} characters"),
            "shorten it; the agent has the whole conversation anyway",
        ));
    }
    let session = match &wish.session {
        Some(name) => resolve(store, name)?,
        None => only_live_session(store).await?,
    };
    if let Some(state @ ("pending" | "running")) = session.handoff_state.as_deref() {
        return Err(in_flight(format!(
            "a handoff of {} is {state} already",
            session.id
        )));
    }
    if is_busy(&session.id) {
        return Err(refuse(
            "turn_in_progress",
            format!(
                "the agent is in the middle of a turn of \"{}\"",
                session.name()
            ),
            "wait until it has answered, then ask again",
        ));
    }
    match store
        .request_handoff(&session.id, &wish.platform, wish.note.as_deref(), via)
        .await
    {
        Ok(handoff) => Ok(handoff),
        Err(StoreError::Conflict(reason)) => Err(in_flight(reason)),
        Err(e) => Err(e.into()),
    }
}

fn in_flight(message: String) -> RequestError {
    refuse(
        "in_flight",
        message,
        "see `hermesctl handoffs`; `hermesctl handoffs cancel ID` stops it",
    )
}

fn check_platform(platforms: &Platforms, name: &str) -> Result<(), RequestError> {
    let availability = platforms.availability(name);
    let message = unavailable(name, &availability);
    match availability {
        Availability::Up | Availability::Connecting(_) => Ok(()),
        Availability::Unknown => Err(refuse(
            "unknown_platform",
            message,
            "see `hermesctl platforms`",
        )),
        Availability::Off(_) => Err(refuse("platform_off", message, "see `hermesctl platforms`")),
        Availability::NoHome => Err(refuse(
            "no_home_channel",
            message,
            "see `hermesctl platforms`",
        )),
    }
}

/// The session of this name, for every verb that takes one.
pub fn resolve(store: &Store, name: &str) -> Result<Session, RequestError> {
    match store.find_session(name)? {
        SessionMatch::One(session) => Ok(*session),
        SessionMatch::None => Err(refuse(
            "unknown_session",
            format!("there is no session called {name:?}"),
            "see `hermesctl sessions`",
        )),
        SessionMatch::Many(found) => {
            let list = list(&found);
            Err(refuse(
                "ambiguous_session",
                format!("{name:?} fits several sessions:\n{list}"),
                "give more of the id, or the title",
            ))
        }
    }
}

async fn only_live_session(store: &Store) -> Result<Session, RequestError> {
    let mut live = store.live_terminal_sessions().await?;
    match (live.pop(), live.is_empty()) {
        (Some(session), true) => Ok(resolve(store, &session.id)?),
        (None, _) => Err(refuse(
            "unknown_session",
            "there is no live terminal session",
            "name one with --session; see `hermesctl sessions`",
        )),
        (Some(last), false) => {
            live.push(last);
            Err(refuse(
                "ambiguous_session",
                format!("there are several live terminal sessions:\n{}", list(&live)),
                "name one with --session",
            ))
        }
    }
}

fn list(sessions: &[Session]) -> String {
    let now = clock::now();
    let line = |s: &Session| {
        format!(
            "  {}  {}, {} messages, started {} ago",
            s.id,
            s.name(),
            s.message_count,
            clock::age(now - s.started_at)
        )
    };
    sessions.iter().map(line).collect::<Vec<_>>().join("\n")
}
